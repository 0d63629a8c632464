"""What `gpuyard explain` says of one pod, as values and for people."""

from typing import NamedTuple

import pytest
from gpuyard.cli.drawing import Page
from gpuyard.cli.situation import NOT_GOVERNED, NOT_OURS, Situation, last_word, page_of, situation
from gpuyard.engine.explain.pod import explain
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.settle import settle

from tests.engine.kube.written import MORNING, NOON, Json, node, pod, queue, reading, with_meta

PLAIN = Page(None, lambda text, _: text)
NO_NODE = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
OURS = "0/1 nodes are available: 1 room is being made for it on node-1 by plan reclaim-1."


class Told(NamedTuple):
    """Both forms of the answer."""

    found: Situation
    page: str


def refused(of: Json, since: str = MORNING, message: str = NO_NODE) -> Json:
    """The pod after kube-scheduler has found no node for it."""
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return of | {"status": of["status"] | {"conditions": [said | {"lastTransitionTime": since}]}}


def ask(raw: Json, *given: Json) -> Told:
    """Ask why a pod waits at noon, among other objects."""
    snapshot = reading(raw, *given, now=moment(NOON)).snapshot
    outcome = settle(snapshot, Settings())
    told = explain(snapshot, Settings(), f"default/{raw['metadata']['name']}", outcome)
    found = situation(raw, snapshot, outcome, told)
    return Told(found, page_of(found, told, snapshot, PLAIN))


OVER = (node(), queue(limit=4), pod("runs", 4, on="node-1"))


@pytest.mark.row("Q-41", case="limit")
def test_over_its_limit_it_says_the_reason_the_numbers_and_the_advice() -> None:
    found, page = ask(refused(pod("p", 2)), *OVER)
    assert (found.state, found.reason, found.queue) == ("Pending", "OverLimit", "team-a")
    assert found.queues[0].used["gpu"] == found.queues[0].limit["gpu"] == 4
    assert "raise the limit of queue team-a from 4 GPUs to 6 GPUs: it would run on node-1" in found.advice
    assert f"it waits: OverLimit: {found.message}" in page


def test_kube_schedulers_own_last_word_stands_beside_it_with_its_time() -> None:
    found, page = ask(refused(pod("p", 2)), *OVER)
    assert found.kube_scheduler is not None
    assert (found.kube_scheduler.message, found.kube_scheduler.since, found.since) == (NO_NODE, MORNING, MORNING)
    assert f"kube-scheduler said last: Unschedulable: {NO_NODE}" in page
    assert f"Pending since {MORNING} (240 min 0 s)" in page


def test_without_a_word_of_kube_scheduler_it_says_so_and_counts_from_its_creation() -> None:
    found, page = ask(with_meta(pod("p", 2), creationTimestamp="2026-03-01T11:59:48Z"), *OVER)
    assert (found.kube_scheduler, found.since) == (None, "2026-03-01T11:59:48Z")
    assert "(12 s)" in page
    assert "kube-scheduler has not spoken of it" in page


def test_a_condition_that_is_not_a_refusal_is_no_last_word() -> None:
    assert last_word({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}) is None
    assert last_word({}) is None


def test_where_the_engine_has_a_place_it_waits_for_kube_scheduler() -> None:
    found, page = ask(refused(pod("p", 2)), node(), queue())
    assert (found.reason, found.advice) == ("", [NOT_OURS])
    assert f"  {NOT_OURS}\n" in page
    assert found.waits_for == ["kube-scheduler: there is a place for it on node-1, at nobody's cost"]
    assert f"it waits for {found.waits_for[0]}" in page


def test_where_kube_scheduler_last_passed_on_a_word_of_ours_nothing_else_is_to_be_mended() -> None:
    found, page = ask(refused(pod("p", 2), message=OURS), node(), queue())
    assert (found.reason, found.advice, NOT_OURS in page) == ("", [], False)


LENT = pod("lent", 8, "team-b", on="node-1")
LEAVES = with_meta(LENT, deletionTimestamp=NOON)


@pytest.mark.parametrize("word", [NO_NODE, OURS])
@pytest.mark.parametrize("other", [LENT, LEAVES], ids=["to be evicted", "leaving"])
def test_while_room_is_made_for_it_that_is_the_reason(other: Json, word: str) -> None:
    found, page = ask(refused(pod("p", 8), message=word), node(), queue(), queue("team-b", 0), other)
    assert (found.reason, found.advice, NOT_OURS in page) == ("ReclaimInProgress", [], False)
    assert found.message == "room is being made for it on node-1 (1 pod still to go)"


def test_where_others_must_leave_it_names_them() -> None:
    found, _ = ask(pod("p", 8), node(), queue(), queue("team-b", 0), LENT)
    assert found.waits_for == ["kube-scheduler: there is a place for it on node-1, evicting default/lent"]


