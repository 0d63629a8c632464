"""Plans of other writers through the real API server and kube-scheduler: room is reserved before it is freed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import SandboxError

from tests.cluster.planner import evicted, with_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

ANSWERED = 2
"""Seconds in which a plan is answered."""


class Writer:
    """Somebody who frees room and wants it kept for workloads."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.written: set[str] = set()

    def plan(self, name: str, *promises: Json, workload: str = "job", **spec: object) -> str:
        """Write a plan; its full name."""
        full = f"elastic-{self.yard.namespace}-{name}"
        about = f"{self.yard.namespace}/{workload}"
        body = {"phase": "elastic", "workload": about, "promises": promises, **spec}
        self.yard.apply({"apiVersion": "gpuyard.io/v1alpha1", "kind": "Plan", "metadata": {"name": full}, "spec": body})
        self.written.add(full)
        return full

    def promise(self, node: str, gpus: int, workload: str = "job", **more: object) -> Json:
        return {"workload": f"{self.yard.namespace}/{workload}", "node": node, "amounts": {"gpus": gpus}, **more}

    def status(self, plan: str) -> Json:
        found: Json = json.loads(self.yard.cluster.kubectl("get", "plans.gpuyard.io", plan, "-o", "json"))
        return found.get("status") or {}

    def state(self, plan: str) -> str:
        return str(self.status(plan).get("state", ""))

    def accepted(self, plan: str) -> None:
        """Wait until the extender has accepted a plan."""
        self.yard.until(lambda: self.status(plan).get("accepted") is True, ANSWERED, f"{plan} is accepted")

    def delete(self, *plans: str) -> None:
        self.yard.cluster.kubectl("delete", "plans.gpuyard.io", "--ignore-not-found", *plans)

    def group(self, name: str, queue: str, minimum: int = 1) -> dict[str, str]:
        """A PodGroup; the annotation of its pods."""
        self.yard.apply(
            {
                "apiVersion": "scheduling.run.ai/v2alpha2",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": self.yard.namespace},
                "spec": {"minMember": minimum, "queue": queue},
            }
        )
        return {"pod-group-name": name}


@pytest.fixture
def writer(yard: Yard) -> Iterator[Writer]:
    made = Writer(yard)
    yield made
    made.delete(*made.written)


