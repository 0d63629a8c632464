"""Whose calls are answered, and what all callers together may hold."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpuyard.common.tokens import TOKEN, authorization
from gpuyard.extender.http import connection
from gpuyard.extender.http.authentication import NOT_KNOWN, NOT_SHOWN, Tokens
from gpuyard.extender.http.connection import TOO_MUCH
from gpuyard.extender.http.handshakes import HANDSHAKE

from tests.extender.callers import LIMIT, SILENCE, Caller, Place, call, calling, eventually


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
async def caller(place: Place) -> AsyncIterator[Caller]:
    async with place.server.listening(0, "127.0.0.1", shutdown=0.1) as port, calling(port) as made:
        yield made


# --- whose calls are answered -----------------------------------------------------------------------------------------

SECRET = "a" * 32
SHOWN = f"Authorization: {authorization(SECRET).decode()}"
WRONG = f"Authorization: {authorization('b' * 32).decode()}"


@pytest.fixture
def closed(place: Place, tmp_path: Path) -> Place:
    """The place, where a token is asked for."""
    (tmp_path / TOKEN).write_text(SECRET)
    place.mode, place.gate.tokens = "token", Tokens(tmp_path)
    return place


@pytest.mark.row("X-20", case="token")
async def test_a_caller_with_the_token_is_answered_and_its_connection_stays(closed: Place, caller: Caller) -> None:
    assert closed.mode == "token"
    await caller.say(call("/length", b"abc", SHOWN), call("/length", b"ab", SHOWN))
    for size in (b"3", b"2"):
        _, headers, body = await caller.heard()
        assert (body, "Connection" in headers) == (size, False)


@pytest.mark.row("X-20", case="no-token")
@pytest.mark.row("X-25", case="closed")
async def test_a_caller_without_it_is_told_so_with_200_and_left(closed: Place, caller: Caller) -> None:
    assert closed.mode == "token"
    await caller.say(call() + call("/length", b"x", SHOWN))
    status, headers, body = await caller.heard()
    assert (status, headers["Connection"], body) == (200, "close", b"refused: " + NOT_SHOWN.encode())
    assert await caller.is_left(), "and what follows on that connection is not heard"


@pytest.mark.row("X-20", case="wrong-token")
async def test_a_token_counts_for_one_call(closed: Place, caller: Caller) -> None:
    assert closed.mode == "token"
    await caller.say(call("/length", b"abc", SHOWN), call("/length", b"abc", WRONG))
    assert [(await caller.heard())[2] for _ in range(2)] == [b"3", b"refused: " + NOT_KNOWN.encode()]


async def test_a_token_after_the_body_comes_too_late(closed: Place, caller: Caller) -> None:
    assert closed.mode == "token"
    head = b"POST /length HTTP/1.1\r\nHost: gpuyard\r\nTransfer-Encoding: chunked\r\n\r\n"
    await caller.say(head + b"1\r\na\r\n0\r\n" + SHOWN.encode() + b"\r\n\r\n")
    assert (await caller.heard())[2] == b"refused: " + NOT_SHOWN.encode()


@pytest.mark.row("X-25", case="body")
async def test_of_a_strangers_body_nothing_is_kept(closed: Place, caller: Caller) -> None:
    closed.server.max_body = 1 << 20
    asked = call("/length", b"x" * 500_000)
    await caller.say(asked[:-1])
    await eventually(lambda: len(closed.server.connections) == 1)
    [(one)] = closed.server.connections
    await eventually(lambda: one._arriving is not None and one._arriving.size > 400_000)
    assert one._arriving
    assert (closed.server.held, one._arriving.kept) == (0, 0)
    await caller.say(asked[-1:])
    assert (await caller.heard())[2].startswith(b"refused")


@pytest.mark.row("X-25", case="body")
async def test_a_stranger_with_a_long_body_is_answered_before_it_has_come(closed: Place, caller: Caller) -> None:
    assert closed.mode == "token"
    await caller.say(call("/length", b"x" * (50 << 20))[: (1 << 20) + 70_000])
    assert (await caller.heard())[2].startswith(b"refused")


async def test_a_stranger_is_not_asked_for_its_body(closed: Place, caller: Caller) -> None:
    assert closed.mode == "token"
    await caller.say(call("/length", b"", "Expect: 100-continue"))
    assert (await caller.heard())[0] == 200


@pytest.mark.row("X-25", case="planner")
async def test_nobody_waits_for_a_strangers_call(closed: Place, caller: Caller) -> None:
    await caller.say(call()[:-1])
    assert closed.server.under_way == 0
    await caller.say(call()[-1:])
    await caller.heard()
    assert closed.server.under_way == 0


async def test_the_log_names_one_stranger_of_many(
    closed: Place, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr(
        "gpuyard.extender.http.server.log", SimpleNamespace(warning=lambda _, **more: told.append(more))
    )
    closed.server.refused(("10.0.0.1", 1), NOT_SHOWN)
    await caller.say(call("/length", b"", WRONG))
    await caller.heard()
    assert told == [{"address": ("10.0.0.1", 1), "problem": NOT_SHOWN}]


# --- bounded altogether -----------------------------------------------------------------------------------------------


@pytest.mark.row("X-27", case="bound")
@pytest.mark.row("X-28")
@pytest.mark.row("X-30")
def test_the_bounds_that_are_shipped() -> None:
    server = Place().server
    assert (server.max_held, server.max_connections) == (128 << 20, 256)
    assert (connection.ARRIVES_WITHIN, HANDSHAKE) == (30, 10)


@pytest.mark.row("X-27", case="bound")
async def test_what_all_unfinished_bodies_together_may_hold_is_bounded(place: Place) -> None:
    place.server.max_held = 2 * LIMIT
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(place.server.listening(0, "127.0.0.1", shutdown=0.1))
        one, two, three = [await stack.enter_async_context(calling(port)) for _ in range(3)]
        asked = call(body=b"x" * LIMIT)
        for each in (one, two):
            await each.say(asked[:-1])
        await eventually(lambda: place.server.held == 2 * LIMIT - 2)
        await three.say(asked)
        _, headers, body = await three.heard()
        assert (headers["Connection"], body) == ("close", b"refused: " + TOO_MUCH.encode())
        assert await three.is_left()
        assert (place.server.held, place.server.under_way) == (2 * LIMIT - 2, 2)
        for each in (one, two):
            await each.say(asked[-1:])
            assert (await each.heard())[2] == b"%d" % LIMIT
        assert (place.server.held, place.server.under_way) == (0, 0)


@pytest.mark.row("X-27", case="given-back")
async def test_what_a_caller_held_who_goes_is_given_back(place: Place) -> None:
    async with place.server.listening(0, "127.0.0.1") as port:
        async with calling(port) as caller:
            await caller.say(call(body=b"x" * LIMIT)[:-1])
            await eventually(lambda: place.server.held == LIMIT - 1)
        await eventually(lambda: place.server.held == 0)


@pytest.mark.row("X-27", case="given-back")
async def test_what_is_too_long_or_waits_for_its_turn_is_counted_until_it_is_answered(
    place: Place, caller: Caller
) -> None:
    await caller.say(call("/later", b"x" * 10) + call(body=b"y" * 20))
    assert place.server.held == 20
    place.go.set()
    await caller.heard()
    assert (await caller.heard())[2] == b"20"
    assert place.server.held == 0
    await caller.say(call(body=b"z" * (LIMIT + 1)))
    assert (await caller.heard())[2] == b"too long"
    assert place.server.held == 0


@pytest.mark.row("X-28")
@pytest.mark.row("X-25", case="dropped-first")
async def test_of_too_many_connections_the_strangers_go_first(closed: Place) -> None:
    closed.server.max_connections = 3
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(closed.server.listening(0, "127.0.0.1", shutdown=0.1))
        ours = await stack.enter_async_context(calling(port))
        await ours.say(call("/length", b"abc", SHOWN))
        await ours.heard()
        silent = await stack.enter_async_context(calling(port))
        await eventually(lambda: len(closed.server.connections) == 2)
        talks = await stack.enter_async_context(calling(port))
        await talks.say(call()[:-1])
        new = await stack.enter_async_context(calling(port))
        await new.say(call("/length", b"ab", SHOWN))
        assert (await new.heard())[2] == b"2"
        await ours.say(call("/length", b"abc", SHOWN))
        assert (await ours.heard())[2] == b"3"
        assert await silent.is_left()
        await talks.say(call()[-1:])
        assert (await talks.heard())[0] == 200


@pytest.mark.row("X-28")
async def test_where_all_are_known_who_comes_last_is_refused(closed: Place) -> None:
    closed.server.max_connections = 1
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(closed.server.listening(0, "127.0.0.1", shutdown=0.1))
        ours = await stack.enter_async_context(calling(port))
        for _ in range(2):
            await ours.say(call("/length", b"abc", SHOWN))
            assert (await ours.heard())[2] == b"3"
            late = await stack.enter_async_context(calling(port))
            assert await late.is_left()
    assert closed.server.connections == set()


@pytest.mark.row("X-30")
async def test_who_sends_slowly_is_left_after_some_time_however_short_the_gaps(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ARRIVES_WITHIN", SILENCE)
    for begun in (b"POST /length HTTP/1.1\r\nHost: ", call(body=b"x" * 900)[:-900]):
        async with place.server.listening(0, "127.0.0.1", shutdown=0.1) as port, calling(port) as caller:
            await caller.say(begun)
            answer = asyncio.create_task(caller.heard())
            while not answer.done():
                caller.writer.write(b"x")
                await asyncio.sleep(SILENCE / 20)
            assert (await answer)[0] == HTTPStatus.REQUEST_TIMEOUT
        assert (place.server.held, place.server.under_way) == (0, 0)


@pytest.mark.row("X-30")
async def test_a_call_that_we_let_wait_has_its_time_when_it_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    within = 4 * SILENCE
    monkeypatch.setattr(connection, "ARRIVES_WITHIN", within)
    async with place.server.listening(0, "127.0.0.1", shutdown=0.1) as port, calling(port) as caller:
        await caller.say(call("/later", b"x") + call()[:-1])
        await asyncio.sleep(1.2 * within)
        place.go.set()
        assert (await caller.heard())[2] == b"later x"
        await asyncio.sleep(within / 4)  # the timer looks ten times within that time
        await caller.say(call()[-1:])
        assert (await caller.heard())[2] == b"3"


# --- heads that can be read in two ways -------------------------------------------------------------------------------

HOST, CHUNKED = "Host: gpuyard", "Transfer-Encoding: chunked"
AMBIGUOUS = [
    pytest.param(lines, marks=pytest.mark.row("X-31", case=case))
    for case, lines in {
        "no-host": ["Content-Length: 0"],
        "two-hosts": [HOST, HOST, "Content-Length: 0"],
        "two-encodings": [HOST, CHUNKED, CHUNKED],
        "two-tokens": [HOST, "Content-Length: 0", SHOWN, SHOWN],
    }.items()
]


@pytest.mark.parametrize(
    "lines",
    [*AMBIGUOUS, [HOST, "Transfer-Encoding: gzip, chunked"], [HOST, CHUNKED, "Content-Length: 0"]],
)
async def test_a_head_that_can_be_read_in_two_ways_is_refused(place: Place, caller: Caller, lines: list[str]) -> None:
    await caller.say("\r\n".join(["POST /length HTTP/1.1", *lines, "", "0", "", ""]).encode())
    assert (await caller.heard())[0] == HTTPStatus.BAD_REQUEST
    assert place.server.under_way == 0
