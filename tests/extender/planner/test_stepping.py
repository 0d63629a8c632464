"""While the engine decides, others have their turn."""

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, cast

from gpuyard.extender.planner.stepping import SLICE, step

if TYPE_CHECKING:
    from gpuyard.engine.plan import Cycle


class Long:
    """A cycle of ten steps, each of which takes some time."""

    def __init__(self, each: float) -> None:
        self.now = 0.0
        self.each = each
        self.done = 0

    def steps(self) -> Generator[None, None, None]:
        for _ in range(10):
            self.now += self.each
            self.done += 1
            yield


async def turns_beside(cycle: Long) -> int:
    """How often somebody else has a turn before a cycle is done."""
    turns = 0

    async def somebody() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(somebody())
    await asyncio.sleep(0)
    await step(cast("Cycle", cycle), lambda: cycle.now)
    assert cycle.done == 10
    beside.cancel()
    return turns


async def test_after_each_slice_somebody_else_has_a_turn() -> None:
    assert await turns_beside(Long(SLICE)) == 10


async def test_short_steps_share_a_slice() -> None:
    assert await turns_beside(Long(SLICE / 4)) == 2
