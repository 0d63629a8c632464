"""Who goes first, and what queues say: through the real kube-scheduler."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.test_extender_filter import VOLUMES

if TYPE_CHECKING:
    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

A_LOOK = 3
"""Seconds in which the planner has surely looked: who came after its last look stands in no line yet."""


def status(yard: Yard, queue: str) -> Json:
    found: Json = json.loads(yard.cluster.kubectl("get", "queues.scheduling.run.ai", queue, "-o", "json"))
    return found.get("status", {})  # type: ignore[no-any-return]


def fill(yard: Yard, *, free: int) -> None:
    """Leave so many GPUs of the cluster free: pods of nobody take the others, in one piece and a rest."""
    rest = 8 - free
    yard.submit("rock-1", "rock-2", "rock-3", gpus=8)
    if rest:
        yard.submit("rest", gpus=rest)
    yard.until(lambda: len(yard.placed()) == 3 + bool(rest), 30, "the rest of the cluster is taken")


@pytest.mark.row("Q-45")
def test_the_last_gpu_goes_to_the_department_that_ranks_first(yard: Yard) -> None:
    first, second = yard.queue("dept-1", priority=200), yard.queue("dept-2", priority=100)
    b = yard.queue("b", parentQueue=first, priority=100)
    c = yard.queue("c", parentQueue=second, priority=150)
    fill(yard, free=1)
    yard.submit("last", queue=b)
    yard.until(lambda: "last" in yard.placed(), 20, "the cluster is full")
    yard.submit("c", queue=c)
    yard.submit("b", queue=b)
    yard.until(lambda: {"b", "c"} <= set(yard.verdicts()), 20, "both wait")
    yard.rests(lambda: "last" in yard.placed(), A_LOOK, "the planner has both in its line")
    yard.delete("last")
    yard.until(lambda: "b" in yard.placed(), 40, "b has it")
    assert "c" not in yard.placed()


@pytest.mark.row("E-33", case="ranked")
def test_whoever_ranks_first_is_served_first(yard: Yard) -> None:
    first, second = yard.queue("first", quota=4), yard.queue("second", quota=0)
    fill(yard, free=4)
    yard.submit("last", gpus=4)
    yard.until(lambda: "last" in yard.placed(), 20, "the cluster is full")
    yard.submit(*(f"b-{number}" for number in range(4)), queue=second)
    yard.submit(*(f"a-{number}" for number in range(4)), queue=first)
    yard.until(lambda: len(yard.verdicts()) == 8, 20, "all wait")
    yard.rests(lambda: "last" in yard.placed(), A_LOOK, "the planner has all in its line")
    yard.delete("last")
    yard.until(lambda: len([name for name in yard.placed() if name.startswith("a-")]) == 4, 40, "the first are served")


@pytest.mark.row("E-33", case="blocked")
def test_whom_nothing_lets_run_starves_nobody(yard: Yard) -> None:
    first, second = yard.queue("first", quota=4), yard.queue("second", quota=0)
    fill(yard, free=4)
    yard.submit(*(f"a-{number}" for number in range(4)), queue=first, volumes=VOLUMES)
    yard.submit(*(f"b-{number}" for number in range(4)), queue=second)
    yard.until(lambda: {f"b-{number}" for number in range(4)} <= yard.placed(), 15, "the second are served")


@pytest.mark.alone
@pytest.mark.row("Q-46")
def test_a_queue_says_within_five_seconds_what_it_holds_and_is_due(yard: Yard) -> None:
    department = yard.queue("dept", quota=8)
    team = yard.queue("team", quota=2, parentQueue=department)
    yard.submit("a", "b", "c", queue=team)
    yard.until(lambda: len(yard.placed()) == 3, 20, "they run")

    def told() -> bool:
        found = status(yard, team)
        held = found.get("allocated", {}).get("nvidia.com/gpu")
        over = any(one == {"type": "OverQuota", "status": "True"} for one in found.get("conditions", ()))
        return held == "3" and found["requested"]["nvidia.com/gpu"] == "3" and over

    yard.until(told, 5, "the team's status is what it holds")
    assert status(yard, team)["fairShare"]["nvidia.com/gpu"] == "3"
    assert status(yard, department)["childQueues"] == [team]
    assert status(yard, department)["allocated"]["nvidia.com/gpu"] == "3"
    printed = yard.cluster.kubectl("get", "queues.scheduling.run.ai", team)
    assert "USED" in printed
    assert "FAIR-SHARE" in printed
