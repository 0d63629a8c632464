"""Which workloads may run at all: the first gate that refuses one names itself, with the facts."""

import msgspec
import pytest
from gpuyard.engine.model import GPU, MOST_LEVELS, UNLIMITED, Amounts, Pod, Shape, State
from gpuyard.engine.model.results import Bound, Foreign, Gap, NoQueue, Reason, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.rules import gates
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Team

from tests.engine.builders import NOW, Yard, yard


def admission(some: Yard, **settings: object) -> Waiting | None:
    """What is said of the only workload."""
    snapshot, chosen = some.snapshot(), Settings(**settings)  # type: ignore[arg-type]
    (workload,) = snapshot.workloads.values()
    team = Team(workload, snapshot.members[workload.key], {})
    question = gates.Question(snapshot, Accounts.without_shares(snapshot), chosen, team)
    return gates.IN_LINE["queue"](question)


def whole(some: Yard) -> Waiting | None:
    """What is said of the only gang."""
    (key,) = some.snapshot().workloads
    cycle = some.cycle(phases=())
    return gates.IN_LINE["gang"](cycle.question(cycle.scratch.team(key)))


def capacity(some: Yard, name: str, need: Amounts) -> Waiting | None:
    """What is said of a workload's chunk that needs this much."""
    snapshot = some.snapshot()
    return gates.bound(Accounts.of(snapshot, 0), snapshot, snapshot.workloads[f"ns/{name}"], need)


# --- governed


def test_a_workload_of_a_leaf_queue_is_let_through() -> None:
    assert admission(yard().queue("a").pending("a")) is None


def test_a_workload_without_a_queue_is_refused() -> None:
    assert admission(yard().queue("a").pending(None)) == Waiting(Reason.QUEUE_MISSING, NoQueue(label="", why="absent"))


def test_a_workload_of_another_scheduler_is_left_to_it() -> None:
    refusal = admission(yard().queue("a").pending("a", scheduler="volcano"))
    assert refusal == Waiting(Reason.OTHER_SCHEDULER, Foreign(found="volcano"))


def test_a_namespace_may_use_any_queue_unless_it_has_to_match() -> None:
    assert admission(yard().queue("a").namespace("ns", "b").pending("a")) is None


def test_matched_by_name_a_namespace_may_use_the_queue_of_its_own_name_only() -> None:
    assert admission(yard().queue("ns").pending("ns"), namespace_match="name") is None
    refusal = admission(yard().queue("a").pending("a"), namespace_match="name")
    assert refusal == Waiting(Reason.NAMESPACE_MISMATCH, Foreign(found="a", wanted="ns"))


def test_matched_by_label_a_namespace_may_use_the_queue_that_it_names_only() -> None:
    assert admission(yard().queue("a").namespace("ns", "a").pending("a"), namespace_match="label") is None
    refusal = admission(yard().queue("a").namespace("ns", "b").pending("a"), namespace_match="label")
    assert refusal == Waiting(Reason.NAMESPACE_MISMATCH, Foreign(found="a", wanted="b"))


def test_matched_by_label_a_namespace_without_one_may_use_no_queue() -> None:
    refusal = admission(yard().queue("a").pending("a"), namespace_match="label")
    assert refusal == Waiting(Reason.NAMESPACE_MISMATCH, Foreign(found="a", wanted=""))


# --- queue


def test_a_queue_that_does_not_exist_is_refused_with_the_name_most_alike() -> None:
    refusal = admission(yard().queue("research").queue("sales").pending("reserch"))
    assert refusal == Waiting(Reason.QUEUE_DOES_NOT_EXIST, NoQueue(label="reserch", why="unknown", nearest="research"))


def test_where_no_name_is_alike_none_is_suggested() -> None:
    refusal = admission(yard().queue("research").pending("qqq"))
    assert refusal == Waiting(Reason.QUEUE_DOES_NOT_EXIST, NoQueue(label="qqq", why="unknown"))


def test_a_queue_with_children_takes_no_workloads() -> None:
    refusal = admission(yard().queue("d").queue("a", parent="d").pending("d"))
    assert refusal == Waiting(Reason.QUEUE_DOES_NOT_EXIST, NoQueue(label="d", why="not a leaf"))


def test_a_queue_whose_ancestor_is_missing_names_the_missing_one() -> None:
    refusal = admission(yard().queue("d", parent="gone").queue("a", parent="d").pending("a"))
    assert refusal == Waiting(Reason.QUEUE_DOES_NOT_EXIST, NoQueue(label="a", why="orphan", parent="gone"))


