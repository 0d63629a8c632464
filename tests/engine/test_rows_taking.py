"""Rows Q-14 to Q-22: who may take from whom, and how much."""

import pytest
from gpuyard.engine.model.results import Reason, Until

from tests.engine.builders import MINUTE, NOW, yard


@pytest.mark.row("Q-14")
def test_a_starved_queue_takes_back_exactly_its_quota_newest_first() -> None:
    told = yard().nodes(1).queue("a", quota=4).queue("b", quota=4).running("b", 8).pending("a", 4).plan()
    assert sorted(told.evicted) == ["b-5", "b-6", "b-7", "b-8"]
    assert (len(told.placed("a")), len(told.placed("b"))) == (4, 4)
    assert told.settled


@pytest.mark.row("Q-14")
def test_the_pod_after_the_last_rightful_one_waits_and_evicts_nobody() -> None:
    some = yard().nodes(1).queue("a", quota=4).queue("b", quota=4).running("a", 4).running("b", 4)
    told = some.pending("a").plan()
    assert told.evicted == []
    assert told.waits() == ["a-5"]


@pytest.mark.row("Q-15")
def test_an_indivisible_victim_goes_and_does_not_come_back_for_revenge() -> None:
    some = yard().nodes(1).queue("a", quota=4).queue("b", quota=4)
    told = some.running("b", gpus=8).pending("a").plan()
    assert told.evicted == ["b-1"]
    assert told.placed() == ["a-1"]
    assert told.waits() == ["b-1"]
    assert told.settled


@pytest.mark.row("Q-16")
def test_reclaim_ends_at_the_fair_share() -> None:
    some = yard().nodes(1).queue("a", quota=2).queue("b", quota=2)
    told = some.running("b", 8).pending("a", 6).plan()
    assert len(told.evicted) == 4
    assert (len(told.placed("a")), len(told.placed("b"))) == (4, 4)
    assert [told.reason(pod) for pod in told.waits("a")] == [Reason.RECLAIM_NOT_ALLOWED] * 2


@pytest.mark.row("Q-17")
def test_priority_moves_the_fair_share_and_the_reclaim_with_it() -> None:
    some = yard().nodes(1).queue("a", quota=2, priority=150).queue("b", quota=2, priority=100)
    told = some.running("b", 8).pending("a", 6).plan()
    assert told.fair("a", "b") == [6, 2]
    assert len(told.evicted) == 6
    assert (len(told.placed("a")), len(told.placed("b"))) == (6, 2)


@pytest.mark.row("Q-18")
def test_pods_within_quota_are_safe() -> None:
    some = yard().nodes(1).queue("a", quota=4).queue("b", quota=4).running("b", 4).running("a", 4)
    told = some.pending("a").plan()
    assert told.evicted == []
    assert told.reason("a-5") is Reason.RECLAIM_NOT_ALLOWED


@pytest.mark.row("Q-19")
def test_pods_that_cannot_be_preempted_are_safe_even_above_a_lowered_quota() -> None:
    some = yard().nodes(1).queue("a", quota=4).queue("b", quota=4)
    told = some.running("b", 8, preemptible=False).pending("a").plan()
    assert told.evicted == []
    assert told.reason("a-1") is Reason.NO_NODE_FITS
    assert told.sentence("a-1") == "no node fits (1 GPU asked for; nodes: 1 too few free GPUs)"


@pytest.mark.row("Q-20")
def test_a_project_s_quota_does_not_protect_it_where_its_department_has_none() -> None:
    some = yard().nodes(1, gpus=4).queue("first", quota=0).queue("second", quota=8)
    some.queue("p", parent="first", quota=4).queue("q", parent="second", quota=4)
    told = some.running("p", 4).pending("q", 4).plan()
    assert len(told.evicted) == 4
    assert (len(told.placed("p")), len(told.placed("q"))) == (0, 4)


@pytest.mark.row("Q-21", case="higher")
def test_a_higher_priority_takes_the_newest_of_its_own_queue() -> None:
    some = yard().nodes(2).queue("a", quota=8).queue("b", quota=8).running("a", 8).running("b", 8)
    told = some.gang("a", 1, name="urgent", gpus=2, priority=75).plan()
    assert sorted(told.evicted) == ["a-7", "a-8"]
    assert "urgent" in told.placed()


@pytest.mark.row("Q-21", case="equal")
def test_an_equal_priority_takes_from_nobody() -> None:
    some = yard().nodes(2).queue("a", quota=8).queue("b", quota=8).running("a", 8).running("b", 8)
    told = some.gang("a", 1, name="patient", gpus=2, priority=50).plan()
    assert told.evicted == []
    assert told.waits() == ["patient"]


def started(minutes_ago: int) -> dict[str, int]:
    return {"started": NOW - minutes_ago * MINUTE}


@pytest.mark.row("Q-22", case="protected")
def test_a_minimum_runtime_protects_until_it_is_over() -> None:
    some = yard().nodes(1).queue("a", quota=4).queue("b", quota=4, reclaim_min_runtime=10 * MINUTE)
    told = some.running("b", 8, pod=started(4)).pending("a").plan()
    assert told.evicted == []
    assert told.reason("a-1") is Reason.PROTECTED_BY_MIN_RUNTIME
    assert told.facts("a-1") == Until(until=NOW + 6 * MINUTE, who="b", victim="ns/b-8")


@pytest.mark.row("Q-22", case="over")
def test_a_minimum_runtime_that_is_over_protects_nobody() -> None:
    some = yard().nodes(1).queue("a", quota=4).queue("b", quota=4, reclaim_min_runtime=10 * MINUTE)
    told = some.running("b", 8, pod=started(10)).pending("a").plan()
    assert told.evicted == ["b-8"]


def test_a_small_pod_waits_behind_an_older_one_that_is_too_large_to_take() -> None:
    """As the peer has it: the best workload of a queue speaks for all of it."""
    some = yard().nodes(1).queue("a", quota=2).queue("b", quota=6).running("b", 8)
    assert some.pending("a", name="small").plan().evicted == ["b-8"]
    assert some.pending("a", gpus=3, name="large", created=0).plan().evicted == []
