"""Which label makes a pod governed: asked of the real kube-scheduler, answered by the extender."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

WITHIN = 60
OLDER = "runai/queue"


def labelled(yard: Yard, name: str, older: str, newer: str = "") -> Json:
    """A pod of the test that names queues by these labels."""
    pod = yard.pod(name, newer)
    pod["metadata"]["labels"][OLDER] = older
    return pod


def warnings(yard: Yard) -> str:
    """What the engine notes about the cluster as it is."""
    command = [sys.executable, "-m", "gpuyard.cli", "plan", "--live", "--kubeconfig", str(yard.cluster.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stderr


@pytest.mark.row("Q-37", case="runai-only")
def test_the_older_label_alone_is_enough_to_be_held_by_a_limit(yard: Yard) -> None:
    queue = yard.queue("red", limit=1)
    yard.apply(labelled(yard, "first", queue))
    yard.until(lambda: yard.placed() == {"first"}, WITHIN, "the first runs")
    yard.apply(labelled(yard, "second", queue))
    yard.until(lambda: f"queue {queue} has a limit of 1 GPU" in yard.verdicts().get("second", ""), WITHIN, "it is told")
    assert yard.placed() == {"first"}


@pytest.mark.row("Q-37", case="both")
def test_of_two_labels_the_newer_one_counts_and_a_warning_names_both(yard: Yard) -> None:
    newer, older = yard.queue("blue"), yard.queue("red", limit=0)
    yard.apply(labelled(yard, "p", older, newer))
    yard.until(lambda: yard.placed() == {"p"}, WITHIN, "it runs by the newer label's queue")
    assert f"two queues are named, {newer} and {older}: {newer} counts" in warnings(yard)


@pytest.mark.row("Q-37", case="neither")
def test_a_pod_without_either_label_is_held_by_no_queue(yard: Yard) -> None:
    yard.queue("red", limit=0)
    yard.submit("p")
    yard.until(lambda: yard.placed() == {"p"}, WITHIN, "it runs")