def at(node: str) -> Json:
    """Node affinity to one node by its name, as a DaemonSet's pods have it."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.row("B-70", case="live")
def test_idle_room_is_kept_for_a_workload_whose_pods_do_not_exist_yet(yard: Yard, writer: Writer) -> None:
    queue = yard.queue("team")
    plan = writer.plan("1", writer.promise("node-1", 8))
    writer.accepted(plan)
    yard.submit("other", queue=queue, gpus=8, affinity=at("node-1"))
    yard.submit("stranger", gpus=8, affinity=at("node-1"))
    yard.until(lambda: yard.verdicts().keys() == {"other", "stranger"}, 15, "both are refused")
    note = writer.group("job", queue)
    for name in ("job-2-a", "job-2-b"):
        yard.submit(name, queue=queue, gpus=4, annotations=note, affinity=at("node-1"))
    yard.until(lambda: yard.placed() == {"job-2-a", "job-2-b"}, 15, "the workload's pods have the room, in two parts")
    yard.until(lambda: writer.state(plan) == "Kept", 10, "the plan is kept")


@pytest.mark.row("B-71", case="live")
def test_a_workload_that_shrinks_loses_nothing_to_pods_that_waited_before_it(yard: Yard, writer: Writer) -> None:
    queue = yard.queue("team")
    job, newcomer = writer.group("job", queue), writer.group("newcomer", queue)
    yard.submit("job-1-0", queue=queue, gpus=8, annotations=job, affinity=at("node-1"))
    yard.submit(*(f"full-{number}" for number in range(3)), queue=queue, gpus=8)
    yard.until(lambda: len(yard.placed()) == 4, 20, "the cluster is full")
    older = [f"older-{number}" for number in range(3)]
    yard.submit(*older, queue=queue, gpus=1)
    yard.until(lambda: yard.verdicts().keys() >= set(older), 15, "three wait")
    time.sleep(1.1)  # creation times are whole seconds
    plan = writer.plan("2", writer.promise("node-1", 5), writer.promise("node-1", 3, "newcomer"))
    writer.accepted(plan)
    assert evicted(yard) == [], "nobody is evicted for it"
    yard.delete("job-1-0")
    yard.rests(lambda: not yard.placed() & set(older), 3, "nobody else gets what is freed")
    yard.submit("job-2-0", queue=queue, gpus=5, annotations=job, affinity=at("node-1"))
    yard.submit("newcomer-1-0", queue=queue, gpus=3, annotations=newcomer, affinity=at("node-1"))
    yard.until(lambda: yard.placed() >= {"job-2-0", "newcomer-1-0"}, 15, "both have their rooms")
    yard.until(lambda: writer.state(plan) == "Kept", 10, "the plan is kept")


@pytest.mark.row("B-72", case="live")
def test_a_plan_for_room_that_others_hold_is_impossible_and_says_why(yard: Yard, writer: Writer) -> None:
    yard.submit("holder", queue=yard.queue("team"), gpus=6, affinity=at("node-1"))
    yard.until(lambda: yard.placed() == {"holder"}, 15, "it runs")
    plan = writer.plan("1", writer.promise("node-1", 3))
    yard.until(lambda: writer.state(plan) == "Impossible", ANSWERED, "it is answered")
    status = writer.status(plan)
    assert status["accepted"] is False
    assert "3 GPUs are asked for" in status["message"]
    assert status["message"].endswith("2 will be free for it")


@pytest.mark.row("B-73", case="live")
def test_the_room_of_a_plan_that_is_deleted_is_free(yard: Yard, writer: Writer) -> None:
    queue = yard.queue("team")
    plan = writer.plan("1", writer.promise("node-1", 8))
    writer.accepted(plan)
    yard.submit("other", queue=queue, gpus=8, affinity=at("node-1"))
    yard.until(lambda: "other" in yard.verdicts(), 15, "it is refused")
    writer.delete(plan)
    yard.until(lambda: yard.placed() == {"other"}, 15, "it starts")


@pytest.mark.row("B-74", case="live")
def test_a_plan_of_another_phase_that_the_extender_did_not_write_evicts_nobody(yard: Yard, writer: Writer) -> None:
    yard.submit("victim", queue=yard.queue("team"), gpus=1)
    yard.until(lambda: yard.placed() == {"victim"}, 15, "it runs")
    pod = yard.one("victim")
    name = f"{yard.namespace}/victim"
    victim = {"pod": name, "uid": pod["metadata"]["uid"], "node": pod["spec"]["nodeName"], "reason": "forged"}
    plan = writer.plan("forged", phase="reclaim", evictions=[victim])
    yard.rests(lambda: not evicted(yard) and not writer.status(plan), 4, "nothing comes of it")
    with pytest.raises(SandboxError, match="evicts nobody"):
        writer.plan("evicting", phase="elastic", evictions=[victim])


@pytest.mark.row("B-75", case="live")
def test_plans_that_have_ended_go_after_a_while(yard: Yard, writer: Writer) -> None:
    ended = [writer.plan(str(number), writer.promise("nowhere", 1)) for number in range(3)]
    yard.until(lambda: {writer.state(plan) for plan in ended} == {"Impossible"}, 10, "all have ended")
    running = writer.plan("running", writer.promise("node-1", 1))
    with with_settings(yard.cluster, "plans: {keep: {count: 0}}\n"):
        left = f"elastic-{yard.namespace}-"
        yard.until(lambda: _named(yard, left) == {running}, 60, "those that ended are gone")


def _named(yard: Yard, prefix: str) -> set[str]:
    found = json.loads(yard.cluster.kubectl("get", "plans.gpuyard.io", "-o", "json"))
    return {plan["metadata"]["name"] for plan in found["items"] if plan["metadata"]["name"].startswith(prefix)}
