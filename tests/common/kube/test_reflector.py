"""The cache equals the collection, whatever happens to the connection, the log or a single object."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from gpuyard.common.kube.changes import Batch
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.objects import Meta
from gpuyard.common.kube.protobuf import PROTOBUF
from gpuyard.common.kube.reflector import Reflector, Tuning
from gpuyard.common.kube.resources import PODS

from tests.common.kube.wire import Answer, Wire, client_of, refusal, unwrapped


class Pod(msgspec.Struct, frozen=True):
    metadata: Meta
    size: int = 0


DECODER = msgspec.json.Decoder(Pod)


class Watched:
    """A running reflector with what it delivered and reported."""

    def __init__(self, client: Client, **options: Any) -> None:  # noqa: ANN401
        self.reports: list[str] = []
        self.delivered: list[Batch[Pod]] = []
        chance = options.pop("chance", lambda: 1.0)
        better = {PROTOBUF: lambda raw: DECODER.decode(unwrapped(raw))}
        self.reflector = Reflector(
            client, PODS.within(), DECODER, better=better, chance=chance, report=self.reports.append, **options
        )
        self.reflector.subscribe(self.delivered.append)

    @property
    def sizes(self) -> dict[str, int]:
        return {key: pod.size for key, pod in self.reflector.store.items()}

    def told(self) -> list[tuple[str | None, str | None]]:
        """(uid before, uid after) of each change so far."""
        return [
            (c.old.metadata.uid if c.old else None, c.new.metadata.uid if c.new else None)
            for batch in self.delivered
            for c in batch.changes
        ]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.005)

    async def until_sizes(self, **expected: int) -> None:
        await self.until(lambda: self.sizes == {f"ns/{name}": size for name, size in expected.items()})


@asynccontextmanager
async def running(client: Client, **options: Any) -> AsyncIterator[Watched]:  # noqa: ANN401
    watched = Watched(client, **options)
    task = asyncio.create_task(watched.reflector.run())
    try:
        yield watched
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_the_first_batch_is_the_whole_list_and_says_so(wire: Wire, client: Client) -> None:
    await wire.put("a", size=1)
    await wire.put("b", size=2)
    async with running(client) as watched:
        await watched.reflector.wait_synced()
        assert watched.sizes == {"ns/a": 1, "ns/b": 2}
        assert (watched.delivered[0].listed, watched.told()) == (True, [(None, "uid-a"), (None, "uid-b")])


async def test_an_empty_collection_is_listed_too(client: Client) -> None:
    async with running(client) as watched:
        await watched.reflector.wait_synced()
        assert watched.delivered == [Batch([], listed=True)]


async def test_before_the_first_list_the_cache_says_that_it_is_not_ready(wire: Wire, client: Client) -> None:
    wire.answers.append(refusal(403, "Forbidden", "not for you"))
    async with running(client) as watched:
        await watched.until(lambda: bool(watched.reports))
        assert not watched.reflector.synced
        assert "not for you" in watched.reflector.problem


async def test_pages_are_joined(wire: Wire, client: Client) -> None:
    for number in range(7):
        await wire.put(f"p{number}")
    async with running(client, tuning=Tuning(page=3)) as watched:
        await watched.reflector.wait_synced()
        assert len(watched.sizes) == 7
        assert [request.query["limit"] for request in wire.lists()] == ["3"] * 3


async def test_events_change_the_store_and_tell_before_and_after(wire: Wire, client: Client) -> None:
    await wire.put("a", size=1)
    async with running(client) as watched:
        await wire.until_watched()
        await wire.put("b", size=2)
        await wire.put("a", size=3)
        await wire.remove("b")
        await watched.until_sizes(a=3)
        assert watched.told()[1:] == [(None, "uid-b"), ("uid-a", "uid-a"), ("uid-b", None)]


async def test_the_watch_starts_where_the_list_ended_and_asks_for_bookmarks(wire: Wire, client: Client) -> None:
    await wire.put("a")
    async with running(client):
        await wire.until_watched()
        query = wire.watches()[0].query
        assert (query["resourceVersion"], query["allowWatchBookmarks"]) == ("101", "true")


async def test_the_server_is_asked_to_end_watches_at_different_times(wire: Wire, client: Client) -> None:
    for chance, seconds in ((0.0, "300"), (1.0, "240")):
        async with running(client, chance=lambda value=chance: value):
            await wire.until_watched(len(wire.watches()) + 1)
            assert wire.watches()[-1].query["timeoutSeconds"] == seconds
            await wire.end_watches()


async def test_a_watch_that_ends_goes_on_from_the_last_bookmark_without_a_list(wire: Wire, client: Client) -> None:
    async with running(client) as watched:
        await wire.until_watched()
        await wire.bookmark()
        await wire.put("a", size=1)
        await wire.bookmark()
        await watched.until_sizes(a=1)
        await asyncio.sleep(0.05)
        await wire.end_watches()
        await wire.until_watched(2)
        assert wire.watches()[1].query["resourceVersion"] == str(wire.version)
        assert len(wire.lists()) == 1


async def test_a_cut_connection_goes_on_from_the_last_event_without_a_list(wire: Wire, client: Client) -> None:
    async with running(client) as watched:
        await wire.until_watched()
        await wire.put("a", size=1)
        await watched.until_sizes(a=1)
        await wire.end_watches(cut=True)
        await wire.put("a", size=2)
        await watched.until_sizes(a=2)
        assert len(wire.lists()) == 1


async def test_a_compacted_log_leads_to_a_list_and_the_vanished_are_reported_gone(wire: Wire, client: Client) -> None:
    await wire.put("a", size=1)
    await wire.put("b", size=1)
    async with running(client) as watched:
        await wire.until_watched()
        wire.lose("b")
        wire.compact()
        await wire.put("c", size=1)
        wire.compact()
        await wire.end_watches()
        await watched.until_sizes(a=1, c=1)
        assert ("uid-b", None) in watched.told()
        assert watched.delivered[-1].listed
        assert len(wire.lists()) == 2


@pytest.mark.row("B-61")
async def test_a_second_list_is_delivered_a_few_changes_at_a_time_and_ends_with_the_collection(
    wire: Wire, client: Client
) -> None:
    for number in range(5):
        await wire.put(f"p{number}", size=1)
    async with running(client, tuning=Tuning(batch=2)) as watched:
        await wire.until_watched()
        assert [len(batch.changes) for batch in watched.delivered] == [5]
        wire.lose("p4")
        wire.compact()
        for number in range(4):
            await wire.put(f"p{number}", size=2)
        wire.compact()
        await wire.end_watches()
        await watched.until_sizes(**{f"p{number}": 2 for number in range(4)})
        await watched.until(lambda: sum(len(batch.changes) for batch in watched.delivered) == 10)
        assert max(len(batch.changes) for batch in watched.delivered[1:]) <= 2
        assert (len(wire.lists()), watched.delivered[-1].listed) == (2, True)
        assert watched.told()[5] == ("uid-p4", None)


async def test_what_did_not_change_is_not_told_again_after_a_second_list(wire: Wire, client: Client) -> None:
    await wire.put("a", size=1)
    async with running(client) as watched:
        await wire.until_watched()
        wire.version += 1
        wire.compact()
        await wire.end_watches()
        await watched.until(lambda: len(watched.delivered) == 2)
        assert watched.delivered[1] == Batch([], listed=True)


@pytest.mark.parametrize("unseen", [True, False])
async def test_a_pod_made_anew_under_its_name_is_gone_and_then_new(wire: Wire, client: Client, unseen: bool) -> None:
    await wire.put("web-0", uid="first", size=1)
    async with running(client) as watched:
        await wire.until_watched()
        await wire.put("web-0", uid="second", size=2)
        if unseen:
            wire.compact()
            await wire.end_watches()
        await watched.until_sizes(**{"web-0": 2})
        assert watched.told()[1:] == [("first", None), (None, "second")]


async def test_a_list_whose_pages_expire_is_read_in_one_piece(wire: Wire, client: Client) -> None:
    for number in range(4):
        await wire.put(f"p{number}")
    wire.answers.append(refusal(410, "Expired"))
    async with running(client, tuning=Tuning(page=2)) as watched:
        await watched.reflector.wait_synced()
        assert len(watched.sizes) == 4
        assert wire.lists()[-1].query["limit"] == "0"


@pytest.mark.parametrize("status", [403, 404, 500, 504])
async def test_a_refused_watch_leads_to_a_list(wire: Wire, client: Client, status: int) -> None:
    async with running(client) as watched:
        await wire.until_watched()
        wire.answers.append(refusal(status, "Reason"))
        await wire.end_watches()
        await watched.until(lambda: len(wire.lists()) == 2)


async def test_who_may_list_but_not_watch_does_not_list_without_pause(wire: Wire, client: Client) -> None:
    wire.no_watches = refusal(403, "Forbidden", "may not watch")
    async with running(client) as watched:
        await asyncio.sleep(1)
        assert len(wire.lists()) <= 6
        await watched.until(lambda: len(wire.lists()) >= 2)
        assert "may not watch" in watched.reflector.problem
        assert len(watched.reports) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_later_without_a_list(wire: Wire, client: Client, status: int) -> None:
    async with running(client) as watched:
        await wire.until_watched()
        wire.answers.append(refusal(status, "Busy", header=1))
        await wire.end_watches()
        await wire.until_watched(3)
        await wire.put("a", size=1)
        await watched.until_sizes(a=1)
        assert len(wire.lists()) == 1


async def test_events_before_an_error_in_the_same_read_still_count(wire: Wire, client: Client) -> None:
    async with running(client) as watched:
        await wire.until_watched()
        pod = {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "101"}, "size": 1}
        added = msgspec.json.encode({"type": "ADDED", "object": pod})
        broken = msgspec.json.encode({"type": "ERROR", "object": {"code": 500, "message": "etcd is away"}})
        wire.version += 1
        await wire.line(added + b"\n" + broken)
        await watched.until(lambda: (None, "u") in watched.told())
        await watched.until(lambda: any("etcd is away" in report for report in watched.reports))


async def test_a_line_that_is_no_event_leads_to_a_list(wire: Wire, client: Client) -> None:
    async with running(client) as watched:
        await wire.until_watched()
        wire.version += 1
        await wire.line(b"oops")
        await watched.until(lambda: len(wire.lists()) == 2)
        assert any("no event" in report for report in watched.reports)


async def test_an_object_that_cannot_be_read_keeps_its_last_good_state(wire: Wire, client: Client) -> None:
    await wire.put("a", size=1)
    async with running(client) as watched:
        await wire.until_watched()
        await wire.put("a", size="huge")
        await wire.put("b", size=2)
        await watched.until_sizes(a=1, b=2)
        assert any("ns/a cannot be read" in report and "$.size" in report for report in watched.reports)
        assert watched.reflector.counts.undecodable == 1
        assert watched.reflector.unreadable == {"ns/a"}
        await wire.put("a", size=3)
        await watched.until_sizes(a=3, b=2)
        assert watched.reflector.unreadable == set()


async def test_an_object_that_cannot_be_read_does_not_spoil_the_list(wire: Wire, client: Client) -> None:
    await wire.put("a", size="huge")
    await wire.put("b", size=2)
    async with running(client) as watched:
        await watched.reflector.wait_synced()
        assert watched.sizes == {"ns/b": 2}
        assert watched.reflector.unreadable == {"ns/a"}


async def test_an_object_without_a_name_is_passed_over(wire: Wire, client: Client) -> None:
    async with running(client) as watched:
        await wire.until_watched()
        wire.version += 1
        await wire.event("ADDED", {"size": 1})
        await wire.put("a", size=1)
        await watched.until_sizes(a=1)


async def test_an_unreadable_object_that_is_deleted_is_gone(wire: Wire, client: Client) -> None:
    await wire.put("a", size=1)
    async with running(client) as watched:
        await wire.until_watched()
        await wire.put("a", size="huge")
        await wire.remove("a")
        await watched.until_sizes()
        assert watched.told()[-1] == ("uid-a", None)
        assert watched.reflector.unreadable == set()


async def test_a_watch_that_ends_at_once_is_not_repeated_without_pause(wire: Wire, client: Client) -> None:
    wire.answers += [Answer(body=b'{"metadata":{"resourceVersion":"1"},"items":[]}'), *[Answer(body=b"")] * 100]
    async with running(client) as watched:
        await asyncio.sleep(0.5)
        assert watched.reflector.counts.watches <= 6
        await watched.until(lambda: watched.reflector.counts.watches >= 2)


async def test_a_problem_is_reported_once_and_cleared_when_all_is_well(wire: Wire, client: Client) -> None:
    wire.answers += [refusal(403, "Forbidden", "not for you")] * 3
    async with running(client) as watched:
        await watched.until(lambda: watched.reflector.problem == "")
        assert len(watched.reports) == 1
        assert watched.reflector.counts.failures == 3


async def test_the_age_counts_from_the_servers_last_word(wire: Wire, client: Client) -> None:
    now = [100.0]
    async with running(client, clock=lambda: now[0]) as watched:
        await wire.until_watched()
        now[0] = 130
        assert watched.reflector.age() == 30
        await wire.bookmark()
        await watched.until(lambda: watched.reflector.age() == 0)


@pytest.mark.row("B-34", case="silent-watch")
async def test_a_silent_watch_is_opened_again_from_the_last_version_and_is_no_failure(wire: Wire) -> None:
    async with client_of(wire, idle=1.1) as client, running(client) as watched:
        await wire.put("a", size=1)
        await wire.until_watched(2)
        await wire.put("b", size=2)
        await watched.until_sizes(a=1, b=2)
        assert wire.watches()[1].query["resourceVersion"] == "101"
        assert (len(wire.lists()), watched.reflector.counts.failures, watched.reports) == (1, 0, [])


@pytest.mark.row("B-34", case="silent-watch")
async def test_opening_a_silent_watch_again_counts_as_a_word_of_the_server(wire: Wire) -> None:
    now = [100.0]
    async with client_of(wire, idle=1.1) as client, running(client, clock=lambda: now[0]) as watched:
        await wire.until_watched()
        now[0] = 250
        assert watched.reflector.age() == 150
        await watched.until(lambda: watched.reflector.age() == 0)
        assert len(wire.watches()) == 2


async def test_a_cache_that_is_cancelled_leaves_no_watch_open(wire: Wire, client: Client) -> None:
    async with running(client) as watched:
        await wire.until_watched()
    await watched.until(lambda: wire.watching == 0)


async def test_a_watch_that_is_given_up_is_closed_before_the_next_one(wire: Wire, client: Client) -> None:
    async with running(client) as watched:
        await wire.until_watched()
        wire.version += 1
        await wire.line(b"oops")
        await watched.until(lambda: len(wire.watches()) == 2)
        await watched.until(lambda: wire.watching == 1)


NO_SUCH_KIND = Answer(404, b'{"reason": "NotFound", "message": "the server could not find the requested resource"}')
NOT_FOR_US = Answer(403, b'{"reason": "Forbidden", "message": "pods is forbidden"}')
QUICK = Tuning(absent=60, hurry=0.01)


@pytest.mark.parametrize(("answer", "reports"), [(NO_SUCH_KIND, 0), (NOT_FOR_US, 1)])
async def test_a_kind_that_need_not_be_there_is_an_empty_collection(wire: Wire, answer: Answer, reports: int) -> None:
    told: list[bool] = []
    wire.answers.append(answer)
    async with client_of(wire) as client, running(client, absent=lambda: told.append(True), tuning=QUICK) as watched:
        await watched.reflector.wait_synced()
        assert (watched.sizes, told, len(watched.reports)) == ({}, [True], reports)


async def test_a_kind_that_has_come_is_read_as_soon_as_somebody_says_so(wire: Wire) -> None:
    wire.answers.append(NO_SUCH_KIND)
    await wire.put("a", size=1)
    async with client_of(wire) as client, running(client, absent=lambda: None, tuning=QUICK) as watched:
        await watched.reflector.wait_synced()
        assert watched.sizes == {}
        watched.reflector.hurry()
        await watched.until_sizes(a=1)


async def test_a_kind_that_has_come_is_read_after_a_while_by_itself(wire: Wire) -> None:
    wire.answers.extend([NO_SUCH_KIND, NO_SUCH_KIND])
    await wire.put("a", size=1)
    often = Tuning(absent=0.01, hurry=0.01)
    async with client_of(wire) as client, running(client, absent=lambda: None, tuning=often) as watched:
        await watched.until_sizes(a=1)


async def test_what_there_was_of_a_kind_goes_with_it(wire: Wire) -> None:
    await wire.put("a", size=1)
    async with client_of(wire) as client, running(client, absent=lambda: None, tuning=QUICK) as watched:
        await watched.until_sizes(a=1)
        await wire.until_watched()
        wire.answers.extend([NO_SUCH_KIND])
        await wire.end_watches()
        await watched.until_sizes()
        assert watched.told() == [(None, "uid-a"), ("uid-a", None)]


async def test_a_kind_that_must_be_there_is_waited_for(wire: Wire) -> None:
    wire.answers.append(NO_SUCH_KIND)
    async with client_of(wire) as client, running(client) as watched:
        await watched.until(lambda: bool(watched.reports))
        assert "could not find" in watched.reports[0]
        await watched.reflector.wait_synced()
        assert watched.reflector.counts.lists == 2


@pytest.fixture
def in_protobuf(wire: Wire) -> None:
    """The API server writes watches in the better form that it is asked for."""
    wire.protobuf = True


@pytest.mark.usefixtures("in_protobuf")
async def test_events_in_a_better_form_change_the_store_alike(wire: Wire, client: Client) -> None:
    await wire.put("a", size=1)
    async with running(client) as watched:
        await wire.until_watched()
        await wire.put("b", size=2)
        await wire.bookmark()
        await wire.put("a", size=3)
        await wire.remove("b")
        await watched.until_sizes(a=3)
        assert watched.told()[1:] == [(None, "uid-b"), ("uid-a", "uid-a"), ("uid-b", None)]
        assert len(wire.lists()) == 1


@pytest.mark.usefixtures("in_protobuf")
async def test_a_compacted_log_leads_to_a_list_in_a_better_form_too(wire: Wire, client: Client) -> None:
    await wire.put("a", size=1)
    async with running(client) as watched:
        await wire.until_watched()
        wire.lose("a")
        wire.compact()
        await wire.end_watches()
        await watched.until_sizes()
        assert any("old (410 Expired)" in report for report in watched.reports)


@pytest.mark.usefixtures("in_protobuf")
@pytest.mark.parametrize("line", [b"oops", b'{"type": "ADDED", "object": [1, 2]}'])
async def test_what_cannot_be_opened_or_read_in_a_better_form_leads_to_a_list(
    wire: Wire, client: Client, line: bytes
) -> None:
    async with running(client) as watched:
        await wire.until_watched()
        wire.version += 1
        await wire.line(line)
        await watched.until(lambda: len(wire.lists()) == 2)
        assert any("no event" in report for report in watched.reports)
