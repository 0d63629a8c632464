"""Calls that nobody but kube-scheduler should make: what they say of pods changes nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.extender.ledger import NOT_SEEN_SENTENCE
from gpuyard.sandbox.demo.stage import manifests

if TYPE_CHECKING:
    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")

Json = dict[str, Any]
NODES = [f"node-{number}" for number in range(1, 5)]
WHILE = 15
"""Seconds of forging: the planner looks once a second, and better-ranked pods are waited for ten."""


def forged(pod: Json, queue: str, **metadata: object) -> Json:
    """The pod as a call says it is: in another queue, before all others, and newer than anything."""
    labels = {"kai.scheduler/queue": queue, "priorityClassName": "inference"}
    named = pod["metadata"] | {"labels": labels, "resourceVersion": str(2**63 - 1)} | metadata
    return pod | {"metadata": named, "spec": pod["spec"] | {"priority": 10**9}}


@pytest.mark.row("X-01")
def test_a_forged_word_on_a_real_pod_evicts_no_pod_and_starts_none(yard: Yard) -> None:
    yard.cluster.kubectl("apply", "-f", str(manifests() / "priority-classes" / "priority-classes.yaml"))
    rich, poor = yard.queue("rich", quota=32), yard.queue("poor", limit=0)
    running = [f"runs-{number}" for number in range(4)]
    yard.submit(*running, queue=rich, gpus=8)
    yard.until(lambda: yard.placed() == set(running), 20, "the cluster is full")
    yard.submit("intruder", queue=poor, gpus=8)
    yard.until(lambda: "intruder" in yard.verdicts(), 15, "it is refused")

    def nothing_follows() -> bool:
        claim = forged(yard.one("intruder"), rich)
        assert not yard.filter(claim)["NodeNames"]
        victims = {yard.one(name)["spec"]["nodeName"]: name for name in running}
        named = {node: {"Pods": [{"UID": yard.one(name)["metadata"]["uid"]}]} for node, name in victims.items()}
        granted = yard.ask("preempt", {"Pod": claim, "NodeNameToMetaVictims": named})
        return granted == {"NodeNameToMetaVictims": {}} and yard.placed() == set(running)

    yard.rests(nothing_follows, WHILE, "whoever runs goes on, the intruder waits")
    assert not list(yard.audit("create", "pods", subresource="eviction"))
    assert "intruder" in yard.verdicts()


@pytest.mark.row("X-01")
def test_a_forged_uid_takes_no_running_pod_off_the_books(yard: Yard) -> None:
    queue = yard.queue("team", limit=8)
    yard.submit("runs", queue=queue, gpus=8)
    yard.until(lambda: yard.placed() == {"runs"}, 15, "it runs")
    for number in range(5):
        assert not yard.filter(forged(yard.one("runs"), queue, uid=f"invented-{number}"))["NodeNames"]
    yard.submit("second", queue=queue)
    yard.until(lambda: "limit of 8" in yard.verdicts().get("second", ""), 15, "the queue is still full")


@pytest.mark.row("X-06")
def test_a_pod_that_kube_scheduler_was_refused_unseen_is_woken_and_bound(unscheduled: Yard) -> None:
    yard, queue = unscheduled, unscheduled.queue("team")
    yard.submit("late", queue=queue)
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/4 nodes are available: 4 {NOT_SEEN_SENTENCE}.",
    }
    patch = json.dumps({"status": {"conditions": [refused]}})
    yard.cluster.kubectl(
        "patch",
        "pod",
        "late",
        "--namespace",
        yard.namespace,
        "--subresource=status",
        "--type=strategic",
        "--patch",
        patch,
    )
    yard.until(lambda: "gpuyard.io/poke" in yard.one("late")["metadata"]["annotations"], 15, "it is woken")
    yard.cluster.resume("kube-scheduler")
    yard.until(lambda: "late" in yard.placed(), 15, "it runs")
