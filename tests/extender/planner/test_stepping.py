"""While the engine decides, others have their turn."""

import asyncio
from collections.abc import Generator

from gpuyard.extender.planner.stepping import SLICE, TURNS, drain


class Long:
    """Work of ten steps, each of which takes some time."""

    def __init__(self, each: float) -> None:
        self.now = 0.0
        self.each = each

    def steps(self) -> Generator[None, None, None]:
        for _ in range(10):
            self.now += self.each
            yield


async def turns_beside(work: Long) -> int:
    """How often somebody else has a turn before it is done."""
    turns = 0

    async def somebody() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(somebody())
    await asyncio.sleep(0)
    assert len(await drain(work.steps(), lambda: work.now)) == 10
    beside.cancel()
    return turns


async def test_after_each_slice_a_whole_call_can_be_answered() -> None:
    assert await turns_beside(Long(SLICE)) == 10 * TURNS


async def test_short_steps_share_a_slice() -> None:
    assert await turns_beside(Long(SLICE / 4)) == 2 * TURNS
