"""Queues with nonsense on the real API server: told, and what held before goes on to hold, also across a restart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.demo.stage import EXTENDER, start_extender

if TYPE_CHECKING:
    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")


def told(yard: Yard, queue: str) -> list[Json]:
    """The Events on a queue."""
    found = json.loads(yard.cluster.kubectl("get", "events.events.k8s.io", "-n", "default", "-o", "json"))
    return [event for event in found["items"] if event["regarding"].get("name") == queue]


def reasons(yard: Yard, queue: str) -> dict[str, str]:
    """What the Events on a queue say, by their reasons."""
    return {event["reason"]: event["note"] for event in told(yard, queue)}


def conditions(yard: Yard, queue: str) -> dict[str, Json]:
    found = json.loads(yard.cluster.kubectl("get", "queues.scheduling.run.ai", queue, "-o", "json"))
    return {one["type"]: one for one in found.get("status", {}).get("conditions", ())}


def test_queues_that_name_each_other_hang_nobody_and_what_held_before_survives_a_restart(yard: Yard) -> None:
    department = yard.queue("dept", limit=2)
    team = yard.queue("team", parentQueue=department)
    yard.submit("first", queue=team)
    yard.until(lambda: "first" in yard.placed(), 30, "the team's queue is in use")
    yard.queue("dept", limit=2, parentQueue=team)
    yard.until(lambda: "Accepted" in conditions(yard, department), 30, "its status says that it is refused")
    invalid = "QueueInvalid"
    yard.until(lambda: invalid in {one["reason"] for one in told(yard, department)}, 30, "an Event says so, too")
    assert yard.metrics()['gpuyard_unreadable_objects{resource="queues"}'] >= 1
    yard.cluster.kill(EXTENDER)
    start_extender(yard.cluster)
    yard.submit("second", "third", queue=team)
    yard.until(lambda: len(yard.placed()) == 2, 60, "the department's limit of 2 is still in force")
    yard.until(lambda: "limit of 2 GPUs" in " ".join(yard.verdicts().values()), 60, "and holds the other one back")
    yard.queue("dept", limit=3)
    yard.until(lambda: len(yard.placed()) == 3, 60, "put right, it is used as it is written")
    yard.until(lambda: "Accepted" not in conditions(yard, department), 30, "and its status says no more")


def test_two_new_queues_that_name_each_other_hang_nobody(yard: Yard) -> None:
    one, other = f"{yard.namespace}-one", f"{yard.namespace}-other"
    yard.queue("one", parentQueue=other)
    yard.queue("other", parentQueue=one)
    yard.submit("lost", queue=one)
    yard.submit("plain", queue=yard.queue("team"))
    yard.until(lambda: "plain" in yard.placed(), 30, "others go on")
    yard.until(lambda: "lost" in yard.verdicts(), 30, "a pod of such a queue is told that it has none")
    yard.cluster.kubectl("delete", "queues.scheduling.run.ai", one, other)


def test_queues_say_by_events_why_their_pods_wait_and_who_takes_from_whom(yard: Yard) -> None:
    lender, owner = yard.queue("lender", limit=32, quota=0), yard.queue("owner", quota=8)
    lent = {f"lent-{n}" for n in range(4)}
    yard.submit(*lent, queue=lender, gpus=8)
    yard.until(lambda: yard.placed() == lent, 60, "all GPUs are lent")
    yard.submit("one-more", "another", queue=lender)
    yard.until(lambda: "OverLimit" in reasons(yard, lender), 60, "the queue says that its limit keeps pods waiting")
    assert reasons(yard, lender)["OverLimit"] == f"pods wait: queue {lender} has a limit of 32 GPUs"
    yard.submit("mine", queue=owner, gpus=8)
    yard.until(lambda: "mine" in yard.placed(), 90, "the owner gets GPUs back")
    yard.until(lambda: "Evicted" in reasons(yard, lender), 60, "the lender says for whom its pod had to leave")
    assert f"reclaim for {yard.namespace}/mine" in reasons(yard, lender)["Evicted"]
    yard.until(lambda: "ReclaimInProgress" in reasons(yard, owner), 60, "the owner says that room was made")
    described = yard.cluster.kubectl("describe", "queues.scheduling.run.ai", lender)
    assert "OverLimit" in described[described.index("Events:") :]
