"""What people do to queues while pods run in them: bounds below use, a queue that goes, queues that form a circle."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.demo.stage import EXTENDER, start_extender

from tests.cluster.planner import evicted

if TYPE_CHECKING:
    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")

SOON = 60
"""Seconds within which what must happen happens, however busy the machine is."""

A_WHILE = 4
"""Seconds in which the planner has looked more than once."""


def run(yard: Yard, *names: str, queue: str, gpus: int) -> None:
    """These run, and were made more than a second before whatever comes next: creation times are whole seconds."""
    yard.submit(*names, queue=queue, gpus=gpus)
    yard.until(lambda: set(names) <= yard.placed(), SOON, "they run")
    time.sleep(1.1)


def test_a_limit_below_what_is_in_use_evicts_nobody_and_new_pods_wait(yard: Yard) -> None:
    team = yard.queue("team", limit=8)
    run(yard, "a", "b", queue=team, gpus=4)
    yard.queue("team", limit=4)
    yard.submit("late", queue=team)
    yard.until(lambda: f"queue {team} has a limit of 4 GPUs" in yard.verdicts().get("late", ""), SOON, "it waits")
    yard.rests(lambda: {"a", "b"} <= yard.placed() and not evicted(yard), A_WHILE, "those that run go on")
    yard.delete("a", "b")
    yard.until(lambda: "late" in yard.placed(), SOON, "it runs once there is room below the limit")


def test_a_quota_below_what_is_in_use_costs_only_what_is_over_it_and_only_when_somebody_asks(yard: Yard) -> None:
    first, second = yard.queue("first", quota=16), yard.queue("second", quota=16)
    # One after the other: two that are created at once are not packed together, and one may be moved later.
    for name in ("old-1", "old-2", "new-1", "new-2"):
        run(yard, name, queue=first, gpus=4)
    run(yard, "theirs-1", "theirs-2", queue=second, gpus=8)
    yard.queue("first", quota=8)
    yard.queue("second", quota=24)
    yard.rests(lambda: not evicted(yard), A_WHILE, "nobody has to go while nobody asks")
    yard.submit("theirs-3", "theirs-4", queue=second, gpus=4)
    yard.until(lambda: {"theirs-3", "theirs-4"} <= yard.placed(), SOON, "what is over the quota comes back")
    assert sorted(evicted(yard)) == ["new-1", "new-2"]
    yard.submit("late", queue=first, gpus=4)
    yard.until(lambda: "late" in yard.verdicts(), SOON, "a new one waits")
    yard.rests(
        lambda: len(evicted(yard)) == 2 and "late" not in yard.placed(), A_WHILE, "nobody in his quota goes for it"
    )


def test_a_queue_that_is_deleted_in_use_stops_nobody_and_starts_nobody(yard: Yard) -> None:
    team, other = yard.queue("team", quota=8), yard.queue("other")
    run(yard, "runs", queue=team, gpus=4)
    yard.cluster.kubectl("delete", "queues.scheduling.run.ai", team)
    yard.submit("late", queue=team)
    yard.until(lambda: f"there is no queue {team}" in yard.verdicts().get("late", ""), SOON, "a new one waits")
    run(yard, "theirs", queue=other, gpus=4)
    yard.rests(lambda: "runs" in yard.placed() and not evicted(yard), A_WHILE, "who runs goes on")
    yard.queue("team", quota=8)
    yard.until(lambda: "late" in yard.placed(), SOON, "it runs once the queue is back")


def test_queues_that_form_a_circle_hold_up_nobody_else_also_after_a_restart(yard: Yard) -> None:
    good = yard.queue("good", limit=2)
    low = yard.queue("low")
    high = yard.queue("high", parentQueue=low)
    yard.queue("low", parentQueue=high)
    run(yard, "before", queue=good, gpus=1)
    yard.cluster.kill(EXTENDER)
    start_extender(yard.cluster)
    yard.submit("after", "over", queue=good)
    yard.until(lambda: len(yard.placed()) == 2, SOON, "one more runs")
    yard.until(lambda: any(f"queue {good} has a limit" in said for said in yard.verdicts().values()), SOON, "not two")
    yard.queue("low", parentQueue="")
    yard.submit("lost", queue=high)
    yard.until(lambda: "lost" in yard.placed(), SOON, "it runs once the circle is open")
