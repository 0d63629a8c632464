"""Why a pod waits is told once while nothing changes, again before the Event is gone, and never for long at a time."""

from typing import TYPE_CHECKING, cast

from gpuyard.engine.model import Pod
from gpuyard.engine.model.results import Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle
from gpuyard.extender.planner.tell.wait_reasons import A_MINUTE, AGAIN, BUDGET, MANY, WaitingRoom

from tests.extender.builders import Bench, Json, node, pod, queue

if TYPE_CHECKING:
    from gpuyard.extender.planner.tell.pod_events import Teller

BY_DEFAULT = Settings()
STRICT = Settings(pods_without_queue="refuse")


class Ear:
    """Hears why pods wait."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def waits(self, about: Pod, why: Waiting) -> None:
        self.heard.append((about.uid, why.reason.value))


class Room:
    """A waiting room with an ear, and a clock that stands still unless told."""

    def __init__(self, tick: float = 0) -> None:
        self.ear = Ear()
        self.now = 1.0
        self.tick = tick
        self.room = WaitingRoom(cast("Teller", self.ear), self._clock)

    def _clock(self) -> float:
        self.now += self.tick
        return self.now

    async def tell(self, *things: Json) -> bool:
        cycle = Cycle(Bench(node("n1"), *things).ledger.snapshot, Settings())
        cycle.run()
        return await self.room.tell(cycle)

    def turn_away(self, *things: Json, settings: Settings = BY_DEFAULT) -> None:
        for _ in self.room.turn_away(Bench(node("n1"), *things).ledger.snapshot, settings):
            pass


FULL = [queue("team", limit=0), pod("a", "team")]


async def test_a_cause_is_told_once() -> None:
    room = Room()
    for _ in range(3):
        assert await room.tell(*FULL)
    assert room.ear.heard == [("uid-a", "OverLimit")]


async def test_a_cause_is_told_again_before_the_api_server_drops_its_event() -> None:
    room = Room()
    await room.tell(*FULL)
    assert not room.room.is_due()
    room.now += AGAIN
    assert (room.room.is_due(), room.room.is_due()) == (True, False)
    await room.tell(*FULL)
    assert room.ear.heard == [("uid-a", "OverLimit")] * 2
    assert not room.room.is_due()


def limited(limit: int, *names: str) -> list[Json]:
    return [queue("team", limit=limit), *(pod(name, "team", 9) for name in names)]


async def test_other_numbers_are_told_once_in_a_minute() -> None:
    room = Room()
    for limit in (0, 1, 2):
        await room.tell(*limited(limit, "a"))
    assert room.ear.heard == [("uid-a", "OverLimit")]
    room.now += A_MINUTE
    assert room.room.is_due()
    for limit in (2, 3):
        await room.tell(*limited(limit, "a"))
    assert room.ear.heard == [("uid-a", "OverLimit")] * 2


async def test_numbers_that_are_as_they_were_told_are_not_told() -> None:
    room = Room()
    for limit in (0, 1, 0):
        await room.tell(*limited(limit, "a"))
        room.now += A_MINUTE / 2
    await room.tell(*limited(0, "a"))
    assert len(room.ear.heard) == 1


async def test_when_the_numbers_of_very_many_change_not_all_of_them_hear_it_at_once() -> None:
    room, names = Room(), [f"p{number}" for number in range(MANY + 5)]
    await room.tell(*limited(0, *names))
    for limit in range(1, 4):
        room.now += A_MINUTE
        before = len(room.ear.heard)
        for _ in range(2):
            await room.tell(*limited(limit, *names))
        assert len(room.ear.heard) - before == MANY


async def test_another_cause_is_told_as_well() -> None:
    room = Room()
    await room.tell(*FULL)
    await room.tell(queue("team"), pod("a", "team", 9))
    assert [reason for _, reason in room.ear.heard] == ["OverLimit", "PodSchedulingErrors"]


async def test_who_gets_a_place_hears_nothing() -> None:
    room = Room()
    await room.tell(queue("team"), pod("a", "team"))
    assert room.ear.heard == []


async def test_who_waits_again_hears_again() -> None:
    room = Room()
    for things in (FULL, [queue("team")], FULL):
        await room.tell(*things)
    assert len(room.ear.heard) == 2


async def test_what_there_was_no_time_for_is_told_the_next_time() -> None:
    room = Room(tick=BUDGET)
    things = [queue("team", limit=0), *(pod(name, "team") for name in "abc")]
    assert not await room.tell(*things)
    assert len(room.ear.heard) == 1
    for _ in range(2):
        await room.tell(*things)
    assert {uid for uid, _ in room.ear.heard} == {"uid-a", "uid-b", "uid-c"}


ELSEWHERE = pod("a", "team", schedulerName="other")


def test_who_names_a_queue_and_another_scheduler_is_told_once_which_to_use() -> None:
    room = Room()
    for _ in range(3):
        room.turn_away(queue("team"), ELSEWHERE)
    assert room.ear.heard == [("uid-a", "OtherScheduler")]
    room.now += AGAIN
    assert room.room.is_due()
    room.turn_away(queue("team"), ELSEWHERE)
    assert room.ear.heard == [("uid-a", "OtherScheduler")] * 2


def test_who_names_no_queue_is_told_only_where_one_has_to_be_named() -> None:
    room = Room()
    room.turn_away(queue("team"), pod("a"))
    assert room.ear.heard == []
    room.turn_away(queue("team"), pod("a"), settings=STRICT)
    assert room.ear.heard == [("uid-a", "QueueMissing")]


def test_strangers_to_whom_nothing_is_said_are_those_of_others_and_those_who_run() -> None:
    room = Room()
    theirs = pod("theirs", schedulerName="other")
    runs = pod("runs", "team", on="n1", schedulerName="other")
    room.turn_away(queue("team"), theirs, runs, pod("ours", "team"), settings=STRICT)
    assert room.ear.heard == []
