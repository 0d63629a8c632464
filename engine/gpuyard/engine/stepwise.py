"""Sorting a little at a time, so that who steps through a cycle never waits long."""

from collections.abc import Generator, Iterable
from heapq import merge
from itertools import islice
from typing import Any

_RUN = 16
"""How much is looked at between two pauses: a small part of a millisecond's work."""

_BLOCK = 512
"""How much is sorted at once: many more, and beginning to merge the blocks would take long."""


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
    merged: list[Any] = []
    rest = merge(*blocks)
    while run := list(islice(rest, _RUN)):
        merged += run
        yield
    return merged
