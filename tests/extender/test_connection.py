"""HTTP/1.1 as callers speak it, byte by byte: what is no call harms nobody, and no caller waits for another one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from http import HTTPStatus

import pytest
from gpuyard.extender.http import connection
from gpuyard.extender.http.connection import LONGEST_HEAD, Reply, Route

from tests.extender.callers import LIMIT, SILENCE, Caller, Place, call, calling, eventually, no


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
async def caller(place: Place) -> AsyncIterator[Caller]:
    async with place.server.listening(0, "127.0.0.1", shutdown=0.1) as port, calling(port) as made:
        yield made


# --- how calls may come -----------------------------------------------------------------------------------------------


async def test_a_call_may_come_byte_by_byte(caller: Caller) -> None:
    await caller.say(*(bytes([byte]) for byte in call()))
    assert (await caller.heard())[2] == b"3"


async def test_one_call_after_the_other_is_answered_on_one_connection(caller: Caller) -> None:
    for size in (0, 1, 999):
        await caller.say(call(body=b"x" * size))
        status, headers, body = await caller.heard()
        assert (status, body) == (200, b"%d" % size)
        assert "Connection" not in headers


async def test_each_answer_says_when_it_was_made(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    dates = []
    for second in (0.9, 1.0, 1.9, 2.0):
        monkeypatch.setattr(connection, "time", lambda at=second: at)
        await caller.say(call())
        dates.append((await caller.heard())[1]["Date"])
    assert dates == [f"Thu, 01 Jan 1970 00:00:0{second} GMT" for second in (0, 1, 1, 2)]


async def test_the_body_may_come_in_chunks(caller: Caller) -> None:
    await caller.say(
        b"POST /length HTTP/1.1\r\nHost: gpuyard\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"2\r\nab\r\n",
        b"3\r\ncde\r\n0\r\n\r\n",
    )
    assert (await caller.heard())[2] == b"5"


async def test_who_does_not_wait_for_answers_gets_them_in_order(place: Place, caller: Caller) -> None:
    await caller.say(call("/later", b"x") + call(body=b"12") + call("/later", b"y") + call())
    place.go.set()
    assert [(await caller.heard())[2] for _ in range(4)] == [b"later x", b"2", b"later y", b"3"]


async def test_who_waits_for_a_word_before_the_body_gets_it(caller: Caller) -> None:
    head, body = call(body=b"abc")[:-3], b"abc"
    await caller.say(head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
    assert (await caller.heard())[0] == 100
    await caller.say(body)
    assert (await caller.heard())[2] == b"3"


async def test_a_query_is_no_part_of_the_path(caller: Caller) -> None:
    await caller.say(call("/length?timeout=2s"))
    assert (await caller.heard())[0] == 200


@pytest.mark.parametrize("asked", [call(version="1.0"), call("/length", b"abc", "Connection: close")])
async def test_who_wants_one_answer_only_is_left_after_it(caller: Caller, asked: bytes) -> None:
    await caller.say(asked)
    status, headers, body = await caller.heard()
    assert (status, headers["Connection"], body) == (200, "close", b"3")
    assert await caller.is_left()


async def test_who_would_rather_speak_something_else_is_answered_and_left(caller: Caller) -> None:
    await caller.say(
        call("/length", b"", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    )
    assert (await caller.heard())[0] == 200
    assert await caller.is_left()


# --- what is no call --------------------------------------------------------------------------------------------------


async def test_what_is_no_http_is_told_so(caller: Caller) -> None:
    await caller.say(b"\x16\x03\x01 is how TLS begins\r\n\r\n")
    assert (await caller.heard())[0] == HTTPStatus.BAD_REQUEST
    assert await caller.is_left()


async def test_a_head_without_end_is_not_kept(caller: Caller) -> None:
    await caller.say(b"POST /length HTTP/1.1\r\n")
    for _ in range(LONGEST_HEAD // 8192 + 1):
        await caller.say(b"X-Padding: " + b"x" * 8192 + b"\r\n")
    assert (await caller.heard())[0] == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    assert await caller.is_left()


async def test_what_follows_a_body_without_end_is_not_kept(caller: Caller) -> None:
    await caller.say(
        b"POST /length HTTP/1.1\r\nHost: gpuyard\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Trailer: "
    )
    for _ in range(LONGEST_HEAD // 8192 + 1):
        await caller.say(b"x" * 8192)
    assert (await caller.heard())[0] == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    assert await caller.is_left()


async def test_a_body_between_two_heads_is_no_part_of_either(place: Place, caller: Caller) -> None:
    place.server.max_body = 1 << 20
    asked = call(body=b"x" * 100_000)
    await caller.say(asked[:20], asked[20:] + asked[:20], asked[20:] + asked[:20], asked[20:])
    assert [(await caller.heard())[2] for _ in range(3)] == [b"100000"] * 3


async def test_a_body_in_tiny_pieces_is_the_same_body(caller: Caller) -> None:
    pieces = b"".join(b"1\r\n%d\r\n" % (number % 10) for number in range(500))
    asked = b"POST /length HTTP/1.1\r\nHost: gpuyard\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"
    await caller.say(asked)
    assert (await caller.heard())[2] == b"500"


async def test_what_is_no_http_after_a_call_that_waits_is_no_answer_to_it(place: Place, caller: Caller) -> None:
    await caller.say(call("/later", b"x"), b"\x16\x03\x01\r\n\r\n")
    place.go.set()
    status, headers, body = await caller.heard()
    assert (status, headers["Connection"], body) == (200, "close", b"later x")
    assert await caller.is_left()


async def test_an_upgrade_of_a_call_that_waits_is_answered_and_left(place: Place, caller: Caller) -> None:
    await caller.say(call("/later", b"", "Connection: Upgrade", "Upgrade: h2c"))
    place.go.set()
    _, headers, body = await caller.heard()
    assert (headers["Connection"], body) == ("close", b"later ")
    assert await caller.is_left()


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_fault_of_ours_is_an_answer_too(place: Place, caller: Caller, awaited: bool) -> None:
    async def later() -> Reply:
        raise KeyError("inside")

    def at_once(_: bytes | None) -> Awaitable[Reply]:
        if awaited:
            return later()
        raise KeyError("inside")

    place.server.routes = {"/length": Route(at_once, no)}
    await caller.say(call())
    status, headers, body = await caller.heard()
    assert (status, headers["Connection"], body) == (500, "close", b"")
    assert place.server.under_way == 0


async def test_a_long_body_before_a_head_is_no_part_of_that_head(caller: Caller) -> None:
    asked = call()
    for _ in range(3):
        await caller.say(b"".join([call(body=b"x" * LIMIT)] * 100) + asked[:20], asked[20:])
        assert [(await caller.heard())[2] for _ in range(101)] == [b"1000"] * 100 + [b"3"]


async def test_of_a_body_that_is_too_long_nothing_is_kept_and_the_next_is_read(caller: Caller) -> None:
    await caller.say(call(body=b"x" * LIMIT + b"x"), call())
    assert [(await caller.heard())[2] for _ in range(2)] == [b"too long", b"3"]


@pytest.mark.parametrize("path", ["/", "/unknown", "//", "/%ff", "*"])
async def test_another_path_is_not_found(caller: Caller, path: str) -> None:
    await caller.say(call(path), call())
    assert [(await caller.heard())[0] for _ in range(2)] == [404, 200]


async def test_another_method_is_told_the_right_one(caller: Caller) -> None:
    await caller.say(b"GET /length HTTP/1.1\r\nHost: gpuyard\r\n\r\n")
    status, headers, _ = await caller.heard()
    assert (status, headers["Allow"]) == (405, "POST")


# --- coming and going -------------------------------------------------------------------------------------------------


async def test_a_call_from_memory_counts_from_its_head_to_its_answer(place: Place, caller: Caller) -> None:
    asked = call()
    await caller.say(asked[:-1])
    assert place.server.under_way == 1
    await caller.say(asked[-1:])
    await caller.heard()
    assert place.server.under_way == 0


async def test_a_call_that_asks_elsewhere_does_not_count(place: Place, caller: Caller) -> None:
    await caller.say(call("/later"))
    assert place.server.under_way == 0


async def test_a_caller_who_goes_in_the_middle_of_a_call_is_not_counted_on(place: Place) -> None:
    async with place.server.listening(0, "127.0.0.1") as port:
        async with calling(port) as caller:
            await caller.say(call() + call()[:-1])
            assert place.server.under_way == 1
        await eventually(lambda: not place.server.connections)
    assert place.server.under_way == 0


async def test_what_was_begun_for_a_caller_who_goes_is_brought_to_its_end(place: Place) -> None:
    place.server.routes = {"/later": Route(place.later, no)}
    async with place.server.listening(0, "127.0.0.1") as port:
        async with calling(port) as caller:
            await caller.say(call("/later"))
            assert place.server.under_way == 0, "nobody is held up while it waits"
        await eventually(lambda: not place.server.connections)
        place.go.set()
        await asyncio.wait_for(place.brought_to_its_end.wait(), 10)
        await eventually(lambda: place.server.under_way == 0)


async def test_who_waits_for_an_answer_is_not_heard_further(place: Place) -> None:
    place.server.max_body = 1 << 20
    async with place.server.listening(0, "127.0.0.1", shutdown=0.1) as port, calling(port) as caller:
        await caller.say(call("/later", b"x"))
        flood = asyncio.create_task(caller.say(*[call(body=b"y" * (1 << 20))] * 50))
        done, _ = await asyncio.wait([flood], timeout=1)
        assert not done, "the rest waits at the caller"
        place.go.set()
        assert (await caller.heard())[2] == b"later x"
        assert [(await caller.heard())[2] for _ in range(50)] == [b"%d" % (1 << 20)] * 50
        await flood


async def test_who_does_not_read_is_not_answered_until_he_does(place: Place, caller: Caller) -> None:
    big = b"x" * (1 << 20)
    place.server.routes = {"/big": Route(lambda _: Reply(big), no)}
    await caller.say(call("/big") * 100)
    (one,) = place.server.connections
    assert one._transport.get_write_buffer_size() < 10 * len(big)
    for _ in range(100):
        assert (await caller.heard())[2] == big


async def test_who_says_nothing_for_long_is_left(place: Place, quickly: Caller) -> None:
    await quickly.say(call()[:-1])
    assert await quickly.is_left()
    assert place.server.under_way == 0


async def test_who_takes_no_answers_for_long_is_dropped(place: Place, quickly: Caller) -> None:
    place.server.routes = {"/big": Route(lambda _: Reply(b"x" * (1 << 20)), no)}
    await quickly.say(call("/big") * 100)
    await eventually(lambda: not place.server.connections)
    assert place.server.under_way == 0


async def test_who_waits_for_an_answer_may_be_silent(place: Place, quickly: Caller) -> None:
    await quickly.say(call("/later", b"x"))
    await asyncio.sleep(3 * SILENCE)
    place.go.set()
    assert (await quickly.heard())[2] == b"later x"
    assert await quickly.is_left(), "and is left when he says nothing more"


@pytest.fixture
async def quickly(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Caller]:
    monkeypatch.setattr(connection, "KEEP_ALIVE", SILENCE)
    async with place.server.listening(0, "127.0.0.1", shutdown=0.1) as port, calling(port) as made:
        yield made


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_at_the_end_nobody_is_kept_who_asks_nothing(place: Place) -> None:
    async with AsyncExitStack() as open_connections:
        async with place.server.listening(0, "127.0.0.1", shutdown=60) as port:
            caller = await open_connections.enter_async_context(calling(port))
            await caller.say(call())
            await caller.heard()
        assert await caller.is_left()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_at_the_end_calls_under_way_are_answered(place: Place) -> None:
    async with AsyncExitStack() as open_connections:
        async with place.server.listening(0, "127.0.0.1", shutdown=60) as port:
            waits, speaks = [await open_connections.enter_async_context(calling(port)) for _ in range(2)]
            await waits.say(call("/later", b"x"))
            await speaks.say(call()[:-1])
            asyncio.get_running_loop().call_later(0.1, place.go.set)
            asyncio.get_running_loop().call_later(0.1, speaks.writer.write, call()[-1:])
        for caller, answer in ((waits, b"later x"), (speaks, b"3")):
            _, headers, body = await caller.heard()
            assert (headers["Connection"], body) == ("close", answer)
            assert await caller.is_left()


async def test_the_end_waits_for_no_call_longer_than_it_may(place: Place) -> None:
    async with AsyncExitStack() as open_connections:
        async with place.server.listening(0, "127.0.0.1", shutdown=0.1) as port:
            caller = await open_connections.enter_async_context(calling(port))
            await caller.say(call("/later"))
        assert await caller.is_left()