def plan_for(gpus: int) -> Json:
    """A plan under way that keeps room for the pod `p`."""
    place = {"pod": "default/p", "node": "node-1", "shape": {"gpus": gpus}, "workload": "default/p", "queue": "team-a"}
    return {
        "apiVersion": "gpuyard.io/v1alpha1",
        "kind": "Plan",
        "metadata": {"name": "reclaim-1"},
        "spec": {"promises": [place]},
        "status": {"state": "Clearing"},
    }


GOING = (queue("team-b", 0), LEAVES)


def test_a_plan_that_keeps_room_for_it_is_named_with_how_many_still_go() -> None:
    found, page = ask(refused(pod("p", 8)), node(), queue(), plan_for(8), *GOING)
    assert found.waits_for == ["plan reclaim-1, which keeps room for it on node-1"]
    assert (found.reason, NOT_OURS in page) == ("ReclaimInProgress", False)
    assert found.message == "room is being made for it on node-1 by plan reclaim-1 (1 pod still to go)"


@pytest.mark.parametrize(("word", "advice"), [(NO_NODE, [NOT_OURS]), (OURS, [])])
def test_once_nobody_is_left_to_go_the_room_that_a_plan_keeps_is_no_reason(word: str, advice: list[str]) -> None:
    found, page = ask(refused(pod("p", 8), message=word), node(), queue(), plan_for(8))
    assert found.waits_for == ["plan reclaim-1, which keeps room for it on node-1"]
    assert (found.reason, found.advice, NOT_OURS in page) == ("", advice, bool(advice))


def test_who_comes_in_the_place_of_a_pod_that_is_gone_waits_for_the_plan_as_well() -> None:
    plan = plan_for(8)
    plan["spec"]["promises"][0] |= {"pod": "default/gone", "owner": "Job/train"}
    heir = with_meta(pod("p", 8), ownerReferences=[{"kind": "Job", "name": "train", "controller": True}])
    found, _ = ask(refused(heir), node(), queue(), plan, *GOING)
    assert (found.reason, found.waits_for[0].split(",")[0]) == ("ReclaimInProgress", "plan reclaim-1")


def test_a_pod_with_scheduling_gates_waits_for_who_removes_them() -> None:
    found, page = ask(pod("p", 2, schedulingGates=[{"name": "example.com/hold"}]), node(), queue())
    assert (found.state, found.waits_for) == ("Gated", ["whoever removes its scheduling gates: example.com/hold"])
    assert "example.com/hold" in page


@pytest.mark.row("Q-39", case="missing-pass")
def test_a_pod_without_a_queue_is_not_governed() -> None:
    found, page = ask(pod("p", 2, None), node(), queue())
    assert (found.queue, found.reason) == ("", "QueueMissing")
    assert "not governed: no queue of ours decides about it" in page


@pytest.mark.row("B-35", case="full")
def test_a_pod_without_a_queue_on_a_full_cluster_waits_for_room_not_for_a_queue() -> None:
    found, page = ask(refused(pod("p", 2, None)), node(), queue(), pod("runs", 8, on="node-1"))
    assert (found.queue, found.reason, found.advice) == ("", "PodSchedulingErrors", [NOT_GOVERNED])
    assert "no node fits (2 GPUs asked for; nodes: 1 too few free GPUs)" in page
    assert ("QueueMissing" in page, NOT_GOVERNED in page) == (False, True)


def test_a_running_pod_says_where_it_runs_and_nothing_of_waiting() -> None:
    found, page = ask(with_meta(pod("p", 2, on="node-1"), creationTimestamp=MORNING), node(), queue())
    assert (found.state, found.node, found.reason, found.waits_for, found.advice) == ("Running", "node-1", "", [], [])
    assert page.splitlines() == [
        "default/p",
        f"  Running on node-1 since {MORNING} (240 min 0 s)",
        "  queue team-a",
    ]


@pytest.mark.row("X-64", case="told")
@pytest.mark.parametrize("limit", [4, 0], ids=["with room", "without"])
def test_a_pod_whose_annotation_has_no_effect_is_told_so_with_the_remedy(limit: int) -> None:
    raw = with_meta(pod("p", 0, notes={"gpu-fraction": "0.5"}), uid="u")
    found, page = ask(refused(raw), node(), queue(limit=limit))
    assert found.without_effect == (
        "the annotation gpu-fraction has no effect: the pod does not request gpuyard.io/shared-gpu; "
        "create it anew where the overlay shared-gpus is installed"
    )
    assert found.without_effect in page


def test_of_a_part_of_a_gpu_that_counts_nothing_of_the_kind_is_told() -> None:
    assert ask(pod("p", 0, notes={"gpu-fraction": "0.5"}), node(), queue()).found.without_effect == ""
