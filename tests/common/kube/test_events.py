"""What is told is written once, repetitions become a count, and nobody who tells ever waits."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from gpuyard.common.kube.errors import ApiError, UnreachableError
from gpuyard.common.kube.events import Recorder
from gpuyard.common.kube.objects import Meta, ObjectReference, refer
from gpuyard.common.kube.resources import NODES, PODS, Address

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

pytestmark = pytest.mark.looptime

POD = refer(PODS, Meta(name="p", namespace="ns", uid="u1"))


class Api:
    """Takes writes and notes them; fails as told."""

    def __init__(self) -> None:
        self.created: list[tuple[str, dict[str, Any]]] = []
        self.patched: list[tuple[str, dict[str, Any]]] = []
        self.failures: list[Exception] = []

    async def create(self, address: Address, body: object) -> dict[str, Any]:
        return self._take(self.created, address, body)

    async def patch(self, address: Address, body: object) -> dict[str, Any]:
        return self._take(self.patched, address, body)

    def _take(self, into: list[tuple[str, dict[str, Any]]], address: Address, body: object) -> dict[str, Any]:
        if self.failures:
            raise self.failures.pop(0)
        into.append((address.path, cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(body)))))
        return {}


class Telling:
    """A running recorder."""

    def __init__(self, api: Api, **options: int) -> None:
        loop = asyncio.get_running_loop()
        began = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self.recorder = Recorder(
            cast("Client", api),
            "gpuyard-extender",
            "pod-1",
            {"Evicted", "Planned"},
            clock=loop.time,
            wall=lambda: began + timedelta(seconds=loop.time()),
            chance=lambda: 0.5,
            **options,
        )
        self.task = asyncio.create_task(self.recorder.run())

    def tell(self, note: str = "gone", about: ObjectReference = POD) -> None:
        self.recorder.emit(about, "Evicted", note)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
async def telling(api: Api) -> AsyncIterator[Telling]:
    made = Telling(api)
    yield made
    made.task.cancel()


async def test_an_event_says_who_what_and_about_whom(api: Api, telling: Telling) -> None:
    telling.recorder.emit(POD, "Evicted", "room for team-a", action="Reclaim", kind="Warning")
    await asyncio.sleep(0.1)
    ((path, body),) = api.created
    name = body.pop("metadata")["name"]
    assert path == "/apis/events.k8s.io/v1/namespaces/ns/events"
    assert name.startswith("p.")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "gpuyard.io/gpuyard-extender",
        "reportingInstance": "pod-1",
        "action": "Reclaim",
        "reason": "Evicted",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "ns", "uid": "u1"},
        "note": "room for team-a",
        "type": "Warning",
    }


async def test_events_about_cluster_scoped_objects_live_in_default(api: Api, telling: Telling) -> None:
    telling.tell(about=refer(NODES, Meta(name="n1")))
    await asyncio.sleep(0.1)
    assert api.created[0][0] == "/apis/events.k8s.io/v1/namespaces/default/events"


async def test_the_same_again_becomes_a_count_on_the_first_one(api: Api, telling: Telling) -> None:
    telling.tell()
    await asyncio.sleep(1)
    for _ in range(500):
        telling.tell()
    await asyncio.sleep(15)
    assert (len(api.created), len(api.patched)) == (1, 1)
    path, change = api.patched[0]
    assert path.endswith(api.created[0][1]["metadata"]["name"])
    assert change == {"series": {"count": 501, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}}


async def test_a_series_is_written_at_most_every_ten_seconds(api: Api, telling: Telling) -> None:
    for _ in range(60):
        telling.tell()
        await asyncio.sleep(1)
    assert (len(api.created), len(api.patched)) == (1, 5)


async def test_what_was_told_many_times_before_the_first_write_is_one_event_with_its_count(
    api: Api, telling: Telling
) -> None:
    for _ in range(3):
        telling.tell()
    await asyncio.sleep(0.1)
    assert api.created[0][1]["series"]["count"] == 3


async def test_another_note_or_object_is_another_event(api: Api, telling: Telling) -> None:
    telling.tell("a")
    telling.tell("b")
    telling.tell("a", refer(PODS, Meta(name="q", namespace="ns", uid="u2")))
    await asyncio.sleep(0.1)
    assert len(api.created) == 3


async def test_after_six_quiet_minutes_it_is_a_new_event(api: Api, telling: Telling) -> None:
    telling.tell()
    await asyncio.sleep(400)
    telling.tell()
    await asyncio.sleep(1)
    assert (len(api.created), len(api.patched)) == (2, 0)


async def test_a_series_whose_object_the_server_forgot_is_written_anew(api: Api, telling: Telling) -> None:
    telling.tell()
    await asyncio.sleep(20)
    api.failures = [ApiError("event", 404, "NotFound", "gone")]
    telling.tell()
    await asyncio.sleep(1)
    assert [body.get("series", {}).get("count") for _, body in api.created] == [None, 2]


async def test_a_reason_outside_the_closed_set_is_a_mistake_of_the_program(telling: Telling) -> None:
    with pytest.raises(ValueError, match="Oops is not one of this component's event reasons: Evicted, Planned"):
        telling.recorder.emit(POD, "Oops", "text")


@pytest.mark.parametrize("letter", ["x", "ü", "漢"])
async def test_a_long_note_is_cut_to_a_kibibyte(api: Api, telling: Telling, letter: str) -> None:
    telling.tell(letter * 2000)
    await asyncio.sleep(0.1)
    note = api.created[0][1]["note"]
    assert 1000 < len(note.encode()) <= 1024
    assert note.endswith("...")


async def test_a_long_name_still_gives_a_valid_event_name(api: Api, telling: Telling) -> None:
    telling.tell(about=refer(PODS, Meta(name="a" * 219 + "." + "b" * 33, namespace="ns")))
    await asyncio.sleep(0.1)
    name = api.created[0][1]["metadata"]["name"]
    assert len(name) <= 253
    assert ".." not in name


async def test_telling_never_waits_while_the_server_is_away_and_nothing_is_lost(api: Api, telling: Telling) -> None:
    api.failures = [UnreachableError("away"), ApiError("event", 503, "ServiceUnavailable", "starting")]
    telling.tell("a")
    telling.tell("b")
    await asyncio.sleep(30)
    assert sorted(body["note"] for _, body in api.created) == ["a", "b"]
    assert telling.recorder.dropped == 0


async def test_an_event_that_the_server_refuses_is_dropped_and_the_others_are_written(
    api: Api, telling: Telling
) -> None:
    api.failures = [ApiError("event", 403, "Forbidden", "namespace is terminating")]
    telling.tell("a")
    telling.tell("b")
    await asyncio.sleep(5)
    assert [body["note"] for _, body in api.created] == ["b"]
    assert telling.recorder.dropped == 1


async def test_what_does_not_fit_is_counted_as_dropped(api: Api) -> None:
    telling = Telling(api, capacity=2)
    for note in "abc":
        telling.tell(note)
    assert telling.recorder.dropped == 1
    await asyncio.sleep(400)
    telling.tell("d")
    await asyncio.sleep(1)
    assert [body["note"] for _, body in api.created] == ["a", "b", "d"]
    telling.task.cancel()
