"""Runs a cycle of the engine beside the verbs: a millisecond at a time, then whoever waits has its turn."""

import asyncio
from collections.abc import Callable

from gpuyard.engine.plan import Cycle

SLICE = 0.001
"""Seconds after which the verbs have their turn."""


async def step(cycle: Cycle, clock: Callable[[], float]) -> None:
    """Run a cycle to its end."""
    begun = clock()
    for _ in cycle.steps():
        if clock() - begun >= SLICE:
            await asyncio.sleep(0)
            begun = clock()
