"""Rows Q-27 to Q-31: workloads of several pods, and victims that a disruption budget protects."""

import pytest
from gpuyard.engine.model import State
from gpuyard.engine.model.results import Gap, Protected, Reason

from tests.engine.builders import NOW, Yard, yard


@pytest.mark.row("Q-27")
def test_a_gang_that_finds_room_for_a_part_does_not_start_at_all() -> None:
    told = yard().nodes(1, gpus=4).queue("a", quota=8).gang("a", 3, name="job", gpus=2).plan()
    assert told.placed() == []
    assert told.reason("job-0") is Reason.GANG_DOES_NOT_FIT
    assert told.facts("job-0") == Gap(found=2, needed=3)
    assert told.sentence("job-0") == "the gang needs room for 3 pods at once (found 2 of 3)"


def elastic(*, running: int) -> Yard:
    """Three GPUs, and a job of 4 pods in queue b of which 2 must run."""
    some = yard().nodes(1, gpus=3).queue("a", quota=2).queue("b", quota=1)
    return some.gang("b", 4, name="job", minimum=2, running=running)


@pytest.mark.row("Q-28", case="runs")
def test_an_elastic_gang_takes_what_there_is_beyond_its_minimum() -> None:
    told = elastic(running=0).plan()
    assert told.placed() == ["job-0", "job-1", "job-2"]


@pytest.mark.row("Q-28", case="reclaim-one")
def test_an_elastic_gang_gives_its_surplus_first() -> None:
    told = elastic(running=3).pending("a").plan()
    assert told.evicted == ["job-2"]
    assert told.placed() == ["a-1", "job-0", "job-1"]


@pytest.mark.row("Q-28", case="reclaim-two")
def test_the_core_of_an_elastic_gang_goes_whole() -> None:
    told = elastic(running=3).pending("a", gpus=2).plan()
    assert sorted(told.evicted) == ["job-0", "job-1", "job-2"]
    assert told.placed("a") == ["a-1"]


def torn(**also: object) -> Yard:
    some = yard().nodes(1).queue("a", quota=8)
    return some.gang("a", 3, name="job", running=2, **also).pod("job-2", gated=True)  # type: ignore[arg-type]


@pytest.mark.row("Q-29", case="60s")
def test_a_gang_below_its_minimum_is_ended_after_its_grace() -> None:
    told = torn(stale_since=NOW - 60).plan()
    assert sorted(told.evicted) == ["job-0", "job-1"]


@pytest.mark.row("Q-29", case="59s")
def test_a_gang_below_its_minimum_has_its_grace() -> None:
    assert torn(stale_since=NOW - 59).plan().evicted == []


@pytest.mark.row("Q-29", case="never")
def test_a_negative_grace_never_ends() -> None:
    assert torn(stale_since=NOW - 600, staleness_grace=-1).plan().evicted == []


@pytest.mark.row("Q-29", case="succeeded")
def test_a_gang_that_is_finishing_is_left_alone() -> None:
    some = torn(stale_since=NOW - 600).pod("job-2", state=State.SUCCEEDED, gated=False)
    assert some.plan().evicted == []


@pytest.mark.row("Q-30", case="room-for-2")
def test_sub_groups_do_not_start_before_all_their_minima_fit() -> None:
    some = yard().nodes(1, gpus=2).queue("a", quota=8)
    told = some.gang("a", 5, name="job", parts={"master": (1, 1), "worker": (4, 2)}).plan()
    assert told.placed() == []


@pytest.mark.row("Q-30", case="room-for-3")
def test_sub_groups_start_with_their_minima() -> None:
    some = yard().nodes(1, gpus=3).queue("a", quota=8)
    told = some.gang("a", 5, name="job", parts={"master": (1, 1), "worker": (4, 2)}).plan()
    assert told.placed() == ["job-0", "job-1", "job-2"]


def starved() -> Yard:
    return yard().nodes(1, gpus=4).queue("a", quota=2).queue("b", quota=2).running("b", 4).pending("a")


@pytest.mark.row("Q-31", case="another")
def test_a_budget_that_allows_nothing_sends_the_plan_to_another_victim() -> None:
    told = starved().budget("shield", allowed=0, pods=["b-3", "b-4"]).plan()
    assert told.evicted == ["b-2"]


@pytest.mark.row("Q-31", case="none")
def test_where_budgets_protect_everybody_the_taker_waits() -> None:
    told = starved().budget("shield", allowed=0, pods=["b-1", "b-2", "b-3", "b-4"]).plan()
    assert told.evicted == []
    assert told.reason("a-1") is Reason.PROTECTED_BY_BUDGET
    assert told.facts("a-1") == Protected(budgets=("ns/shield",))


def test_a_budget_that_allows_one_of_two_victims_is_named() -> None:
    told = (
        starved().budget("shield", allowed=1, pods=["b-1", "b-2", "b-3", "b-4"]).pending("a", name="p", gpus=2).plan()
    )
    assert told.evicted == ["b-4"]
    assert told.waits("p") == ["p"]
    some = (
        yard().nodes(1, gpus=4).queue("a", quota=2).queue("b", quota=2).running("b", 4).pending("a", name="p", gpus=2)
    )
    told = some.budget("shield", allowed=1, pods=["b-1", "b-2", "b-3", "b-4"]).plan()
    assert told.evicted == []
    assert told.facts("p") == Protected(budgets=("ns/shield",))


def test_a_budget_that_allows_one_pod_of_a_gang_keeps_it_whole() -> None:
    some = yard().nodes(1, gpus=4).queue("a", quota=2).queue("b", quota=2).gang("b", 4, name="core", running=4)
    told = some.budget("shield", allowed=1, pods=["core-0", "core-1"]).pending("a").plan()
    assert told.evicted == []
    assert told.facts("a-1") == Protected(budgets=("ns/shield",))


def test_budgets_can_be_left_out_of_account() -> None:
    some = starved().budget("shield", allowed=0, pods=["b-1", "b-2", "b-3", "b-4"])
    assert some.plan(honor_disruption_budgets=False).evicted == ["b-4"]
