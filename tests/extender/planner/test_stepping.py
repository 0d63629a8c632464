"""While the engine decides, others have their turn."""

import asyncio
import gc
from collections.abc import Callable, Generator

import pytest
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle
from gpuyard.extender.planner.decide import stepping
from gpuyard.extender.planner.decide.stepping import PATIENCE, SLICE, TURNS, computed, drain

from tests.engine.builders import yard

WHOLE = SLICE * 1.01
"""A slice, and a bit for what adding up such small numbers loses."""


class Long:
    """Work of ten steps, each of which takes some time."""

    def __init__(self, each: float) -> None:
        self.now = 0.0
        self.each = each

    def steps(self) -> Generator[None, None, None]:
        for _ in range(10):
            self.now += self.each
            yield


async def turns_beside(work: Long, calls: Callable[[], int] = lambda: 0) -> int:
    """How often somebody else has a turn before it is done."""
    turns = 0

    async def somebody() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(somebody())
    await asyncio.sleep(0)
    assert len(await drain(work.steps(), lambda: work.now, calls)) == 10
    beside.cancel()
    return turns


async def test_after_each_slice_a_call_that_has_arrived_is_noticed() -> None:
    assert await turns_beside(Long(WHOLE)) == 10 * TURNS


async def test_short_steps_share_a_slice() -> None:
    assert await turns_beside(Long(WHOLE / 4)) == 2 * TURNS


async def test_a_call_that_has_begun_is_answered_before_the_work_goes_on() -> None:
    left = iter([1] * 30)
    assert await turns_beside(Long(WHOLE), lambda: next(left, 0)) == 10 * TURNS + 30


async def test_a_call_that_never_comes_to_its_end_holds_the_work_up_only_once() -> None:
    assert await turns_beside(Long(WHOLE), lambda: 1) == PATIENCE + 9 * TURNS


async def test_beside_a_call_that_never_comes_to_its_end_others_are_answered_before_the_work_goes_on() -> None:
    left = iter([1] * (PATIENCE - TURNS + 1) + [2] * 30)
    assert await turns_beside(Long(WHOLE), lambda: next(left, 1)) == PATIENCE + 9 * TURNS + 30


async def test_once_a_call_that_was_given_up_on_has_ended_the_next_one_is_waited_for() -> None:
    left = iter([1] * (PATIENCE - TURNS + 1) + [0] + [1] * 30)
    assert await turns_beside(Long(WHOLE), lambda: next(left, 0)) == PATIENCE + 9 * TURNS + 30


def cycle() -> Cycle:
    """For a pod that has to take from another."""
    some = yard().nodes(1).queue("a", quota=8).queue("b").running("b", 8)
    return Cycle(some.pending("a").snapshot(), Settings())


async def test_from_a_cycle_s_first_step_until_it_is_taken_apart_no_garbage_is_collected() -> None:
    some = cycle()
    async with computed(some, lambda: 0.0, lambda: 0):
        assert [action.pod for action in some.record.result().actions] == ["ns/b-8", "ns/a-1"]
        assert not gc.isenabled()
    assert vars(some) == {}
    assert gc.isenabled()


async def test_garbage_is_collected_only_where_it_takes_long_to_carry_a_cycle_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stepping, "LONG", 0)
    collected: list[bool] = []

    def clock() -> float:
        collected.append(gc.isenabled())
        return 0.0

    async with asyncio.timeout(30), computed(cycle(), clock, lambda: 0):
        while not gc.isenabled():
            await asyncio.sleep(0)
    assert set(collected) == {False}


async def test_also_when_what_follows_fails_a_cycle_is_taken_apart_and_garbage_collected_again() -> None:
    some = cycle()
    with pytest.raises(ConnectionError):
        async with computed(some, lambda: 0.0, lambda: 0):
            raise ConnectionError
    assert vars(some) == {}
    assert gc.isenabled()
