"""Never two leaders: the table, any mix of slow clocks, lost answers and pauses, and the loop around it."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from gpuyard.common.kube.errors import ApiError, KubeError, UnreachableError
from gpuyard.common.kube.resources import Address
from gpuyard.common.lease import Action, Elector, StuckError, Timing, View, WorkError, own_identity, pause, step
from hypothesis import example, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

# --- the table ---------------------------------------------------------------------------------------------------

ME, OTHER = "me_1", "other_1"
LEADER = View(ME, holder=ME, version="7", since=100, held=100)
FOLLOWER = View(ME, holder=OTHER, version="7", since=100)


@pytest.mark.parametrize(
    ("seen", "now", "action"),
    [
        (LEADER, 101.9, Action.WAIT),
        (LEADER, 102, Action.RENEW),
        (LEADER, 109.9, Action.RENEW),
        (LEADER, 110, Action.STOP),
        (replace(LEADER, holder=OTHER), 101, Action.STOP),
        (replace(LEADER, holder=""), 101, Action.STOP),
        (replace(LEADER, holder=None), 101, Action.STOP),
        (View(ME), 0, Action.CREATE),
        (replace(FOLLOWER, holder=""), 100, Action.TAKE),
        (replace(FOLLOWER, holder=ME), 100, Action.TAKE),
        (FOLLOWER, 114.9, Action.WAIT),
        (FOLLOWER, 115, Action.TAKE),
        (replace(FOLLOWER, valid=60), 159, Action.WAIT),
    ],
)
def test_the_table_says_what_to_do(seen: View, now: float, action: Action) -> None:
    assert step(now, seen) is action


def test_a_leader_is_one_for_ten_seconds_from_when_it_sent_its_write() -> None:
    view = View(ME).wrote(sent=50, version="1")
    assert (view.leading(59.9), view.leading(60)) == (True, False)


def test_a_process_that_is_started_anew_in_its_pod_is_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "gpuyard-gfd-0")
    one, other = own_identity(), own_identity()
    assert one.startswith("gpuyard-gfd-0-")
    assert one != other


def test_the_same_version_seen_again_does_not_make_it_younger() -> None:
    view = View(ME).saw(100, OTHER, "7").saw(110, OTHER, "7")
    assert view.since == 100


def test_a_new_version_starts_the_wait_again() -> None:
    view = View(ME).saw(100, OTHER, "7").saw(110, OTHER, "8")
    assert view.since == 110


def test_a_lease_that_names_its_validity_is_believed() -> None:
    assert View(ME).saw(100, OTHER, "7", valid=3).valid == 3


@pytest.mark.parametrize(("now", "seconds"), [(100, 2.2), (112.5, 2.2), (114, 1), (115, 2.2), (130, 2.2)])
def test_a_follower_looks_now_and_then_and_at_the_moment_when_the_lease_runs_out(now: float, seconds: float) -> None:
    assert pause(now, FOLLOWER, chance=0.5) == pytest.approx(seconds)


# --- any mix of clocks, delays and pauses ------------------------------------------------------------------------


@dataclass
class World:
    """Electors with clocks of their own around one Lease, in exact simulated time.

    Requests and answers take any time or get lost; an elector may be paused at any moment. A belief is the real time
    from when an elector learned that its write was accepted until its own clock says that it must have stopped.
    """

    random: Random
    timing: Timing
    holder: str | None = None
    version: int = 0
    queue: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)
    numbers: Any = field(default_factory=itertools.count)
    beliefs: list[tuple[str, float, float]] = field(default_factory=list)

    def at(self, time: float, do: Callable[[float], None]) -> None:
        heapq.heappush(self.queue, (time, next(self.numbers), do))

    def run(self, until: float) -> None:
        while self.queue and self.queue[0][0] < until:
            time, _, do = heapq.heappop(self.queue)
            do(time)

    def delay(self) -> float:
        return self.random.choice([0.01, 0.01, 0.01, self.random.uniform(0, 30)])

    def write(self, holder: str, version: str) -> bool:
        if str(self.version or "") != version:
            return False
        self.holder, self.version = holder, self.version + 1
        return True

    def overlaps(self) -> list[tuple[Any, Any]]:
        pairs = itertools.combinations(self.beliefs, 2)
        return [(a, b) for a, b in pairs if a[0] != b[0] and a[1] < b[2] and b[1] < a[2]]


class Candidate:
    """One elector: reads, asks `step`, writes; waits for an answer no longer than its limit."""

    def __init__(self, world: World, name: str, rate: float, offset: float) -> None:
        self.world = world
        self.view = View(name, world.timing)
        self.rate = rate
        self.offset = offset
        world.at(world.random.uniform(0, 5), self.wake)

    def clock(self, time: float) -> float:
        return self.offset + self.rate * time

    def again(self, time: float) -> None:
        pause = self.world.random.choice([0, 0, 0, 0, self.world.random.uniform(0, 40)])
        self.world.at(time + self.view.timing.retry / self.rate + pause, self.wake)

    def wake(self, time: float) -> None:
        if self.view.held is not None:
            self.decide(time)
            return
        holder, version = self.world.holder, str(self.world.version or "")

        def answered(then: float) -> None:
            self.view = self.view.saw(self.clock(then), holder, version)
            self.decide(then)

        self.world.at(time + self.world.random.uniform(0, 3), answered)

    def decide(self, time: float) -> None:
        action = step(self.clock(time), self.view)
        if action is Action.STOP:
            self.view = self.view.stopped()
        if action in (Action.STOP, Action.WAIT):
            self.again(time)
        else:
            self.write(time)

    def write(self, time: float) -> None:
        sent, version = self.clock(time), self.view.version
        there, back = self.world.delay(), self.world.delay()
        limit = 5 / self.rate

        def arrive(then: float) -> None:
            accepted = self.world.write(self.view.me, version)
            written = str(self.world.version)
            if there + back < limit:
                self.world.at(then + back, lambda later: self.told(later, accepted, sent, written))

        self.world.at(time + there, arrive)
        if there + back >= limit:
            self.world.at(time + limit, self.again)

    def told(self, time: float, accepted: bool, sent: float, version: str) -> None:
        if accepted:
            self.view = self.view.wrote(sent, version)
            until = (sent + self.view.timing.deadline - self.offset) / self.rate
            self.world.beliefs.append((self.view.me, time, until))
        elif self.view.held is not None:
            self.view = self.view.saw(self.clock(time), self.world.holder, str(self.world.version))
        self.again(time)


def simulate(seed: int, rates: list[float], timing: Timing) -> World:
    random = Random(seed)
    world = World(random, timing)
    for number, rate in enumerate(rates):
        Candidate(world, f"e{number}", rate, random.uniform(0, 1e6))
    world.run(600)
    return world


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 32), rates=st.lists(st.floats(0.9, 1.1), min_size=2, max_size=4))
@example(seed=1, rates=[0.9, 1.1])
def test_no_two_ever_lead_at_once_while_clocks_drift_within_a_tenth(seed: int, rates: list[float]) -> None:
    assert simulate(seed, rates, Timing()).overlaps() == []


def test_the_simulation_does_lead_and_change_leaders() -> None:
    worlds = [simulate(seed, [1, 1, 1], Timing()) for seed in range(20)]
    assert all(world.beliefs for world in worlds)
    assert any(len({name for name, _, _ in world.beliefs}) > 1 for world in worlds)


def test_the_simulation_would_notice_a_leader_that_stops_too_late() -> None:
    careless = Timing(duration=10, deadline=15)
    assert any(simulate(seed, [1, 1], careless).overlaps() for seed in range(50))


# --- the loop, with time that costs nothing ----------------------------------------------------------------------

pytestmark = pytest.mark.looptime


class Api:
    """A Lease in memory, with the API server's rules for versions; can be away or hang, or a proxy answers for it."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.away = False
        self.hangs = False
        self.in_between = b""
        self.calls: list[str] = []

    def spec(self) -> dict[str, Any]:
        assert self.lease
        return cast("dict[str, Any]", self.lease["spec"])

    async def call(self, method: str, address: Address, *, body: Any = None, total: float) -> bytes:  # noqa: ANN401
        self.calls.append(method)
        if self.hangs:
            await asyncio.sleep(total)
        if self.away or self.hangs:
            raise UnreachableError("away")
        if self.in_between:
            return self.in_between
        if method != "GET":
            self._write(method, msgspec.to_builtins(body))
        if self.lease is None:
            raise ApiError(address.about, 404, "NotFound", "no such lease")
        return msgspec.json.encode(self.lease)

    def _write(self, method: str, body: dict[str, Any]) -> None:
        if method == "POST" and self.lease:
            raise ApiError("lease", 409, "AlreadyExists", "there is one")
        if method == "PUT" and body["metadata"]["resourceVersion"] != str(self.version):
            raise ApiError("lease", 409, "Conflict", "changed")
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body


