"""Rows Q-01 to Q-09: what each queue is due. One-GPU pods, no limits, the queues older the earlier they are named."""

import pytest

from tests.engine.builders import yard


@pytest.mark.row("Q-01")
def test_a_queue_gets_what_it_asks_for_and_its_neighbour_the_rest() -> None:
    told = yard().nodes(2).queue("a", quota=8).queue("b", quota=8).pending("a", 4).pending("b", 16).plan()
    assert told.fair("a", "b") == [4, 12]


@pytest.mark.row("Q-02")
def test_surplus_is_divided_by_weight() -> None:
    some = yard().nodes(1, gpus=13).queue("a", quota=2, weight=2).queue("b", quota=2, weight=1)
    assert some.pending("a", 20).pending("b", 20).plan().fair("a", "b") == [8, 5]


@pytest.mark.row("Q-03", case="a-older")
def test_the_odd_gpu_goes_to_the_older_queue() -> None:
    some = yard().nodes(1, gpus=11).queue("a", quota=2).queue("b", quota=2)
    assert some.pending("a", 20).pending("b", 20).plan().fair("a", "b") == [6, 5]


@pytest.mark.row("Q-03", case="b-older")
def test_the_odd_gpu_goes_to_the_older_queue_whatever_its_name() -> None:
    some = yard().nodes(1, gpus=11).queue("b", quota=2).queue("a", quota=2)
    assert some.pending("a", 20).pending("b", 20).plan().fair("a", "b") == [5, 6]


@pytest.mark.row("Q-04")
def test_a_higher_priority_takes_all_the_surplus_it_wants_first() -> None:
    some = yard().nodes(1, gpus=10).queue("a", quota=2, priority=150).queue("b", quota=2, priority=100)
    assert some.pending("a", 8).pending("b", 8).plan().fair("a", "b") == [8, 2]


@pytest.mark.row("Q-05", case="shares")
def test_a_queue_of_weight_0_gets_no_surplus_share() -> None:
    some = yard().nodes(1, gpus=10).queue("a", quota=2, weight=0).queue("b", quota=2)
    assert some.pending("a", 8).pending("b", 3).plan().fair("a", "b") == [2, 3]


@pytest.mark.row("Q-05", case="free-capacity")
def test_a_queue_of_weight_0_runs_in_free_capacity_all_the_same() -> None:
    some = yard().nodes(1, gpus=10).queue("a", quota=2, weight=0).queue("b", quota=2)
    told = some.pending("a", 8).pending("b", 3).plan()
    assert len(told.placed("a")) == 7
    assert len(told.placed("b")) == 3


@pytest.mark.row("Q-06")
def test_a_limit_ends_a_share() -> None:
    some = yard().nodes(2).queue("a", quota=4, limit=6).queue("b", quota=4)
    assert some.pending("a", 10).pending("b", 20).plan().fair("a", "b") == [6, 10]


@pytest.mark.row("Q-07")
def test_departments_divide_first_and_their_queues_after() -> None:
    told = (
        yard()
        .nodes(3)
        .queue("d1", quota=12, weight=2)
        .queue("d2", quota=4, weight=1)
        .queue("a", parent="d1", quota=6)
        .queue("b", parent="d1", quota=6)
        .queue("c", parent="d2", quota=2, weight=3)
        .queue("d", parent="d2", quota=2, weight=1)
        .pending("a", 12)
        .pending("b", 6)
        .pending("c", 10)
        .pending("d", 10)
        .plan()
    )
    assert told.fair("d1", "d2") == [17, 7]
    assert told.fair("a", "b", "c", "d") == [11, 6, 4, 3]


@pytest.mark.row("Q-08")
def test_quotas_above_the_total_are_all_given_and_nothing_else() -> None:
    some = yard().nodes(1).queue("a", quota=6).queue("b", quota=6)
    assert some.pending("a", 6).pending("b", 6).plan().fair("a", "b") == [6, 6]


@pytest.mark.row("Q-09", case="unlimited")
def test_an_unlimited_quota_is_given_first_as_far_as_it_asks() -> None:
    some = yard().nodes(1, gpus=12).queue("a", quota=-1).queue("b", quota=4)
    assert some.pending("a", 5).pending("b", 12).plan().fair("a", "b") == [5, 7]


@pytest.mark.row("Q-09", case="history")
def test_past_use_lowers_the_share_of_the_surplus() -> None:
    some = yard().nodes(1, gpus=12).queue("a", quota=2).queue("b", quota=2).usage("a", "0.5").usage("b", 0)
    assert some.pending("a", 12).pending("b", 12).plan().fair("a", "b") == [5, 7]
