"""`gpuyard demo`: what it prints is what happens, and each thing that it says to try works as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from gpuyard.sandbox import find, names, processes
from gpuyard.sandbox.folders import Folders

from tests.cli.demo import as_written
from tests.cli.test_story import STEP_2, STEP_3
from tests.cluster.share import others_share

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(900), pytest.mark.alone]

ROOT = Path(__file__).parents[2]
AT_MOST = 60
"""Seconds for all of it, where Kubernetes' programs are there already."""


@pytest.fixture(scope="module")
def name(sandbox_names: Iterator[str]) -> Iterator[str]:
    chosen = next(sandbox_names)
    yield chosen
    demo("--name", chosen, "--down")


class Played(NamedTuple):
    """What the demo printed the first time, and for how long one waits who has the machine to himself."""

    text: str
    seconds: float


@pytest.fixture(scope="module")
def played(name: str) -> Played:
    begin, share = time.monotonic(), others_share()
    return Played(demo("--name", name), (time.monotonic() - begin) / share)


@pytest.fixture(scope="module")
def shown(played: Played) -> str:
    return played.text


def demo(*arguments: str) -> str:
    """Run the command as a shell would; what it prints."""
    command = [sys.executable, "-m", "gpuyard.cli", "demo", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=700, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def to_try(text: str) -> list[str]:
    """The commands that the demo says to try, each with the lines that belong to it."""
    block = text.split("\nTry\n")[1].split("\n\n", maxsplit=1)[0].replace("\\\n", "")
    return [line.strip() for line in block.splitlines() if not line.strip().startswith("#")]


def shell(text: str, command: str) -> str:
    """Type a command after what the demo says to go on with."""
    go_on = text.split("Go on with\n")[1].split("\n\n", maxsplit=1)[0]
    done = subprocess.run(  # noqa: S602 - the lines are the demo's own, to be typed into a shell
        f"{go_on}\n{command}", shell=True, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, command + done.stdout + done.stderr
    return done.stdout


def placed(name: str) -> set[str]:
    """The pods of the demo that have a node."""
    cluster = find(name)
    assert cluster
    columns = "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName"
    rows = cluster.kubectl("get", "pods", "--namespace", "quickstart", "--no-headers", "-o", columns).splitlines()
    return {pod for pod, node in map(str.split, rows) if node != "<none>"}


def wait_until_placed(name: str, pod: str) -> None:
    end = time.monotonic() + 60
    while pod not in placed(name):
        assert time.monotonic() < end, f"{pod} does not run"
        time.sleep(0.2)


AT_ONCE = {"red-train-1", "red-train-2", "red-notebook", "blue-train-1", "blue-notebook"}
ALL = AT_ONCE | {"red-train-3"}
LIMIT = "queue red has a limit of 16 GPUs"


def test_what_is_printed_is_what_happens(name: str, shown: str) -> None:
    assert placed(name) == ALL
    for pod in ALL:
        assert re.search(rf"^\[ *[\d.]+ s\] {pod} runs on node-\d$", shown, re.MULTILINE)
    assert re.search(r"^red +12 +20 +20 +0$", shown, re.MULTILINE)


def test_a_small_job_moves_for_a_large_one_and_both_are_told_of(shown: str) -> None:
    assert textwrap.indent(f"{STEP_2}\n{STEP_3}", "  ") in as_written(shown)


def test_nobody_waits_for_it_longer_than_a_minute(played: Played) -> None:
    assert played.seconds < AT_MOST


def test_who_waits_is_asked_about_and_runs_as_advised(shown: str) -> None:
    said = [f"red-train-3 waits: {LIMIT}", "why? gpuyard explain pod/red-train-3 -n quickstart", f"OverLimit: {LIMIT}"]
    said += ["raise the limit of queue red from 16 GPUs to 20 GPUs", "as advised: kubectl patch", "red-train-3 runs on"]
    lines = " ".join(shown.split())
    found = [lines.find(part) for part in said]
    assert -1 not in found
    assert found == sorted(found)


def test_it_is_plain_text_of_eighty_columns(shown: str) -> None:
    assert "\x1b" not in shown
    printed = [line for line in shown.splitlines() if not line.strip().startswith("export ")]
    assert max(map(len, printed)) <= 80


def test_the_default_scheduler_binds_and_says_why_not(name: str, shown: str) -> None:  # noqa: ARG001 - it must have run
    cluster = find(name)
    assert cluster
    events = cluster.kubectl("get", "events", "--namespace", "quickstart", "-o", "wide")
    assert re.search(r"Scheduled +pod/red-train-1 +default-scheduler", events)
    assert re.search(rf"FailedScheduling +pod/red-train-3 +default-scheduler.*{LIMIT}", events)


def test_a_second_time_it_is_harmless(name: str, shown: str) -> None:  # noqa: ARG001 - it must have run
    before = find(name)
    assert before
    running = before.processes
    again = demo("--name", name)
    assert placed(name) == ALL
    after = find(name)
    assert after
    assert after.processes == running
    assert "training-job" not in again
    assert re.search(r"^red +12 +20 +20 +0$", again, re.MULTILINE)


def test_each_thing_to_try_works(name: str, shown: str) -> None:
    lower, delete, again, why, top, leave, look, well = to_try(shown)
    shell(shown, lower)
    shell(shown, delete)
    shell(shown, again)
    assert LIMIT in shell(shown, why)
    assert re.search(r"red-train-3\b.*OverLimit", shell(shown, top))
    shell(shown, leave)
    wait_until_placed(name, "red-train-3")
    assert re.search(r"red-train-3 .* node-\d", shell(shown, look))
    assert "no pod bypasses the queues" in shell(shown, well)


def test_down_leaves_nothing(name: str, shown: str) -> None:  # noqa: ARG001 - it must have run
    folder = Folders.of_user().sandboxes / name
    assert f"the demo {name} is removed" in demo("--name", name, "--down")
    assert not folder.exists()
    assert not processes.of(folder)
    assert name not in names()
    assert f"there is no demo {name}" in demo("--name", name, "--down")
