"""Which decisions become plans: those that take from somebody, or that must be kept."""

import pytest
from gpuyard.common.plans.plan import Plan
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle
from gpuyard.extender.planner.decide.new_plans import decided

from tests.extender.builders import Bench, Json, node, pod, queue

NOW = 1_800_000_000


def plans(*things: Json, keep_nodes_empty: bool = False, now: int = NOW) -> list[Plan]:
    snapshot = Bench(*things).ledger.snapshot.at(now)
    cycle = Cycle(snapshot, Settings(keep_nodes_empty=keep_nodes_empty, move_bare_pods=True))
    cycle.run()
    return decided(cycle)


def old(name: str, queue: str, gpus: int, on: str, second: int) -> Json:
    return pod(name, queue, gpus, on=on, created=f"2026-01-01T00:00:{second:02}Z")


def test_who_simply_starts_needs_no_plan() -> None:
    assert plans(node("n1"), queue("team"), pod("a", "team")) == []


def test_a_reclaim_names_claimant_queue_victims_and_place() -> None:
    lent = [old("b", "lent", 4, "n1", 1), old("c", "lent", 4, "n1", 2)]
    (plan,) = plans(node("n1"), queue("lent", quota=4), queue("own", quota=4), *lent, pod("a", "own", 4))
    assert (plan.spec.phase, plan.spec.workload, plan.spec.queue) == ("reclaim", "ns/a", "own")
    assert [(one.pod, one.uid, one.node) for one in plan.spec.evictions] == [("ns/c", "uid-c", "n1")]
    assert plan.spec.evictions[0].reason.startswith("reclaim for ns/a; queue own: ")
    assert [(one.pod, one.node, one.shape and one.shape.gpus) for one in plan.spec.promises] == [("ns/a", "n1", 4)]


def test_a_move_has_a_place_for_both() -> None:
    small = [old("one", "team", 2, "n1", 1), old("two", "team", 2, "n2", 2)]
    (plan,) = plans(node("n1", 4), node("n2", 4), queue("team"), *small, pod("large", "team", 4))
    assert plan.spec.phase == "consolidate"
    assert {one.pod: one.node for one in plan.spec.promises} == {"ns/large": "n2", "ns/two": "n1"}
    assert {one.uid for one in plan.spec.promises} == {"uid-large", ""}, "who is moved comes back with another UID"
    assert [plan.is_moved(one) for one in plan.spec.promises] == [one.pod == "ns/two" for one in plan.spec.promises]


@pytest.mark.row("B-53", case="plan")
def test_a_move_whose_new_place_is_taken_back_is_one_plan_with_the_reclaim() -> None:
    small = [old("one", "lent", 1, "n1", 1), old("two", "lent", 1, "n2", 2)]
    claims = [pod("first", "own", 4), pod("second", "own", 4)]
    (plan,) = plans(node("n1", 4), node("n2", 4), queue("lent", quota=0), queue("own", quota=8), *small, *claims)
    assert (plan.spec.phase, plan.spec.workload) == ("reclaim", "ns/second")
    assert {one.pod for one in plan.spec.evictions} == {"ns/one", "ns/two"}
    assert {one.pod for one in plan.spec.promises} == {"ns/first", "ns/second"}


def test_each_decision_is_a_plan_of_its_own() -> None:
    lent = [old(f"b{n}", "lent", 2, "n1", n) for n in range(4)]
    claims = [pod("a1", "own", 2), pod("a2", "own", 2)]
    made = plans(node("n1"), queue("lent", quota=4), queue("own", quota=4), *lent, *claims)
    assert [len(plan.spec.evictions) for plan in made] == [1, 1]
    assert len({plan.name for plan in made}) == 2


def test_the_same_decision_at_the_same_time_has_the_same_name() -> None:
    lent = [old("b", "lent", 8, "n1", 1)]
    things = [node("n1"), queue("lent", quota=0), queue("own", quota=8), *lent, pod("a", "own", 8)]
    (one,), (same,), (later,) = plans(*things), plans(*things), plans(*things, now=NOW + 1)
    assert one.name == same.name
    assert one.name != later.name


def test_an_empty_node_is_opened_by_plan_where_nodes_are_kept_empty() -> None:
    things = [node("n1"), queue("team"), pod("a", "team")]
    (plan,) = plans(*things, keep_nodes_empty=True)
    assert (plan.spec.phase, plan.spec.evictions) == ("allocate", ())
    assert [(one.pod, one.node) for one in plan.spec.promises] == [("ns/a", "n1")]


def test_a_node_in_use_needs_no_plan_even_there() -> None:
    things = [node("n1"), queue("team"), old("b", "team", 1, "n1", 1), pod("a", "team")]
    assert plans(*things, keep_nodes_empty=True) == []
