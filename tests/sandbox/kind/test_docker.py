"""The docker command: a program in its place shows what is asked of it and what we make of its answers."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.kind import docker
from gpuyard.sandbox.kind.docker import Docker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a script in docker's place; the file it returns has the arguments of each call."""

    def make(script: str) -> Path:
        program = tmp_path / "docker"
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return tmp_path / "calls"

    return make


def test_an_engine_that_tells_its_version_answers(engine: Callable[[str], Path]) -> None:
    engine("echo 28.1")
    assert Docker().answers()


def test_an_engine_that_refuses_does_not(engine: Callable[[str], Path]) -> None:
    engine("echo permission denied >&2; exit 1")
    assert not Docker().answers()


def test_a_machine_without_the_command_has_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not Docker().answers()


def test_an_engine_that_is_silent_does_not_answer(
    engine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "ANSWER_WITHIN", 0.2)
    engine("exec sleep 30")
    assert not Docker().answers()


def test_its_variables_lead_to_the_engine(engine: Callable[[str], Path]) -> None:
    engine('echo "$DOCKER_HOST"')
    assert Docker({"DOCKER_HOST": "unix:///run/mine.sock"}).ask("info") == "unix:///run/mine.sock"


def test_a_failure_tells_the_command_and_the_last_lines(engine: Callable[[str], Path]) -> None:
    engine("echo one; echo no space left >&2; exit 3")
    with pytest.raises(SandboxError) as caught:
        Docker().ask("build", ".")
    assert caught.value.step == "docker build"
    assert caught.value.log == ("one", "no space left")
    assert "`docker system df`" in caught.value.remedy


def test_a_build_gets_its_values_and_labels(engine: Callable[[str], Path], tmp_path: Path) -> None:
    calls = engine("")
    Docker().build(tmp_path, "mine:v1", {"made.by": "us"}, base="debian")
    assert calls.read_text().split() == [
        "build", "--network", "host", "--tag", "mine:v1", "--label", "made.by=us", "--build-arg", "BASE=debian",
        str(tmp_path),
    ]  # fmt: skip


def test_a_pull_that_succeeds_is_true(engine: Callable[[str], Path]) -> None:
    engine("echo Pulling; echo Done")
    assert Docker().pull("an/image")


def test_a_pull_that_is_refused_is_false(engine: Callable[[str], Path]) -> None:
    engine("exit 1")
    assert not Docker().pull("an/image")


def test_a_registry_that_says_nothing_is_given_up(
    engine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "FIRST_WORD_WITHIN", 0.3)
    engine("exec sleep 30")
    begin = time.monotonic()
    assert not Docker().pull("an/image")
    assert time.monotonic() - begin < 5


def test_a_slow_pull_that_gets_on_is_waited_for(engine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "FIRST_WORD_WITHIN", 0.3)
    engine("echo Pulling; sleep 1; echo Done")
    assert Docker().pull("an/image")


def test_people_are_told_where_the_engine_is() -> None:
    assert Docker().name == "your Docker engine"
    assert Docker({"DOCKER_HOST": "unix:///run/x.sock"}).name == "unix:///run/x.sock"
