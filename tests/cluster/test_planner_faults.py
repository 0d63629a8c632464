"""Killed in the middle of a plan, held up by a budget, nodes that dip: nothing happens twice, and nothing is lost."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.demo.stage import EXTENDER, start_extender

from tests.cluster.holding import hold_back, is_held_back, let_go
from tests.cluster.planner import evicted, plans_for, states_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")

ROCKS = ["rock-1", "rock-2"]


@pytest.fixture(autouse=True)
def extender_is_back(yard: Yard) -> Iterator[None]:
    yield
    start_extender(yard.cluster)


def half_full(yard: Yard, team: str, **more: object) -> None:
    """Two nodes are full of nobody's pods; on each of the others stands a pod of four GPUs."""
    yard.submit(*ROCKS, gpus=8)
    yard.submit("one", "guest", queue=team, gpus=4)
    yard.until(lambda: len(yard.placed()) == 4, 30, "three nodes are full")
    yard.submit("two", queue=team, gpus=4, **more)
    yard.until(lambda: len(yard.placed()) == 5, 30, "the last one has the fourth")
    yard.delete("guest")


def node_of(yard: Yard, name: str) -> str:
    return str(yard.pods()[name]["spec"].get("nodeName", "")) if name in yard.pods() else ""


def test_killed_while_a_bare_pod_is_moved_it_is_made_anew_once(yard: Yard) -> None:
    team = yard.queue("team")
    half_full(yard, team, terminationGracePeriodSeconds=6)
    old, home = yard.pods()["two"]["metadata"]["uid"], node_of(yard, "one")
    yard.submit("large", queue=team, gpus=8)
    yard.until(lambda: bool(evicted(yard)), 30, "the move has begun")
    yard.cluster.kill(EXTENDER)
    yard.until(lambda: "two" not in yard.pods(), 30, "the old one is gone while nobody looks")
    start_extender(yard.cluster)
    yard.until(lambda: {"one", "two", "large"} <= yard.placed(), 60, "all stand")
    moved = yard.pods()["two"]
    assert moved["metadata"]["annotations"]["gpuyard.io/moved-from"] == old
    assert node_of(yard, "two") == home
    assert evicted(yard) == ["two"]
    assert times_made(yard, "two") == 2
    yard.until(lambda: states_of(yard, team) == ["Kept"], 15, "the plan is kept")


@pytest.mark.row("X-75")
def test_a_user_who_replaces_what_is_kept_of_a_pod_gets_no_pod_created_from_it(yard: Yard) -> None:
    team = yard.queue("team")
    half_full(yard, team, terminationGracePeriodSeconds=8)
    yard.submit("large", queue=team, gpus=8)
    yard.until(lambda: bool(evicted(yard)), 30, "the move has begun")
    replace_what_is_kept(yard, "two")
    yard.until(lambda: "two" not in yard.pods(), 30, "the old one is gone")
    yard.until(lambda: states_of(yard, team) == ["Impossible"], 30, "the plan has ended")
    (plan,) = plans_for(yard, team)
    assert times_made(yard, "two") == 1
    assert "not what the plan says was kept of it" in plan["status"]["message"]
    refused = "MoveRefused"
    yard.until(lambda: refused in reasons(yard, "two", yard.namespace), 30, "an Event says so on the pod")
    yard.until(lambda: refused in reasons(yard, plan["metadata"]["name"], "default"), 30, "and on the plan")
    yard.until(lambda: {"one", "large"} <= yard.placed(), 60, "the claimant has the room all the same")


def replace_what_is_kept(yard: Yard, name: str) -> None:
    """Let the kept spec of a pod ask for the processes of its node, as a user of the namespace might."""
    kubectl, revision = yard.cluster.kubectl, f"gpuyard-move-{name}"
    found = json.loads(kubectl("get", "controllerrevision", revision, "-n", yard.namespace, "-o", "json"))
    meta = {key: found["metadata"][key] for key in ("name", "namespace", "labels")}
    data = found["data"] | {"spec": found["data"]["spec"] | {"hostPID": True}}
    kubectl("delete", "controllerrevision", revision, "-n", yard.namespace)
    kubectl("create", "-f", "-", stdin=json.dumps(found | {"metadata": meta, "data": data}))


def reasons(yard: Yard, name: str, namespace: str) -> set[str]:
    """The reasons of the Events about an object."""
    found = json.loads(yard.cluster.kubectl("get", "events.events.k8s.io", "-n", namespace, "-o", "json"))
    return {one["reason"] for one in found["items"] if one["regarding"].get("name") == name}


def times_made(yard: Yard, name: str) -> int:
    """How often a pod of this name was created."""
    made = [one for one in yard.audit("create", "pods", name=name) if "subresource" not in one["objectRef"]]
    return sum(one["responseStatus"]["code"] == 201 for one in made)