def test_queues_that_name_each_other_as_parents_take_no_workloads_nor_do_those_below_them() -> None:
    some = yard().nodes(1).queue("a", parent="b").queue("b", parent="a").queue("c", parent="b").queue("d")
    told = some.running("a").pending("a").pending("c").pending("d").plan()
    assert told.placed() == ["a-1", "d-1"]
    assert told.facts("a-2") == NoQueue(label="a", why="circle", parent="a")
    assert told.facts("c-1") == NoQueue(label="c", why="circle", parent="b")


def test_a_queue_that_is_its_own_parent_takes_no_workloads() -> None:
    refusal = admission(yard().queue("a", parent="a").pending("a"))
    assert refusal == Waiting(Reason.QUEUE_DOES_NOT_EXIST, NoQueue(label="a", why="circle", parent="a"))


def test_a_queue_deeper_than_anybody_needs_takes_no_workloads() -> None:
    some = yard().nodes(1).queue("q0")
    for n in range(1, 1500):
        some.queue(f"q{n}", parent=f"q{n - 1}")
    told = some.pending("q1499").plan()
    assert told.facts("q1499-1") == NoQueue(label="q1499", why="too deep")


# --- gang


def test_a_gang_with_its_minimum_of_pods_is_whole() -> None:
    assert whole(yard().queue("a").gang("a", 3, minimum=2)) is None


def test_a_gang_without_enough_pods_says_how_many_there_are() -> None:
    refusal = whole(yard().queue("a").gang("a", 2, minimum=3))
    assert refusal == Waiting(Reason.GANG_INCOMPLETE, Gap(found=2, needed=3))


def test_a_pod_that_its_gates_hold_back_says_so() -> None:
    told = yard().nodes(1).queue("a").pending("a").pod("a-1", gated=True).plan()
    assert told.reason("a-1") is Reason.GANG_INCOMPLETE
    assert told.sentence("a-1").endswith("(found 0 of 1; 1 pod held back by spec.schedulingGates)")


def test_a_pod_that_is_deleted_before_it_started_is_not_held_back_by_gates() -> None:
    told = yard().nodes(1).queue("a").gang("a", 2).pod("a-1-1", gated=True, deleted_at=NOW).plan()
    assert told.sentence("a-1-0").endswith("(found 1 of 2)")


def test_a_gated_pod_does_not_exist_yet() -> None:
    some = yard().queue("a").gang("a", 2).pod("a-1-1", gated=True)
    assert whole(some) == Waiting(Reason.GANG_INCOMPLETE, Gap(found=1, needed=2, gated=1))


def test_a_pod_on_its_way_out_makes_no_gang_whole() -> None:
    some = yard().nodes(1).queue("a").gang("a", 2, running=2).pod("a-1-1", state=State.TERMINATING)
    assert whole(some) == Waiting(Reason.GANG_INCOMPLETE, Gap(found=1, needed=2))


def test_the_sub_group_that_is_short_is_named() -> None:
    refusal = whole(yard().queue("a").gang("a", 0, parts={"leader": (1, 1), "worker": (2, 4)}))
    assert refusal == Waiting(Reason.GANG_INCOMPLETE, Gap(found=2, needed=4, part="worker"))


# --- limit and quota


def test_a_chunk_may_fill_a_limit_to_the_brim_and_no_further() -> None:
    some = yard().nodes(1).queue("a", limit=2).running("a").pending("a")
    assert capacity(some, "a-2", Amounts(gpu=GPU)) is None
    facts = Bound(queue="a", resource="gpu", kind="limit", bound=2000, used=1000, asked=1001)
    assert capacity(some, "a-2", Amounts(gpu=GPU + 1)) == Waiting(Reason.OVER_LIMIT, facts)


def test_a_limit_of_another_resource_binds_as_well() -> None:
    snapshot = yard().queue("a").pending("a").snapshot()
    bounded = msgspec.structs.replace(snapshot.queues["a"], limit=Amounts(UNLIMITED, 500, UNLIMITED))
    snapshot = snapshot.with_queue(bounded)
    found = gates.bound(Accounts.of(snapshot, 0), snapshot, snapshot.workloads["ns/a-1"], Amounts(GPU, 501, 1))
    facts = Bound(queue="a", resource="cpu", kind="limit", bound=500, used=0, asked=501)
    assert found == Waiting(Reason.OVER_LIMIT, facts)


def test_a_limit_of_a_resource_that_is_not_asked_for_is_no_obstacle() -> None:
    some = yard().nodes(1).queue("a", limit=0).pending("a")
    assert capacity(some, "a-1", Amounts(cpu=1000)) is None


