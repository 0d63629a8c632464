"""Who waits is woken when it can go, once, and rests otherwise."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")


def pokes(yard: Yard, *names: str) -> list[int]:
    """How often each pod was patched by the extender."""
    return [
        sum(event["userAgent"].startswith("gpuyard-extender") for event in yard.audit("patch", "pods", name=name))
        for name in names
    ]


BACK_OFF = 11
"""Seconds until kube-scheduler has asked again for everything that was in its back-off queue."""


def running(yard: Yard) -> set[str]:
    return {name for name, pod in yard.pods().items() if pod["status"].get("phase") == "Running"}


def ended(yard: Yard) -> set[str]:
    return {name for name, pod in yard.pods().items() if pod["status"].get("phase") == "Succeeded"}


@pytest.mark.row("E-17")
def test_a_raised_limit_wakes_each_waiting_pod_exactly_once(yard: Yard) -> None:
    queue = yard.queue("team", limit=8)
    yard.submit(*(f"run-{number}" for number in range(8)), queue=queue)
    yard.until(lambda: len(yard.placed()) == 8, 15, "eight run")
    late = [f"late-{number}" for number in range(4)]
    yard.submit(*late, queue=queue)
    yard.until(lambda: set(yard.verdicts()) == set(late), 15, "four wait")
    assert pokes(yard, *late) == [0, 0, 0, 0]
    yard.until(lambda: len(running(yard)) == 8, 15, "the eight say so, and wake nobody by it any more")
    yard.rests(lambda: len(yard.placed()) == 8, BACK_OFF, "who waits has been asked for the last time")
    yard.queue("team", limit=12)
    yard.until(lambda: len(yard.placed()) == 12, 15, "all run")
    assert pokes(yard, *late) == [1, 1, 1, 1]


def test_only_those_are_woken_for_whom_there_is_room(yard: Yard) -> None:
    queue = yard.queue("team", limit=0)
    yard.submit("a", "b", "c", queue=queue)
    yard.until(lambda: len(yard.verdicts()) == 3, 15, "three wait")
    yard.queue("team", limit=2)
    yard.until(lambda: len(yard.placed()) == 2, 15, "two run")
    assert sorted(pokes(yard, "a", "b", "c")) == [0, 1, 1]


@pytest.mark.row("E-18")
def test_room_left_by_finished_pods_is_used_and_a_poke_only_helps_where_kube_scheduler_knew_first(yard: Yard) -> None:
    queue = yard.queue("team", limit=1)
    names = [f"p-{number}" for number in range(6)]
    yard.submit(*names, queue=queue, annotations={"gpuyard.io/run-for": "2s"}, restartPolicy="Never")
    yard.until(lambda: ended(yard) == set(names), 120, "each has run in its turn")
    # kube-scheduler asks by itself at each end; one that it asks before the extender has heard of the end is poked.
    assert sum(pokes(yard, *names)) < len(names) - 1


@pytest.mark.row("E-27")
def test_five_hundred_refused_pods_rest(yard: Yard) -> None:
    queue = yard.queue("team", limit=0)
    names = [f"p-{number}" for number in range(500)]
    yard.submit(*names, queue=queue)

    def refused() -> int:
        return sum("has a limit of 0 GPUs" in verdict for verdict in yard.verdicts().values())

    def patched() -> Counter[str]:
        return Counter(event["objectRef"]["name"] for event in yard.audit("patch", "pods", subresource="status"))

    yard.until(lambda: refused() == 500, 120, "all are refused by their queue")
    before = patched()
    time.sleep(60)
    assert patched() - before == Counter(), "not one in a quiet minute"
    # Twice where kube-scheduler asked before the watch showed the pod: that was said first.
    assert set(before) == set(names)
    assert max(before.values()) <= 2
