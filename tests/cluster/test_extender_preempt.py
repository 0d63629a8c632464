"""`preempt` through the real kube-scheduler: within the queue's rules, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox.demo.stage import manifests

if TYPE_CHECKING:
    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

RUNNING = ["low-1", "low-2", "low-3", "low-4"]


@pytest.fixture
def full(yard: Yard) -> str:
    """Four nodes full of one queue's pods of priority 50, eight GPUs each; the queue."""
    return filled(yard)


def filled(yard: Yard, labels: Json | None = None, annotations: Json | None = None) -> str:
    """Four nodes full of one queue's pods with such annotations and labels; the queue."""
    yard.cluster.kubectl("apply", "-f", str(manifests() / "priority-classes" / "priority-classes.yaml"))
    queue = yard.queue("team")
    pods = [yard.pod(name, queue, 8, priorityClassName="train", annotations=annotations or {}) for name in RUNNING]
    for pod in pods:
        pod["metadata"]["labels"] |= labels or {}
    yard.apply(*pods)
    yard.until(lambda: yard.placed() == set(RUNNING), 20, "the cluster is full")
    return queue


def refused(yard: Yard, name: str) -> None:
    """The pod has been looked at and waits, and nobody was deleted."""
    yard.until(lambda: name in yard.verdicts(), 15, "it waits")
    yard.rests(lambda: set(yard.pods()) == {*RUNNING, name} and name not in yard.placed(), 4, "nobody is deleted")
    assert not deleted_by_kube_scheduler(yard)


def deleted_by_kube_scheduler(yard: Yard) -> set[str]:
    """The pods that it evicted to make room."""
    events = yard.audit("delete", "pods")
    return {one["objectRef"]["name"] for one in events if one["user"]["username"] == "system:kube-scheduler"}


def proposal(yard: Yard, claimant: Json, *victims: str) -> Json:
    """What `preempt` answers where kube-scheduler would propose these victims, each on its node."""
    pods = yard.pods()
    named: dict[str, Any] = {}
    for victim in victims:
        entry = named.setdefault(pods[victim]["spec"]["nodeName"], {"Pods": [], "NumPDBViolations": 0})
        entry["Pods"].append({"UID": pods[victim]["metadata"]["uid"]})
    answer: Json = yard.ask("preempt", {"Pod": claimant, "NodeNameToMetaVictims": named})
    return answer


@pytest.mark.row("E-38", case="within-bounds")
def test_for_a_rightful_claim_exactly_one_victim_set_dies(yard: Yard, full: str) -> None:
    yard.submit("urgent", queue=full, gpus=8, priorityClassName="build-preemptible")
    yard.until(lambda: "urgent" in yard.placed(), 30, "it runs")
    # On a busy machine kube-scheduler may ask before the watch shows the pod: then the planner makes the room.
    evicted = {one["objectRef"]["name"] for one in yard.audit("create", "pods", subresource="eviction")}
    assert len(deleted_by_kube_scheduler(yard) | evicted) == 1
    assert len(yard.placed()) == 4


@pytest.mark.row("E-38", case="over-limit")
def test_for_a_claim_over_the_limit_nobody_dies(yard: Yard, full: str) -> None:
    yard.queue("team", limit=7)
    yard.submit("asked", queue=full, gpus=8)
    asked = yard.one("asked")
    yard.until(lambda: "limit of 7" in str(yard.filter(asked)), 15, "the extender knows the new limit")
    yard.delete("asked")
    yard.submit("urgent", queue=full, gpus=8, priorityClassName="build-preemptible")
    refused(yard, "urgent")


def test_nobody_dies_for_room_that_another_queue_would_have_before(full: str, unscheduled: Yard) -> None:
    yard = unscheduled
    yard.queue("team", reclaimMinRuntime="1h")
    yard.submit("urgent", queue=full, gpus=8, priorityClassName="build-preemptible")
    claimant = yard.one("urgent")
    yard.until(lambda: not nobody(proposal(yard, claimant, "low-1")), 15, "it may have the room of its own queue")
    yard.submit("rightful", queue=yard.queue("other", quota=8), gpus=8, priorityClassName="train")
    yard.until(lambda: nobody(proposal(yard, claimant, "low-1")), 15, "it waits for who is below its quota")
    assert not deleted_by_kube_scheduler(yard)
    yard.delete("rightful")
    yard.until(lambda: not nobody(proposal(yard, claimant, "low-1")), 15, "that one is gone")


@pytest.mark.row("E-16", case="other-queue")
def test_pods_of_another_queue_are_protected(yard: Yard, full: str) -> None:  # noqa: ARG001 - it fills the cluster
    other = yard.queue("other")
    yard.submit("urgent", queue=other, gpus=8, priorityClassName="build-preemptible")
    refused(yard, "urgent")
    claimant = yard.pods()["urgent"]
    assert proposal(yard, claimant, *RUNNING) == {"NodeNameToMetaVictims": {}}


@pytest.mark.row("E-16", case="budget")
def test_a_disruption_budget_protects(yard: Yard, full: str) -> None:
    labels = {"kai.scheduler/queue": full}
    yard.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": yard.namespace},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}},
        }
    )
    yard.cluster.kubectl(
        "wait", "--for=jsonpath={.status.observedGeneration}=1", "pdb/keep", "--namespace", yard.namespace
    )
    yard.submit("urgent", queue=full, gpus=8, priorityClassName="build-preemptible")
    refused(yard, "urgent")


@pytest.mark.row("E-16", case="min-runtime")
def test_a_minimum_run_time_protects(yard: Yard, full: str) -> None:
    yard.queue("team", preemptMinRuntime="1h")
    yard.submit("urgent", queue=full, gpus=8, priorityClassName="build-preemptible")
    refused(yard, "urgent")


@pytest.mark.row("E-16", case="non-preemptible")
def test_what_is_not_preemptible_is_protected(yard: Yard) -> None:
    queue = filled(yard, labels={"kai.scheduler/preemptibility": "non-preemptible"})
    yard.submit("urgent", queue=queue, gpus=8, priorityClassName="build-preemptible")
    refused(yard, "urgent")


@pytest.mark.row("E-16", case="gang-minimum")
def test_a_gang_is_never_left_with_fewer_than_its_minimum(yard: Yard) -> None:
    yard.apply(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "gang", "namespace": yard.namespace},
            "spec": {"minMember": 4, "queue": f"{yard.namespace}-team", "priorityClassName": "train"},
        }
    )
    queue = filled(yard, annotations={"pod-group-name": "gang"})
    yard.submit("urgent", queue=queue, gpus=8, priorityClassName="build-preemptible")
    yard.until(lambda: yard.placed() == {"urgent"}, 60, "the gang has made room as a whole")
    assert not deleted_by_kube_scheduler(yard)


def nobody(answer: Json) -> bool:
    """Whether `preempt` lets nobody be evicted."""
    return answer == {"NodeNameToMetaVictims": {}}


def test_for_several_rightful_claims_at_once_one_victim_each_dies(yard: Yard, full: str) -> None:
    urgent = {"urgent-1", "urgent-2", "urgent-3"}
    yard.submit(*urgent, queue=full, gpus=8, priorityClassName="build-preemptible")
    yard.until(lambda: urgent <= yard.placed(), 60, "all of them run")
    assert len(yard.placed() & set(RUNNING)) == 1
