"""No sandbox outlives the test run that brought it up."""

import os
import subprocess
import sys

import pytest
from gpuyard.sandbox import SandboxError, binaries
from gpuyard.sandbox.kind import engines

from tests import grounds
from tests.grounds import leftovers
from tests.plugins.catalog import GROUNDS
from tests.run import STAGES
from tests.sandbox.workshop import raising

ALIVE, DEAD = 4711, 4712


def test_sandboxes_of_a_run_that_is_over_are_left_over() -> None:
    names = ["default", "demo", f"tests-{ALIVE}-1", f"tests-{DEAD}-1", f"tests-{DEAD}-2"]
    assert leftovers(names, runs=lambda pid: pid == ALIVE) == [f"tests-{DEAD}-1", f"tests-{DEAD}-2"]


def test_a_users_sandbox_is_let_be_whatever_its_name() -> None:
    names = ["tests", "tests-", "tests-mine", "tests-of-4712", "tests-2025", f"tests-{DEAD}-mine", f"demo-{DEAD}-1"]
    assert leftovers(names, runs=lambda _: False) == []


def test_a_process_that_runs_owns_its_sandboxes() -> None:
    assert leftovers([f"tests-{os.getpid()}-1", "tests-1-1"]) == []


def test_a_process_that_has_ended_owns_none() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert leftovers([f"tests-{process.pid}-1"]) == [f"tests-{process.pid}-1"]


def test_a_cache_that_cannot_be_written_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(binaries, "ensure", raising(OSError(30, "Read-only file system")))
    assert grounds.main(["processes"]) == 1
    assert capsys.readouterr().err == (
        "ground processes cannot be had: [Errno 30] Read-only file system; XDG_CACHE_HOME names another place\n"
    )


def test_a_machine_without_an_engine_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engines, "borrowed", raising(SandboxError("Docker engine", "none answers")))
    assert grounds.main(["kind"]) == 1
    assert capsys.readouterr().err == "ground kind cannot be had: Docker engine: none answers\n"


def test_every_ground_of_clusters_has_its_needs_made_before_its_tests() -> None:
    commands = {command[-1] for stage in STAGES for command in stage.commands if "tests.grounds" in command}
    assert commands == set(grounds.NEEDED) == set(GROUNDS[1:])
