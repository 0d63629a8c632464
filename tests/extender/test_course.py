"""Where somebody would have his turn whose queue has none, or none left."""

import pytest
from gpuyard.engine.model import GPU, Amounts
from gpuyard.engine.rules.accounts import Account, Accounts
from gpuyard.engine.rules.order import rank
from gpuyard.extender.precedence.queue_turns import Course

TOTAL, ONE = Amounts(gpu=100 * GPU), Amounts(gpu=GPU)
QUEUES = {"left": "", "right": "", "a": "left", "b": "right", "idle": "left", "alone": ""}
"""By name their parents; the first ones are older."""


def accounts(**gpus: int) -> Accounts:
    """All queues with a quota of ten, and so many GPUs in use."""
    made = Accounts(
        {
            name: Account(
                name=name,
                parent=parent,
                created=age,
                quota=Amounts(gpu=10 * GPU),
                allocatable=Amounts(gpu=10 * GPU),
                fair_share=Amounts(gpu=10 * GPU),
            )
            for age, (name, parent) in enumerate(QUEUES.items())
        }
    )
    for name, count in gpus.items():
        made.add(name, Amounts(gpu=count * GPU), fixed=False)
    return made


def course(*turns: str, **gpus: int) -> Course:
    """The queues' turns, for one GPU each, numbered from 0."""
    standing = accounts(**gpus)
    made = Course(standing, TOTAL)
    for number, queue in enumerate(turns):
        made.add(number, queue, tuple(rank(account, ONE, TOTAL) for account in standing.path(queue)))
        made.join(queue, ONE, fixed=False)
    return made


def goes(of: Course, queue: str, **gpus: int) -> int | None:
    return of.turn_after(queue, ONE, accounts(**gpus))


def test_a_queue_without_a_turn_goes_before_the_first_that_ranks_after_it() -> None:
    assert goes(course("b", "b", "b", alone=1), "alone", alone=1) == 2, "of equals the older one goes first"


def test_a_queue_that_ranks_after_all_others_has_no_turn_before_theirs() -> None:
    assert goes(course("b", "b", alone=9), "alone", alone=9) is None


def test_one_more_of_a_queue_goes_after_its_last_turn() -> None:
    assert goes(course("a", "a", "b", "b", "b", "b"), "a") == 4


def test_queues_are_compared_where_their_ways_part() -> None:
    assert goes(course("a", "b", "a", "b"), "idle") == 2, "it would have had the second turn of its parent"
    assert goes(course("a", "b", "a", "b", idle=2), "idle", idle=2) is None


def test_who_has_come_counts_for_the_next_one() -> None:
    of = course("b", "b", "b")
    assert goes(of, "alone") == 1
    of.join("alone", ONE, fixed=True)
    assert goes(of, "alone") == 2


@pytest.mark.parametrize("queue", ["a", "alone"])
def test_without_a_turn_there_is_none_to_go_before(queue: str) -> None:
    assert goes(course(), queue) is None


def test_a_queue_that_has_come_since_counts_as_it_is() -> None:
    of = Course(Accounts({}), TOTAL)
    of.add(0, "b", tuple(rank(account, ONE, TOTAL) for account in accounts(b=1).path("b")))
    assert goes(of, "alone") == 0


def test_in_a_long_line_who_goes_before_none_of_the_next_turns_goes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    of = course("b", "b", "b", "b", alone=1)
    assert goes(of, "alone", alone=1) == 2
    monkeypatch.setattr("gpuyard.extender.precedence.queue_turns.FAR", 2)
    assert goes(of, "alone", alone=1) is None


def test_turns_of_a_queue_itself_are_passed_over_by_one_that_is_below_it_since() -> None:
    assert goes(course("left"), "a") is None