def test_a_limit_that_nobody_set_is_told_from_one_of_zero() -> None:
    some = yard().nodes(1).queue("a", limit=0, unset=("gpu.limit",)).pending("a")
    facts = Bound(queue="a", resource="gpu", kind="limit", bound=0, used=0, asked=1000, unset=True)
    assert capacity(some, "a-1", Amounts(gpu=GPU)) == Waiting(Reason.OVER_LIMIT, facts)


def test_the_limit_is_asked_before_the_quota() -> None:
    some = yard().nodes(1).queue("a", quota=0, limit=0).pending("a", preemptible=False)
    refusal = capacity(some, "a-1", Amounts(gpu=GPU))
    assert refusal is not None
    assert refusal.reason is Reason.OVER_LIMIT


def test_only_what_is_not_preemptible_uses_up_a_quota() -> None:
    some = yard().nodes(1).queue("a", quota=2).running("a", 2)
    some.running("a", preemptible=False).pending("a", preemptible=False)
    assert capacity(some, "a-4", Amounts(gpu=GPU)) is None
    facts = Bound(queue="a", resource="gpu", kind="quota", bound=2000, used=1000, asked=2000)
    assert capacity(some, "a-4", Amounts(gpu=2 * GPU)) == Waiting(Reason.NON_PREEMPTIBLE_OVER_QUOTA, facts)


def test_the_quota_of_an_ancestor_binds_as_well() -> None:
    some = yard().nodes(1).queue("d", quota=1).queue("a", parent="d", quota=4).pending("a", preemptible=False)
    facts = Bound(queue="d", resource="gpu", kind="quota", bound=1000, used=0, asked=2000)
    assert capacity(some, "a-1", Amounts(gpu=2 * GPU)) == Waiting(Reason.NON_PREEMPTIBLE_OVER_QUOTA, facts)


def test_a_chunk_needs_the_sum_of_its_pods() -> None:
    pods = [Pod(key="ns/a", shape=Shape(gpus=1, cpu=2)), Pod(key="ns/b", shape=Shape(gpus=3, memory=4))]
    assert gates.to_start(yard().snapshot(), pods) == Amounts(4 * GPU, 2, 4)
    assert gates.to_start(yard().snapshot(), []) == Amounts()


# --- one list of gates


def refusals(some: Yard, name: str) -> list[Waiting | None]:
    """What each gate says of a workload, in the order in which they are asked."""
    cycle = some.cycle(phases=())
    team = cycle.scratch.team(f"ns/{name}")
    return [gate(cycle.question(team, team.pods)) for gate in gates.GATES.values()]


@pytest.mark.row("B-03", case="order")
def test_the_first_gate_that_is_shut_gives_the_reason() -> None:
    some = yard().nodes(1).queue("a", limit=0).gang("a", 1, minimum=2)
    queue, gang, bounds = refusals(some, "a-1")
    assert (queue, gang and gang.reason, bounds and bounds.reason) == (None, Reason.GANG_INCOMPLETE, Reason.OVER_LIMIT)
    cycle = some.cycle(phases=())
    team = cycle.scratch.team("ns/a-1")
    assert gates.refusal(cycle.question(team, team.pods)) == gang


@pytest.mark.row("B-03", case="gpu-memory")
def test_gpu_memory_counts_the_least_it_may_before_a_node_is_chosen_and_exactly_on_it() -> None:
    some = yard().node("small", gpu_memory=16_384).node("large", gpu_memory=81_920).queue("a", limit="0.3")
    some.gang("a", 1, shape=Shape(gpu_memory=16_384))
    cycle = some.cycle(phases=())
    team = cycle.scratch.team("ns/a-1")
    question = cycle.question(team, team.pods)
    assert gates.refusal(question) is None
    assert gates.bound_on(question, team.pods[0], "large") is None
    refused = gates.bound_on(question, team.pods[0], "small")
    assert refused is not None
    assert refused.reason is Reason.OVER_LIMIT


def test_on_a_node_whole_gpus_count_as_everywhere() -> None:
    some = yard().nodes(1).queue("a", limit=0).pending("a")
    cycle = some.cycle(phases=())
    team = cycle.scratch.team("ns/a-1")
    assert gates.bound_on(cycle.question(team, team.pods), team.pods[0], "node-1") is None


@pytest.mark.row("B-03", case="deep")
def test_queues_that_hang_too_deep_have_no_accounts_with_shares_or_without() -> None:
    some = yard().queue("q0")
    for depth in range(1, 40):
        some.queue(f"q{depth}", parent=f"q{depth - 1}")
    snapshot = some.snapshot()
    assert set(Accounts.without_shares(snapshot).by_name) == set(Accounts.of(snapshot, 0).by_name)
    assert len(Accounts.without_shares(snapshot).by_name) == MOST_LEVELS