class Worker:
    """An elector with work that notes when it begins and ends."""

    def __init__(self, api: Api, name: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.notes: list[tuple[str, float]] = []
        self.elector = Elector(
            cast("Client", api),
            "gpuyard-test",
            "ns",
            name,
            clock=self.loop.time,
            wall=lambda: datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
            chance=lambda: 0,
        )
        self.task = asyncio.create_task(self.elector.run(self.work))

    async def work(self) -> None:
        self.notes.append(("begin", self.loop.time()))
        try:
            await asyncio.Event().wait()
        finally:
            self.notes.append(("end", self.loop.time()))

    async def end(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


class Stubborn:
    """Work that does not end when it is cancelled."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def work(self) -> None:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue


@pytest.fixture
async def stubborn() -> AsyncIterator[Stubborn]:
    made = Stubborn()
    yield made
    made.released.set()
    await asyncio.sleep(0)


async def test_the_first_one_creates_the_lease_and_leads() -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    assert worker.elector.leading
    assert api.spec() == {
        "holderIdentity": "a_1",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-02T03:04:05.000678Z",
        "renewTime": "2026-01-02T03:04:05.000678Z",
        "leaseTransitions": 0,
    }
    await worker.end()


async def test_the_second_one_stands_by_while_the_first_renews() -> None:
    api = Api()
    first, second = Worker(api, "a_1"), Worker(api, "b_1")
    await asyncio.sleep(120)
    assert (first.elector.leading, second.elector.leading, second.elector.holder) == (True, False, "a_1")
    assert 50 <= api.calls.count("PUT") <= 60
    await first.end()
    await second.end()


async def test_a_released_lease_is_taken_at_the_next_look_and_the_change_is_counted() -> None:
    api = Api()
    first = Worker(api, "a_1")
    await asyncio.sleep(1)
    second = Worker(api, "b_1")
    await asyncio.sleep(10)
    await first.end()
    assert (api.spec()["holderIdentity"], api.spec()["leaseTransitions"]) == ("", 0)
    await asyncio.sleep(2.1)
    assert (second.elector.leading, second.elector.transitions) == (True, 1)
    await second.end()


async def test_the_work_has_ended_before_the_lease_is_released() -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    holders = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            holders.append(api.spec()["holderIdentity"])

    await worker.end()
    other = Worker(api, "b_1")
    other.task.cancel()
    other.task = asyncio.create_task(other.elector.run(slow))
    await asyncio.sleep(3)
    await other.end()
    assert (holders, api.spec()["holderIdentity"]) == (["b_1"], "")


@pytest.mark.parametrize("how", ["away", "hangs"])
async def test_work_stops_before_the_lease_can_expire_when_the_api_does_not_answer(how: str) -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(20)
    setattr(api, how, True)
    cut = worker.loop.time()
    await asyncio.sleep(15)
    assert [note for note, _ in worker.notes] == ["begin", "end"]
    assert worker.notes[1][1] - cut <= 10
    assert not worker.elector.leading
    await worker.end()


@pytest.mark.parametrize("answer", [b"<html>Please log in</html>", b"{}", b'{"error": "quota"}', b"[]"])
async def test_what_a_proxy_answers_in_the_place_of_the_api_server_ends_nothing(answer: bytes) -> None:
    api = Api()
    api.in_between = answer
    worker = Worker(api, "a_1")
    await asyncio.sleep(5)
    assert not worker.task.done()
    api.in_between = b""
    await asyncio.sleep(5)
    assert worker.elector.leading
    api.in_between = answer
    await asyncio.sleep(15)
    assert [note for note, _ in worker.notes] == ["begin", "end"]
    await worker.end()


async def test_it_leads_again_when_the_api_is_back_and_nobody_took_over() -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    api.away = True
    await asyncio.sleep(30)
    api.away = False
    await asyncio.sleep(5)
    assert [note for note, _ in worker.notes] == ["begin", "end", "begin"]
    assert worker.elector.transitions == 0
    await worker.end()


async def test_the_second_one_takes_over_after_the_first_one_fell_silent_and_never_beside_it() -> None:
    api = Api()
    first = Worker(api, "a_1")
    await asyncio.sleep(1)
    second = Worker(api, "b_1")
    await asyncio.sleep(10)
    first.task.cancel()
    first.elector._release = forget  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await first.task
    died = first.loop.time()
    await asyncio.sleep(20)
    assert 10 < second.notes[0][1] - died <= 17
    await second.end()


async def forget() -> None:
    """What a killed process does about its lease."""


async def test_a_leader_whose_lease_was_taken_stops_at_its_next_renewal() -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    api.version += 1
    assert api.lease
    api.lease["metadata"]["resourceVersion"] = str(api.version)
    api.lease["spec"]["holderIdentity"] = "b_1"
    await asyncio.sleep(3)
    assert not worker.elector.leading
    assert (worker.notes[-1][0], worker.elector.holder) == ("end", "b_1")
    await worker.end()
    assert api.spec()["holderIdentity"] == "b_1"


async def test_a_write_by_somebody_who_does_not_want_the_lease_does_not_end_the_leadership() -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    api.version += 1
    assert api.lease
    api.lease["metadata"]["resourceVersion"] = str(api.version)
    await asyncio.sleep(30)
    assert worker.elector.leading
    assert len(worker.notes) == 1
    await worker.end()


async def test_a_process_that_was_paused_is_no_leader_when_it_wakes() -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    paused = 0.0
    worker.elector._clock = lambda: worker.loop.time() + paused
    assert worker.elector.leading
    paused = 30
    assert not worker.elector.leading
    await asyncio.sleep(3)
    assert worker.notes[1][0] == "end"
    await worker.end()


async def test_work_that_fails_releases_the_lease_and_tells() -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    await worker.end()

    async def failing() -> None:
        raise ValueError("bug")

    with pytest.raises(ValueError, match="bug"):
        await worker.elector.run(failing)
    assert api.spec()["holderIdentity"] == ""


async def test_work_that_ends_by_itself_is_an_error() -> None:
    worker = Worker(Api(), "a_1")
    await asyncio.sleep(1)
    await worker.end()
    with pytest.raises(WorkError, match="ended by itself"):
        await worker.elector.run(lambda: asyncio.sleep(0))


async def test_work_that_does_not_end_ends_the_process_before_another_may_lead(stubborn: Stubborn) -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    await worker.end()
    running = asyncio.create_task(worker.elector.run(stubborn.work))
    await asyncio.sleep(5)
    api.away = True
    cut = worker.loop.time()
    with pytest.raises(StuckError, match="this process must"):
        await running
    assert worker.loop.time() - cut < 15
    assert (worker.elector.leading, api.spec()["holderIdentity"]) == (False, "a_1")


async def test_a_stuck_worker_that_is_told_to_stop_does_not_give_the_lease_back(stubborn: Stubborn) -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    await worker.end()
    running = asyncio.create_task(worker.elector.run(stubborn.work))
    await asyncio.sleep(5)
    running.cancel()
    with pytest.raises(StuckError):
        await running
    renewed = len(api.calls)
    await asyncio.sleep(20)
    assert (api.spec()["holderIdentity"], len(api.calls)) == ("a_1", renewed)


async def test_what_others_wrote_into_the_lease_stays() -> None:
    api = Api()
    first = Worker(api, "a_1")
    await asyncio.sleep(1)
    assert api.lease
    api.lease["metadata"]["labels"] = {"app": "gpuyard"}
    api.lease["spec"]["strategy"] = "theirs"
    await first.end()
    second = Worker(api, "b_1")
    await asyncio.sleep(10)
    assert (api.lease["metadata"]["labels"], api.spec()["strategy"]) == ({"app": "gpuyard"}, "theirs")
    await second.end()


async def test_a_lease_deleted_by_somebody_is_lost_and_made_anew() -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    api.lease = None
    api.version += 1
    await asyncio.sleep(6)
    assert [note for note, _ in worker.notes] == ["begin", "end", "begin"]
    await worker.end()


async def test_an_api_that_refuses_is_asked_again_later() -> None:
    api = Api()
    api.away = True
    worker = Worker(api, "a_1")
    await asyncio.sleep(7)
    assert len(api.calls) == 4
    api.away = False
    await asyncio.sleep(2)
    assert worker.elector.leading
    await worker.end()


async def test_a_lease_that_cannot_be_released_is_left_to_expire() -> None:
    api = Api()
    worker = Worker(api, "a_1")
    await asyncio.sleep(1)
    api.away = True
    await worker.end()
    assert api.spec()["holderIdentity"] == "a_1"


def test_every_error_of_the_api_is_one_that_the_loop_survives() -> None:
    assert issubclass(UnreachableError, KubeError)
    assert issubclass(ApiError, KubeError)
