"""What the clients of a port can hold is bounded, and a scraper or a probe gets in whatever others do."""

import asyncio
import gzip
import socket
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from gpuyard.common import http
from gpuyard.common.connections import KEEP_ALIVE, MAX_CONNECTIONS, MAX_REQUEST, Bounds, Connections
from gpuyard.common.http import application, listening, operations
from gpuyard.common.metrics import new_registry

from tests.common.clients import AT_ONCE, Client, Clients

LARGE = 1 << 20
"""Bytes of an answer that is larger than what the kernel takes for a client that does not read."""

LIMIT = 0.3
"""Seconds of the time limit that a test is about."""


def get(path: str) -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode()


HALF = get("/metrics")[:-2]


class Site:
    """An application with a short answer, a large one, one that waits, and one that reads a body."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.app = application()
        self.app.router.add_get("/short", self._short)
        self.app.router.add_get("/large", self._large)
        self.app.router.add_get("/later", self._later)
        self.app.router.add_post("/length", self._length)

    async def _short(self, _request: web.Request) -> web.Response:
        return web.Response(text="short")

    async def _large(self, request: web.Request) -> web.Response:
        return web.Response(body=bytes(int(request.query.get("size", LARGE))))

    async def _later(self, _request: web.Request) -> web.Response:
        await self.go.wait()
        return web.Response(text="later")

    async def _length(self, request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with Clients() as made:
        yield made


@pytest.fixture
async def site() -> Site:
    return Site()


async def answered(client: Client, path: str = "/short") -> bytes:
    await client.say(get(path))
    return await client.answer()


# --- the number of connections ----------------------------------------------------------------------------------------


@pytest.mark.row("X-63", case="half-heads")
@pytest.mark.parametrize("sent", [b"", b"G", HALF], ids=["nothing", "one byte", "half a head"])
async def test_a_scrape_and_a_probe_are_answered_beside_two_hundred_unfinished_requests(
    clients: Clients, sent: bytes
) -> None:
    async with listening(operations(new_registry("test"), tuple), 0, "127.0.0.1") as port:
        unfinished = [await clients.ask(port, sent) for _ in range(200)]
        assert b"gpuyard_build_info" in await answered(await clients.join(port), "/metrics")
        assert await answered(await clients.join(port), "/healthz") == b"ok\n"
        held = sum(await asyncio.gather(*(client.is_open() for client in unfinished)))
        assert held == MAX_CONNECTIONS - 2


@pytest.mark.row("X-63", case="idle")
async def test_of_too_many_idle_connections_the_one_that_was_idle_longest_is_closed(
    clients: Clients, site: Site
) -> None:
    async with listening(site.app, 0, "127.0.0.1") as port:
        idle = [await clients.join(port) for _ in range(MAX_CONNECTIONS)]
        for client in (*idle, idle[0]):
            assert await answered(client) == b"short"
        assert await answered(await clients.join(port)) == b"short"
        assert [await client.is_open() for client in idle[:3]] == [True, False, True]


@pytest.mark.row("X-63", case="idle")
async def test_an_idle_connection_is_closed_after_its_time(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(idle=LIMIT)) as port:
        client = await clients.join(port)
        assert await answered(client) == b"short"
        begun = time.monotonic()
        assert await client.rest() == 0
        assert time.monotonic() - begun >= LIMIT * 0.9


def test_idle_connections_outlive_those_of_go_clients() -> None:
    assert KEEP_ALIVE > 90


async def test_a_request_that_is_being_answered_is_not_dropped_for_a_new_connection(
    clients: Clients, site: Site
) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(connections=2)) as port:
        waiting = await clients.ask(port, get("/later"))
        idle = await clients.join(port)
        assert await answered(await clients.join(port)) == b"short"
        assert not await idle.is_open()
        site.go.set()
        assert await waiting.answer() == b"later"


async def test_while_all_requests_are_being_answered_a_new_connection_is_refused(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(connections=1)) as port:
        waiting = await clients.ask(port, get("/later"))
        assert not await (await clients.join(port)).is_open()
        site.go.set()
        assert await waiting.answer() == b"later"
        assert await answered(await clients.join(port)) == b"short"


# --- slow senders -----------------------------------------------------------------------------------------------------


@pytest.mark.row("X-63", case="slow-sender")
@pytest.mark.parametrize(
    ("begin", "path"), [(b"", "/short"), (b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n", "/" * 90)]
)
async def test_a_slow_sender_is_cut_by_total_time(clients: Clients, site: Site, begin: bytes, path: str) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(arrives=LIMIT)) as port:
        slow = await clients.ask(port, begin)
        sending = asyncio.create_task(slow.say(*(bytes([byte]) for byte in get(path)), every=0.05))
        begun = time.monotonic()
        assert await slow.rest() == 0
        assert LIMIT * 0.9 <= time.monotonic() - begun < LIMIT + 1
        sending.cancel()


@pytest.mark.row("X-63", case="slow-sender")
async def test_head_and_body_have_one_time_limit_together(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(arrives=0.6)) as port:
        begun = time.monotonic()
        slow = await clients.ask(port, b"POST /length HTTP/1.1\r\n")
        await asyncio.sleep(0.5)
        await slow.say(b"Host: x\r\nContent-Length: 9\r\n\r\n")
        assert await slow.rest() == 0
        assert time.monotonic() - begun < 1


@pytest.mark.row("X-63", case="slow-sender")
async def test_a_body_that_nobody_wants_is_not_waited_for(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1") as port:
        client = await clients.ask(port, b"GET /short HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        assert await client.answer() == b"short"
        assert await client.rest() == 0


async def test_a_request_in_several_pieces_is_answered(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1") as port:
        client = await clients.join(port)
        await client.say(
            b"POST /length HTTP/1.1\r\nHo", b"st: x\r\nContent-Length: 4\r\n\r\n", b"ab", b"cd", every=0.01
        )
        assert await client.answer() == b"4"
        assert await answered(client) == b"short"


# --- slow readers -----------------------------------------------------------------------------------------------------


@pytest.mark.row("X-63", case="slow-reader")
async def test_an_answer_that_is_not_taken_is_dropped_after_its_time(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(taken=LIMIT)) as port:
        slow = await clients.ask(port, get("/large"))
        await asyncio.sleep(LIMIT * 2)
        assert await slow.rest() < LARGE
        assert slow.was_reset


@pytest.mark.row("X-63", case="slow-reader")
async def test_a_client_that_takes_an_answer_little_by_little_has_no_more_time(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(taken=LIMIT)) as port:
        slow = await clients.ask(port, get("/large"))
        assert await slow.trickle(LIMIT * 2, every=0.01) + await slow.rest() < LARGE


@pytest.mark.row("X-63", case="slow-reader")
async def test_no_answer_of_any_size_is_left_behind_by_a_client_that_does_not_read(
    clients: Clients, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Connections] = []

    def make(server: web.Server, bounds: Bounds) -> Connections:
        made.append(Connections(server, bounds))
        return made[-1]

    monkeypatch.setattr(http, "Connections", make)
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(taken=LIMIT)) as port:
        sizes = range(0, LARGE, LARGE // 32)
        for size in sizes:
            silent = clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            silent.sendall(get(f"/large?size={size}") + get("/large?size=30000"))
        await asyncio.sleep(LIMIT * 2)
        held = [one.untaken for one in made[0].open]
        assert 0 < len(held) < len(sizes), "the kernel takes small answers, and not the largest"
        assert set(held) == {0}


async def test_a_client_that_reads_within_the_time_gets_the_whole_answer(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1") as port:
        client = await clients.ask(port, get("/large"))
        await asyncio.sleep(0.1)
        assert await client.answer() == bytes(LARGE)
        assert await answered(client) == b"short"


@pytest.mark.row("X-63", case="bytes")
async def test_of_too_many_bytes_that_are_not_taken_the_oldest_answers_are_dropped(
    clients: Clients, site: Site
) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(untaken=LARGE)) as port:
        readers = [await clients.ask(port, get("/large")) for _ in range(4)]
        await asyncio.sleep(0.2)
        assert [await reader.rest() < LARGE for reader in readers[:-1]] == [True] * 3
        assert await readers[-1].answer() == bytes(LARGE)


async def test_a_single_answer_may_be_longer_than_all_answers_together(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(untaken=1000)) as port:
        assert len(await answered(await clients.join(port), "/large")) == LARGE


@pytest.mark.row("X-63", case="slow-reader")
async def test_a_slow_reader_gives_way_to_a_new_connection(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(connections=1)) as port:
        slow = await clients.ask(port, get("/large"))
        await asyncio.sleep(0.1)
        assert await answered(await clients.join(port)) == b"short"
        assert await slow.rest() < LARGE


async def test_an_idle_connection_gives_way_before_a_slow_reader(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", bounds=Bounds(connections=2)) as port:
        slow = await clients.ask(port, get("/large"))
        await asyncio.sleep(0.1)
        idle = await clients.join(port)
        assert await answered(await clients.join(port)) == b"short"
        assert not await idle.is_open()
        assert await slow.answer() == bytes(LARGE)


# --- bytes of requests ------------------------------------------------------------------------------------------------


@pytest.mark.row("X-63", case="bytes")
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /short HTTP/1.1\r\nHost: x\r\n" + b"A: 1\r\n" * (MAX_REQUEST // 6),
        b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n" + bytes(MAX_REQUEST),
        b"POST /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * MAX_REQUEST,
        get("/short") * 4,
    ],
    ids=["a long head", "a long body", "a long body in chunks", "requests that do not wait for answers"],
)
async def test_a_client_that_sends_more_than_one_request_may_hold_is_cut(
    clients: Clients, site: Site, request_bytes: bytes
) -> None:
    async with listening(site.app, 0, "127.0.0.1") as port:
        assert await (await clients.ask(port, request_bytes)).rest() == 0
        assert await answered(await clients.join(port)) == b"short"


async def test_a_body_up_to_the_bound_is_read(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1") as port:
        size = MAX_REQUEST - 100
        client = await clients.ask(port, b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        await client.say(bytes(size))
        assert await client.answer() == b"%d" % size


@pytest.mark.row("X-63", case="bytes")
async def test_a_body_is_not_unpacked(clients: Clients, site: Site) -> None:
    packed = gzip.compress(bytes(1 << 20))
    async with listening(site.app, 0, "127.0.0.1") as port:
        head = b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        client = await clients.ask(port, head % len(packed) + packed)
        assert await client.answer() == b"%d" % len(packed)


async def test_two_requests_at_once_are_answered_in_order(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1") as port:
        client = await clients.ask(port, get("/later") + get("/short"))
        site.go.set()
        assert [await client.answer(), await client.answer()] == [b"later", b"short"]


# --- what stays as it was ---------------------------------------------------------------------------------------------


@pytest.mark.row("X-63", case="unharmed")
async def test_a_scraper_uses_one_connection_again_and_again(clients: Clients) -> None:
    bounds = Bounds(arrives=LIMIT, taken=LIMIT, request=2 * len(get("/metrics")))
    async with listening(operations(new_registry("test"), tuple), 0, "127.0.0.1", bounds=bounds) as port:
        scraper = await clients.join(port)
        for _ in range(4):
            assert b"gpuyard_build_info" in await answered(scraper, "/metrics")
            await asyncio.sleep(LIMIT / 2)


@pytest.mark.row("X-63", case="unharmed")
async def test_at_the_end_idle_and_unfinished_requests_keep_nobody_waiting(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", shutdown=60) as port:
        idle, unfinished = await clients.join(port), await clients.ask(port, HALF)
        assert await answered(idle) == b"short"
        begun = time.monotonic()
    assert time.monotonic() - begun < AT_ONCE
    assert not await idle.is_open()
    assert not await unfinished.is_open()


async def test_at_the_end_a_slow_reader_is_waited_for_no_longer_than_it_may(clients: Clients, site: Site) -> None:
    async with listening(site.app, 0, "127.0.0.1", shutdown=LIMIT) as port:
        slow = await clients.ask(port, get("/large"))
        await asyncio.sleep(0.1)
    assert await slow.rest() < LARGE
