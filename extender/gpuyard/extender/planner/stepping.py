"""Runs what the engine works out step by step beside the verbs: a millisecond at a time, then they have their turn."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE = 0.001
"""Seconds after which the verbs have their turn."""

TURNS = 6
"""Turns of the loop that a call takes from its first byte to its answer: with fewer it meets several slices."""


async def drain(steps: Iterable[T], clock: Callable[[], float]) -> list[T]:
    """Go through all steps to the end; what they gave."""
    found: list[T] = []
    begun = clock()
    for step in steps:
        found.append(step)
        if clock() - begun >= SLICE:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            begun = clock()
    return found
