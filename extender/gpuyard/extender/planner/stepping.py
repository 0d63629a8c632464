"""Runs what the engine works out step by step beside the verbs: a millisecond at a time, then they have their turn."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE = 0.001
"""Seconds after which the verbs have their turn."""


async def drain(steps: Iterable[T], clock: Callable[[], float]) -> list[T]:
    """Go through all steps to the end; what they gave."""
    found: list[T] = []
    begun = clock()
    for step in steps:
        found.append(step)
        if clock() - begun >= SLICE:
            await asyncio.sleep(0)
            begun = clock()
    return found
