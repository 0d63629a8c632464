"""Runs what the engine works out step by step beside the verbs: a moment at a time, then they have their turn.

A call that has begun to arrive is answered before the work goes on, so it waits for one slice at most: not for one more
at each piece of its body. A call that is not answered for long is given up on: its body may never come to an end, and
the work would wait for it at each slice.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE = 0.0001
"""Seconds after which the verbs have their turn."""

TURNS = 4
"""Turns of the loop in which a call that has arrived is noticed."""

PATIENCE = 200
"""Turns after which the work goes on although a call is not answered, and waits for it no more."""


async def drain(steps: Iterable[T], clock: Callable[[], float], calls: Callable[[], int]) -> list[T]:
    """Go through all steps to the end; what they gave. `calls` says how many calls have begun and are not answered."""
    found: list[T] = []
    begun, given_up = clock(), 0
    for step in steps:
        found.append(step)
        if clock() - begun >= SLICE:
            given_up = await _give_way(calls, given_up)
            begun = clock()
    return found


async def _give_way(calls: Callable[[], int], given_up: int) -> int:
    """Wait for the calls, but for those that are given up on; how many those are now."""
    for turn in range(PATIENCE):
        if turn >= TURNS:
            left = calls()
            given_up = min(given_up, left)
            if left == given_up:
                return given_up
        await asyncio.sleep(0)
    return calls()
