"""Calls that wait for the watch: how long, for what, and how many at once."""

import asyncio

import pytest
from gpuyard.extender.ledger.arrivals import LONGEST_WAIT, MOST, PATIENCE, PAUSE, Arrivals

pytestmark = pytest.mark.row("X-05", case="unseen")


async def begun(of: Arrivals, uid: str = "u", version: int = 5) -> "asyncio.Future[bool]":
    waiting = asyncio.ensure_future(of.wait(uid, version, 0, LONGEST_WAIT))
    await asyncio.sleep(0)
    return waiting


async def test_a_call_goes_on_as_soon_as_its_version_is_shown() -> None:
    of = Arrivals()
    waiting = await begun(of)
    of.show("u", 5)
    assert await waiting
    assert of.longest_wait(0)


def test_no_call_waits_for_more_than_100_ms() -> None:
    assert LONGEST_WAIT <= 0.1


async def test_a_later_version_will_do_and_an_earlier_one_will_not() -> None:
    of = Arrivals()
    waiting, another = await begun(of), await begun(of, version=7)
    of.show("u", 6)
    assert (await waiting, await another) == (True, False)


async def test_another_pod_is_no_reason_to_go_on() -> None:
    of = Arrivals()
    waiting = await begun(of)
    of.show("v", 9)
    assert not await waiting


async def test_after_a_vain_wait_none_may_wait_for_a_second() -> None:
    of = Arrivals()
    assert not await (await begun(of))
    assert not of.longest_wait(LONGEST_WAIT + PAUSE * LONGEST_WAIT - 0.01)
    assert of.longest_wait(LONGEST_WAIT + PAUSE * LONGEST_WAIT)


async def test_only_so_many_wait_at_once_and_nothing_is_left_of_them() -> None:
    of = Arrivals()
    waiting = [await begun(of, f"u{number}") for number in range(MOST)]
    assert not of.longest_wait(0)
    await asyncio.gather(*waiting)
    assert of.longest_wait(LONGEST_WAIT + PAUSE * LONGEST_WAIT)
    assert not of._waiters


async def test_a_call_that_is_cancelled_leaves_nothing_behind() -> None:
    of = Arrivals()
    waiting = await begun(of)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not of._waiters
    assert of.longest_wait(0)


@pytest.mark.row("B-91")
async def test_a_patient_call_waits_longer_and_after_a_vain_wait_of_others() -> None:
    of = Arrivals()
    assert not await (await begun(of))
    assert (of.longest_wait(0), of.longest_wait(0, patient=True)) == (0, PATIENCE)
    assert PATIENCE > LONGEST_WAIT


@pytest.mark.row("B-91")
async def test_after_a_vain_patient_wait_no_patient_call_waits_for_ten_seconds() -> None:
    of = Arrivals()
    assert not await of.wait("u", 5, 0, PATIENCE)
    assert (of.longest_wait(0), of.longest_wait(0, patient=True)) == (LONGEST_WAIT, 0)
    assert of.longest_wait(PATIENCE + 10, patient=True)


@pytest.mark.row("B-91")
async def test_as_many_patient_calls_wait_at_once_as_others() -> None:
    of = Arrivals()
    waiting = [await begun(of, f"u{number}") for number in range(MOST)]
    assert not of.longest_wait(0, patient=True)
    await asyncio.gather(*waiting)