def test_killed_between_two_moves_it_makes_each_bare_pod_anew_once(yard: Yard) -> None:
    team, kubectl = yard.queue("team"), yard.cluster.kubectl
    yard.submit("rock-1", gpus=8, nodeName="node-1")
    for number in (2, 3):
        yard.submit(f"rock-{number}", f"guest-{number}", gpus=4, nodeName=f"node-{number}")
    yard.submit("one", "two", queue=team, gpus=4)
    yard.until(lambda: {"one", "two"} <= yard.placed(), 30, "both are on the fourth node")
    yard.delete("guest-2", "guest-3")
    hold_back(kubectl, "one", "two")
    try:
        yard.until(lambda: is_held_back(kubectl, "one", yard.namespace), 30, "nobody can be evicted")
        yard.submit("large", queue=team, gpus=8)
        yard.until(lambda: len(victims_for(yard, team)) == 2, 60, "both have to move")
        first, second = victims_for(yard, team)
        hold_back(kubectl, second)
        yard.until(lambda: evicted(yard) == [first], 60, "the first one leaves")
        yard.cluster.kill(EXTENDER)
        start_extender(yard.cluster)
        yard.until(lambda: times_made(yard, first) == 2 and first in yard.placed(), 60, "it is made anew")
        assert evicted(yard) == [first]
    finally:
        let_go(kubectl)
    yard.until(lambda: {"one", "two", "large"} <= yard.placed(), 90, "all stand")
    assert evicted(yard) == [first, second]
    assert (times_made(yard, first), times_made(yard, second)) == (2, 2)
    yard.until(lambda: states_of(yard, team) == ["Kept"], 30, "the plan is kept")


def victims_for(yard: Yard, queue: str) -> list[str]:
    """Whom the plans for a queue evict, in their order."""
    return [one["pod"].rpartition("/")[2] for plan in plans_for(yard, queue) for one in plan["spec"]["evictions"]]


def test_killed_in_the_middle_of_a_reclaim_nobody_else_has_to_go(yard: Yard) -> None:
    borrower, owner = yard.queue("borrower", quota=16), yard.queue("owner", quota=16)
    yard.submit(*(f"old-{number}" for number in range(4)), queue=borrower, gpus=4)
    yard.until(lambda: len(yard.placed()) == 4, 30, "half of the cluster is full")
    time.sleep(1.1)
    yard.submit(*(f"new-{number}" for number in range(4)), queue=borrower, gpus=4, terminationGracePeriodSeconds=4)
    yard.until(lambda: len(yard.placed()) == 8, 30, "the cluster is full")
    yard.submit("own-0", "own-1", queue=owner, gpus=8)
    yard.until(lambda: bool(evicted(yard)), 30, "somebody has to go")
    yard.cluster.kill(EXTENDER)
    start_extender(yard.cluster)
    yard.until(lambda: {"own-0", "own-1"} <= yard.placed(), 60, "the owner has its half")
    assert sorted(evicted(yard)) == sorted(set(evicted(yard)))
    assert len(yard.placed()) == 6
    yard.until(lambda: set(states_of(yard, owner)) == {"Kept"}, 15, "the plans are kept")


def test_a_budget_chooses_whom_it_does_not_protect(yard: Yard) -> None:
    borrower, owner = yard.queue("borrower", quota=0), yard.queue("owner", quota=8)
    yard.submit("free-1", "free-2", "free-3", queue=borrower, gpus=8)
    yard.until(lambda: len(yard.placed()) == 3, 30, "three run")
    time.sleep(1.1)
    yard.submit("safe", queue=borrower, gpus=8)
    yard.cluster.kubectl("label", "pod", "safe", "app=safe", "--namespace", yard.namespace)
    yard.until(lambda: "safe" in yard.placed(), 30, "the cluster is full")
    budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "safe"}}}
    meta = {"name": "keep", "namespace": yard.namespace}
    yard.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget})
    yard.cluster.kubectl(
        "wait", "--for=jsonpath={.status.observedGeneration}=1", "pdb/keep", "--namespace", yard.namespace
    )
    yard.submit("own", queue=owner, gpus=8)
    yard.until(lambda: "own" in yard.placed(), 40, "the owner has its node")
    assert evicted(yard) == ["free-3"]
    assert "safe" in yard.placed()


def test_a_node_that_reports_no_gpus_for_a_while_costs_nobody_anything(yard: Yard) -> None:
    first, second = yard.queue("first", quota=16), yard.queue("second", quota=16)
    yard.submit(*(f"one-{number}" for number in range(4)), queue=first, gpus=4)
    yard.submit(*(f"two-{number}" for number in range(4)), queue=second, gpus=4)
    yard.until(lambda: len(yard.placed()) == 8, 30, "the cluster is full")
    yard.submit("wish", queue=first, gpus=4)
    yard.until(lambda: fair_share(yard, first) == "16", 15, "half of the cluster is due to it")
    report(yard, "node-4", gpus=0)
    try:
        yard.rests(lambda: not evicted(yard) and fair_share(yard, first) == "16", 5, "as if nothing were")
        yard.cluster.kill(EXTENDER)
        start_extender(yard.cluster)
        yard.until(lambda: bool(yard.metrics().get("gpuyard_cycle_seconds_count")), 60, "a new one has decided")
        yard.rests(
            lambda: not evicted(yard) and fair_share(yard, first) == "16", 5, "who begins in the middle sees the same"
        )
        assert "wish" not in yard.placed()
    finally:
        report(yard, "node-4", gpus=8)
    yard.rests(lambda: not evicted(yard) and len(yard.placed()) == 8, 3, "as before")


def report(yard: Yard, node: str, gpus: int) -> None:
    """The kubelet of a node says how many GPUs it has."""
    has = {"nvidia.com/gpu": str(gpus)}
    patch = json.dumps({"status": {"capacity": has, "allocatable": has}})
    yard.cluster.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "--patch", patch)


def fair_share(yard: Yard, queue: str) -> str:
    found = json.loads(yard.cluster.kubectl("get", "queues.scheduling.run.ai", queue, "-o", "json"))
    return str(found.get("status", {}).get("fairShare", {}).get("nvidia.com/gpu"))
