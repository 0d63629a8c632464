"""Whose turn it is: eight rules between two queues, the first difference decides."""

import pytest
from gpuyard.engine.model import GPU, NOTHING, UNLIMITED, Amounts
from gpuyard.engine.model.amounts import RATIO
from gpuyard.engine.rules.accounts import Account
from gpuyard.engine.rules.order import before, dominant_share, rank

TOTAL = Amounts(gpu=16 * GPU, cpu=64_000, memory=1000)


def gpus(count: int) -> Amounts:
    return Amounts(gpu=count * GPU)


def queue(name: str, **also: object) -> Account:
    """A queue that may have 8 GPUs and holds none."""
    return Account(**({"name": name, "allocatable": gpus(8)} | also))  # type: ignore[arg-type]


def first(left: Account, right: Account, *, need: Amounts = gpus(1), taken: Amounts = NOTHING) -> str:  # noqa: B008
    """The name of the queue that goes first, whichever is asked about; `taken` are victims of the left one."""
    mine, theirs = rank(left, need, TOTAL, taken), rank(right, need, TOTAL)
    assert before(mine, theirs) is not before(theirs, mine)
    return left.name if before(mine, theirs) else right.name


def test_a_queue_over_its_fair_share_in_everything_goes_last_whatever_its_priority() -> None:
    over = queue("over", allocated=Amounts(2, 2, 2), fair_share=Amounts(1, 1, 1), priority=900)
    assert first(over, queue("within")) == "within"


@pytest.mark.parametrize("spared", range(3))
def test_one_resource_within_the_fair_share_keeps_a_queue_from_being_over(spared: int) -> None:
    held = Amounts(*(1 if n == spared else 2 for n in range(3)))
    most = queue("most", allocated=held, fair_share=Amounts(1, 1, 1), priority=900)
    assert first(most, queue("within")) == "most"


@pytest.mark.parametrize("free", range(3))
def test_a_queue_without_bound_in_a_resource_is_never_over(free: int) -> None:
    share = Amounts(*(UNLIMITED if n == free else 1 for n in range(3)))
    rich = queue("rich", allocated=Amounts(2, 2, 2), fair_share=share, priority=900)
    assert first(rich, queue("within")) == "rich"


def test_a_starved_queue_goes_before_one_of_higher_priority() -> None:
    assert first(queue("starved", quota=gpus(1)), queue("higher", priority=900)) == "starved"


def test_a_queue_is_starved_only_if_the_workload_keeps_it_within_its_quota() -> None:
    assert first(queue("passes", quota=gpus(1)), queue("higher", priority=101), need=gpus(2)) == "higher"


def test_higher_priority_goes_before_a_smaller_share() -> None:
    assert first(queue("higher", priority=101, allocated=gpus(7)), queue("idle")) == "higher"


def test_a_queue_that_uses_what_it_may_not_have_goes_after_the_fullest_other() -> None:
    offender = queue("offender", allocated=Amounts(cpu=1))
    fullest = queue("fullest", allocated=Amounts(cpu=2000), allocatable=Amounts(gpu=8 * GPU, cpu=1))
    assert first(offender, fullest) == "fullest"


def test_the_smaller_share_with_the_workload_goes_first() -> None:
    assert first(queue("half", allocated=gpus(4)), queue("quarter", allocated=gpus(2))) == "quarter"


def test_victims_chosen_already_make_a_share_smaller() -> None:
    assert first(queue("half", allocated=gpus(4)), queue("third", allocated=gpus(3)), taken=gpus(2)) == "half"


def test_with_victims_making_shares_equal_the_share_as_it_is_decides() -> None:
    assert first(queue("half", allocated=gpus(4)), queue("quarter", allocated=gpus(2)), taken=gpus(2)) == "quarter"


def test_of_equal_shares_the_queue_that_may_have_less_goes_first() -> None:
    less = queue("less", allocatable=Amounts(8 * GPU, 1, 1), created=2)
    more = queue("more", allocatable=Amounts(8 * GPU, 1, 2), created=1)
    assert first(less, more) == "less"
    assert first(more, less) == "less"


def test_where_each_may_have_more_of_something_the_older_goes_first() -> None:
    young = queue("young", allocatable=Amounts(8 * GPU, 1, 2), created=2)
    old = queue("old", allocatable=Amounts(8 * GPU, 2, 1), created=1)
    assert first(young, old) == "old"


def test_of_queues_alike_the_older_goes_first_then_the_name() -> None:
    assert first(queue("a", created=2), queue("b", created=1)) == "b"
    assert first(queue("b", created=1), queue("a", created=1)) == "a"


def test_the_dominant_share_is_that_of_the_scarcest_resource() -> None:
    assert dominant_share(Amounts(GPU, 30, 1), Amounts(4 * GPU, 40, 10), TOTAL) == RATIO * 3 // 4


def test_without_a_bound_a_share_is_a_part_of_the_cluster() -> None:
    assert dominant_share(gpus(4), Amounts(UNLIMITED, UNLIMITED, UNLIMITED), TOTAL) == RATIO // 4


def test_a_share_of_nothing_counts_a_thousandfold_per_unit() -> None:
    assert dominant_share(gpus(2), NOTHING, TOTAL) == 2000 * RATIO
