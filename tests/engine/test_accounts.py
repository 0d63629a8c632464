"""What each queue holds during a cycle, and where two queues' ways part."""

import pytest
from gpuyard.engine.model import GPU, SCALE, Amounts
from gpuyard.engine.rules.accounts import Accounts

from tests.engine.builders import Yard, yard

ONE = Amounts(gpu=GPU)


def departments() -> Yard:
    """A company of two departments, the first with two teams and the second with one."""
    some = yard().nodes(1).queue("left").queue("right")
    return some.queue("l1", parent="left").queue("l2", parent="left").queue("r1", parent="right")


def accounts(some: Yard) -> Accounts:
    return Accounts.of(some.snapshot(), SCALE)


def test_accounts_start_with_what_the_whole_subtree_holds() -> None:
    some = accounts(departments().running("l1", 2).running("l2", preemptible=False))
    assert [some.by_name[name].allocated.gpu // GPU for name in ("l1", "l2", "left", "right")] == [2, 1, 3, 0]
    assert some.by_name["left"].fixed == ONE


def test_a_queue_whose_parent_does_not_exist_has_no_account() -> None:
    some = accounts(yard().queue("a").queue("orphan", parent="gone"))
    assert set(some.by_name) == {"a"}
    assert some.path("orphan") == ()


def test_only_queues_without_children_are_leaves() -> None:
    assert accounts(departments()).leaves == {"l1", "l2", "r1"}


def test_the_way_up_begins_with_the_queue_itself() -> None:
    assert [account.name for account in accounts(departments()).path("l1")] == ["l1", "left"]


def test_what_a_queue_is_given_counts_for_its_ancestors_and_nobody_else() -> None:
    some = accounts(departments())
    some.add("l1", ONE, fixed=False)
    assert {name for name, a in some.by_name.items() if a.allocated == ONE} == {"l1", "left"}


@pytest.mark.parametrize("fixed", [False, True])
def test_what_is_given_and_taken_back_leaves_no_trace_but_the_version(fixed: bool) -> None:
    some = accounts(departments())
    some.add("l1", ONE, fixed=fixed)
    assert some.by_name["left"].fixed.gpu == GPU * fixed
    some.add("l1", Amounts(gpu=-GPU), fixed=fixed)
    left = some.by_name["left"]
    assert (left.allocated, left.fixed, left.version, some.changes) == (Amounts(), Amounts(), 2, 2)


def test_a_copy_keeps_the_numbers_of_its_moment() -> None:
    some = accounts(departments())
    before = some.copy_of(["l1"])
    some.add("l1", ONE, fixed=False)
    assert set(before.by_name) == {"l1", "left"}
    assert before.by_name["left"].allocated == Amounts()


@pytest.mark.parametrize(
    ("taker", "holder", "pair"),
    [
        pytest.param("l1", "r1", ("left", "right"), id="of two departments: the departments"),
        pytest.param("l1", "l2", ("l1", "l2"), id="of one department: the teams"),
        pytest.param("l1", "left", ("left", "left"), id="one above the other: the upper one twice"),
    ],
)
def test_two_queues_are_compared_where_their_ways_part(taker: str, holder: str, pair: tuple[str, str]) -> None:
    x, y = accounts(departments()).levelled(taker, holder)
    assert (x.name, y.name) == pair


def test_pods_left_behind_in_a_queue_that_has_children_now_stay_while_it_is_within_its_share() -> None:
    some = yard().nodes(1).queue("left", quota=8).queue("l1", parent="left", quota=8)
    told = some.running("left", 8).pending("l1").plan()
    assert told.evicted == []
    assert told.waits() == ["l1-1"]
