"""Work a little at a time, so that who steps through a cycle never waits long; and the same at once, for who does not.

A step is meant to take a few hundredths of a millisecond: somebody may be waiting for its end.
"""

from collections.abc import Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

_RUN = 8
"""How much is made between two pauses: what is made may take much longer than to put it in order."""

_MERGED = 32
"""How much is merged, or freed, between two pauses."""

_BLOCK = 128
"""How much is sorted at once: many more, and that would take long; fewer, and merging the many blocks would."""


def in_order(items: Iterable[Any]) -> Generator[None, None, list[Any]]:
    """Sort by blocks and merge them, with pauses; the items may be made as they are asked for."""
    blocks: list[list[Any]] = [[]]
    rest = iter(items)
    while run := list(islice(rest, _RUN)):
        blocks[-1] += run
        if len(blocks[-1]) >= _BLOCK:
            blocks[-1].sort()
            blocks.append([])
        yield
    blocks[-1].sort()
    if len(blocks) == 1:
        return blocks[0]
    merged: list[Any] = []
    rest = merge(*blocks)
    while run := list(islice(rest, _MERGED)):
        merged += run
        yield
    return merged


def paused(items: Iterable[T]) -> Iterator[T | None]:
    """The items, and now and then None: then others may do something."""
    for count, item in enumerate(items, 1):
        yield item
        if count % _RUN == 0:
            yield None


def let_go(things: list[Any]) -> Generator[None, None, None]:
    """Free what this list alone holds."""
    while things:
        del things[-_MERGED:]
        yield


def take_apart(whole: object) -> Generator[None, None, None]:
    """Free what an object holds, table by table; nobody may look at it any more, nor at its tables."""
    for table in list(vars(whole).values()):
        if isinstance(table, dict):
            values = list(table.values())
            table.clear()
            yield from let_go(values)
        elif isinstance(table, list):
            yield from let_go(table)
    vars(whole).clear()


def at_once(steps: Generator[None, None, T]) -> T:
    """Go through all steps without a pause; what they come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
