"""Runs what the engine works out step by step beside the verbs: a moment at a time, then they have their turn.

A call that has begun to arrive is answered before the work goes on, so it waits for one slice at most: not for one more
at each piece of its body.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE = 0.0002
"""Seconds after which the verbs have their turn."""

TURNS = 2
"""Turns of the loop in which a call that has arrived is noticed."""

PATIENCE = 200
"""Turns after which the work goes on although a call is not answered: its body may never come to an end."""


async def drain(steps: Iterable[T], clock: Callable[[], float], calls: Callable[[], int]) -> list[T]:
    """Go through all steps to the end; what they gave. `calls` says how many calls have begun and are not answered."""
    found: list[T] = []
    begun = clock()
    for step in steps:
        found.append(step)
        if clock() - begun >= SLICE:
            await _give_way(calls)
            begun = clock()
    return found


async def _give_way(calls: Callable[[], int]) -> None:
    for turn in range(PATIENCE):
        if turn >= TURNS and not calls():
            return
        await asyncio.sleep(0)
