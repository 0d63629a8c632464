"""`gpuyard demo --ground kind` tells the same story on real kubelets, by what users apply."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import kind

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("kind"), pytest.mark.timeout(1800), pytest.mark.story]

ROOT = Path(__file__).parents[2]


def demo(*arguments: str) -> str:
    """Run the command as a shell would; what it prints."""
    command = [sys.executable, "-m", "gpuyard.cli", "demo", "--ground", "kind", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def name(sandbox_names: Iterator[str]) -> Iterator[str]:
    yield (chosen := next(sandbox_names))
    kind.down(chosen)


def test_a_job_moves_for_another_and_the_one_beyond_its_limit_runs_as_advised(name: str) -> None:
    shown = demo("--name", name)
    where = dict(re.findall(r"^((?:red|blue)-\S+) +(?:red|blue) +\d+ +(\S+)", shown, re.MULTILINE))
    assert len(where) == 6, shown
    assert all("worker" in place for place in where.values()), shown
    assert "red-train-3 waits: queue red has a limit of 16 GPUs" in shown
    assert f"gpuyard demo --ground kind --name {name} --down" in shown
    # Which of several empty nodes is opened first is chance.
    stood = dict(re.findall(r"Allocating \d GPUs to (\S+) on node (\S+)$", shown, re.MULTILINE))
    first, second = stood["training-job-1"], stood["training-job-3"]
    assert f"Moving training-job-2 (2 GPUs) from {first} to {second}\n" in shown
    assert f"Scheduling training-job-a (4 GPUs) on {first}\n" in shown


def test_its_pods_really_run(name: str) -> None:
    cluster = kind.find(name)
    assert cluster
    running = ("--for=jsonpath={.status.phase}=Running", "--all", "--timeout=300s", "-n", "quickstart")
    assert cluster.kubectl("wait", "pods", *running).count("condition met") == 6


def test_the_doctor_finds_nothing_wrong_with_it(name: str) -> None:
    cluster = kind.find(name)
    assert cluster
    command = [sys.executable, "-m", "gpuyard.cli", "doctor", f"--kubeconfig={cluster.kubeconfig}"]

    def wrong() -> str:
        """What is found; nothing once all is well."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    # The second extender may still be coming up.
    deadline = time.monotonic() + 180
    while problems := wrong():
        assert time.monotonic() < deadline, problems
        time.sleep(2)


def test_it_ends_without_a_trace(name: str) -> None:
    assert demo("--name", name, "--down") == f"the demo {name} is removed\n"
    assert name not in kind.names()
