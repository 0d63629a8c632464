"""Which card takes a task."""

import pytest
from gpuyard.engine.placing.strategies import STRATEGIES, Strategy
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.placing.strategies.spread import SPREAD
from gpuyard.engine.sharing.cards import Card, Task, ranked

TIGHT, LOOSE, EMPTY = Card("b", 0, 4096), Card("a", 0, 6144), Card("c", 0, 16384)


def best(memory: int, *cards: Card, strategy: Strategy = PACK) -> Card | None:
    return next(iter(ranked(Task(memory), cards, strategy.rank)), None)


@pytest.mark.row("B-24")
def test_a_task_goes_to_the_card_with_the_least_free_memory_that_has_room() -> None:
    assert best(4096, EMPTY, LOOSE, TIGHT) == TIGHT
    assert best(4097, EMPTY, LOOSE, TIGHT) == LOOSE


@pytest.mark.row("B-24")
def test_to_spread_a_task_goes_to_the_card_with_the_most_free_memory() -> None:
    assert best(4096, TIGHT, EMPTY, LOOSE, strategy=SPREAD) == EMPTY


def test_the_free_memory_of_two_cards_never_adds_up() -> None:
    assert best(8192, TIGHT, LOOSE) is None


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_equal_cards_go_by_host_then_index(strategy: Strategy) -> None:
    cards = [Card("b", 0, 9), Card("a", 10, 9), Card("a", 2, 9)]
    assert ranked(Task(9), cards, strategy.rank) == [cards[2], cards[1], cards[0]]


def test_without_cards_nothing_takes_a_task() -> None:
    assert ranked(Task(1), (), PACK.rank) == []
