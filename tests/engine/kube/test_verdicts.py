"""Whether kube-scheduler's own words leave any hope in evictions."""

import pytest
from gpuyard.engine.kube.verdicts import causes, evictions_may_help

from tests.engine.kube.written import Json, node, pod, queue, reading

NOBODY = " no new claims to deallocate, preemption: 0/4 nodes are available: "


@pytest.mark.parametrize(
    "causes",
    [
        "4 Insufficient nvidia.com/gpu." + NOBODY + "4 No preemption victims found for incoming pod.",
        "3 Too many pods, 1 node(s) had untolerated taint(s)." + NOBODY + "4 Preemption is not helpful for scheduling.",
        "1 node(s) had untolerated taint(s), 3 node(s) didn't have free ports for the requested pod ports.",
        "4 node(s) exceed max volume count.",
        "4 node(s) didn't match pod anti-affinity rules.",
        "4 node(s) didn't satisfy existing pods anti-affinity rules.",
        "4 node(s) didn't match pod topology spread constraints.",
        "4 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode.",
        "4 node(s) lacked what nobody has heard of.",
        "nobody has heard of this.",
        "1 node(s) were unschedulable, 3 queue team, with 2 departments, has a limit of 8 GPUs.",
    ],
)
def test_where_something_is_short_that_leaving_pods_give_back_evictions_may_help(causes: str) -> None:
    assert evictions_may_help(f"0/4 nodes are available: {causes}")


@pytest.mark.parametrize(
    "causes",
    [
        'persistentvolumeclaim "data" not found.' + NOBODY + "4 Preemption is not helpful for scheduling.",
        "pod has unbound immediate PersistentVolumeClaims. not found",
        "4 node(s) didn't match pod affinity rules." + NOBODY + "4 No preemption victims found for incoming pod.",
        "1 node(s) had untolerated taint(s), 3 node(s) didn't match Pod's node affinity/selector.",
        "1 node(s) had untolerated taint {gpu: a100, x}, 3 node(s) were unschedulable.",
        "4 node(s) didn't match pod topology spread constraints (missing required label).",
        "2 node(s) had volume node affinity conflict, 2 node(s) didn't find available persistent volumes to bind.",
        "waiting for ephemeral volume controller to create the persistentvolumeclaim.",
        'resourceclaim.resource.k8s.io "gpu" not found.',
    ],
)
def test_where_the_cause_is_another_they_do_not(causes: str) -> None:
    assert not evictions_may_help(f"0/4 nodes are available: {causes}")


@pytest.mark.parametrize("said", ["", "gpuyard is starting: it does not know the cluster yet", "0/x nodes"])
def test_what_cannot_be_read_is_held_against_nobody(said: str) -> None:
    assert evictions_may_help(said)


AFFINITY = "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."


@pytest.mark.parametrize(
    "own", ["", NOBODY + "4 Preemption is not helpful.", NOBODY.removeprefix(" no new claims to deallocate,")]
)
def test_the_causes_of_a_verdict_are_told_without_its_own_evictions(own: str) -> None:
    assert causes(AFFINITY + own) == AFFINITY


def said(verdict: str | None, status: str = "False", phase: str = "Pending") -> Json:
    return {"conditions": [{"type": "PodScheduled", "status": status, "message": verdict}], "phase": phase}


def test_a_waiting_pod_that_no_eviction_helps_is_read_with_the_causes() -> None:
    found = reading(queue(), node(), pod(status=said(AFFINITY + NOBODY + "4 of them"))).snapshot
    assert {key: offer.in_vain for key, offer in found.offers.items()} == {"default/p": AFFINITY}


@pytest.mark.parametrize(
    "status",
    [{}, said(None), said(AFFINITY, "True"), said("0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")],
)
def test_of_a_pod_without_such_a_verdict_nothing_is_read(status: Json) -> None:
    assert not reading(queue(), node(), pod(status=status)).snapshot.offers


def test_what_was_said_of_a_pod_that_runs_by_now_counts_no_more() -> None:
    assert not reading(queue(), node(), pod(on="node-1", status=said(AFFINITY, phase="Running"))).snapshot.offers
