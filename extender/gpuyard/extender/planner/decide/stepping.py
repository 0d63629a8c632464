"""Runs what the engine works out step by step beside the verbs: a moment at a time, then they have their turn.

A call that has begun to arrive is answered before the work goes on, so it waits for one slice at most: not for one more
at each piece of its body. A call that is not answered for long is given up on: its body may never come to an end, and
the work would wait for it at each slice.

Nor does Python's garbage collector come in between: in the midst of a long cycle it would look through all that is
there, which takes tens of milliseconds, and find nothing. What the cycle leaves behind is freed by hand, step by step.
Only when it takes long to carry out what was decided, because the API server is slow, it does come.

Decided in docs/decisions.md: "The planner runs beside the verbs, stepped".
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

from gpuyard.engine.search.cycle import Cycle

T = TypeVar("T")

SLICE = 0.00005
"""Seconds after which the verbs have their turn."""

TURNS = 2
"""Turns of the loop in which a call that has arrived is noticed: in one the loop sees it, but our turn comes before."""

PATIENCE = 200
"""Turns after which the work goes on although a call is not answered, and waits for it no more."""

LONG = 1.0
"""Seconds after which garbage is collected although what was decided is not yet carried out."""


async def drain(steps: Iterable[T], clock: Callable[[], float], calls: Callable[[], int]) -> list[T]:
    """Go through all steps to the end; what they gave. `calls` says how many calls have begun and are not answered."""
    found: list[T] = []
    begun, given_up = clock(), 0
    for step in steps:
        found.append(step)
        if clock() - begun >= SLICE:
            given_up = await give_way(calls, given_up)
            begun = clock()
    return found


@asynccontextmanager
async def computed(cycle: Cycle, clock: Callable[[], float], calls: Callable[[], int]) -> AsyncIterator[None]:
    """The cycle, run beside the verbs; at the end, whatever it is, it is taken apart."""
    gc.disable()
    try:
        await drain(cycle.steps(), clock, calls)
        late = asyncio.get_running_loop().call_later(LONG, gc.enable)
        try:
            yield
        finally:
            late.cancel()
            gc.disable()
            await drain(cycle.dissolve(), clock, calls)
    finally:
        gc.enable()


async def give_way(calls: Callable[[], int], given_up: int = 0) -> int:
    """Wait for the calls, but for those that are given up on; how many those are now."""
    for turn in range(PATIENCE):
        if turn >= TURNS:
            left = calls()
            given_up = min(given_up, left)
            if left == given_up:
                return given_up
        await asyncio.sleep(0)
    return calls()
