"""Why a pod waits is told once per cause, and never for long at a time."""

from typing import TYPE_CHECKING, cast

from gpuyard.engine.model import Pod
from gpuyard.engine.plan import Cycle
from gpuyard.engine.result import Waiting
from gpuyard.engine.settings import Settings
from gpuyard.extender.planner.waiting import BUDGET, WaitingRoom

from tests.extender.builders import Bench, Json, node, pod, queue

if TYPE_CHECKING:
    from gpuyard.extender.planner.telling import Teller

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
        self.room.turn_away(Bench(node("n1"), *things).ledger.snapshot, settings)


FULL = [queue("team", limit=0), pod("a", "team")]


async def test_a_cause_is_told_once() -> None:
    room = Room()
    for _ in range(3):
        assert await room.tell(*FULL)
    assert room.ear.heard == [("uid-a", "OverLimit")]


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
