"""Which card takes a task that asks for a part of its memory.

A card takes a task if it has as much memory free as the task asks for; what two cards have free never adds up. The best
card is the one that the caller's strategy ranks first by its free memory: `pack` the one with the least (best fit), so
that large tasks still find room, `spread` the one with the most. Equal cards are ordered by host, then by index.

All amounts are whole numbers of one unit, which the caller chooses: MiB, or thousandths of a MiB.

Decided in docs/decisions.md: "One function chooses the card, and it knows nothing of Kubernetes".
"""

from collections.abc import Callable, Iterable

import msgspec


class Task(msgspec.Struct, frozen=True, gc=False):
    """What a task asks for on each card that it gets."""

    memory: int


class Card(msgspec.Struct, frozen=True, gc=False):
    """A card that may take tasks."""

    host: str
    index: int
    free: int
    """The memory that nobody has reserved or uses."""

    def takes(self, task: Task) -> bool:
        """Whether the card has room for the task."""
        return self.free >= task.memory


def ranked(task: Task, cards: Iterable[Card], rank: Callable[[int], int]) -> list[Card]:
    """The cards that take a task, the best first: those whose free memory has the lowest rank.

    A task that asks for several cards gets the first ones.
    """
    return sorted(
        (card for card in cards if card.takes(task)), key=lambda card: (rank(card.free), card.host, card.index)
    )
