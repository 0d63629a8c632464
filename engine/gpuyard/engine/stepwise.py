"""Sorting a little at a time, so that who steps through a cycle never waits long."""

from collections.abc import Generator, Iterable
from heapq import merge
from itertools import islice
from typing import Any

_RUN = 32
"""How much is looked at between two pauses: a small part of a millisecond's work."""


def in_order(items: Iterable[Any]) -> Generator[None, None, list[Any]]:
    """Sort by runs and merge them, with pauses; the items may be made as they are asked for."""
    runs, rest = [], iter(items)
    while run := sorted(islice(rest, _RUN)):
        runs.append(run)
        yield
    merged: list[Any] = []
    rest = merge(*runs)
    while run := list(islice(rest, _RUN)):
        merged += run
        yield
    return merged
