"""Each port serves with our limits and headers; probes say why they fail."""

import asyncio
import gc
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from gpuyard.common.http import application, listening, operations
from gpuyard.common.metrics import new_registry
from structlog.testing import capture_logs

from tests.common.strangers import FINE, MALFORMED, sent


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


async def slowly(_request: web.Request) -> web.Response:
    await asyncio.sleep(0.3)
    return web.Response(text="done")


def slow() -> web.Application:
    app = application()
    app.router.add_get("/slow", slowly)
    return app


async def test_every_answer_carries_the_security_headers(session: aiohttp.ClientSession) -> None:
    async with listening(slow(), 0, "127.0.0.1") as port:
        for path in ("/slow", "/not-there"):
            headers = (await session.get(f"http://127.0.0.1:{port}{path}")).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Content-Security-Policy"] == "default-src 'self'"


async def test_a_request_under_way_is_answered_before_the_port_closes(session: aiohttp.ClientSession) -> None:
    async with listening(slow(), 0, "127.0.0.1") as port:
        asked = asyncio.create_task(session.get(f"http://127.0.0.1:{port}/slow"))
        await asyncio.sleep(0.1)
    assert await (await asked).text() == "done"
    with pytest.raises(aiohttp.ClientConnectorError):
        await session.get(f"http://127.0.0.1:{port}/slow")


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    async with listening(slow(), 0, "127.0.0.1") as port:
        with pytest.raises(OSError, match="address already in use"):
            async with listening(slow(), port, "127.0.0.1"):
                pytest.fail("two servers on one port")


async def test_the_probes_follow_the_checks(session: aiohttp.ClientSession) -> None:
    problems: list[str] = []
    async with listening(operations(new_registry("test"), lambda: problems), 0, "127.0.0.1") as port:
        ready = await session.get(f"http://127.0.0.1:{port}/readyz")
        assert (ready.status, await ready.text()) == (200, "ok\n")
        problems += ["pods: not listed yet", "lease: unknown"]
        ready = await session.get(f"http://127.0.0.1:{port}/readyz")
        assert (ready.status, await ready.text()) == (503, "pods: not listed yet\nlease: unknown\n")
        assert (await session.get(f"http://127.0.0.1:{port}/healthz")).status == 200


async def test_a_page_is_served_under_its_name_and_nothing_under_others(session: aiohttp.ClientSession) -> None:
    pages = {"state": lambda: b"[1]"}
    async with listening(operations(new_registry("test"), tuple, pages=pages), 0, "127.0.0.1") as port:
        answer = await session.get(f"http://127.0.0.1:{port}/state")
        assert (answer.status, await answer.json()) == (200, [1])
        assert (await session.get(f"http://127.0.0.1:{port}/other")).status == 404


async def test_metrics_are_served_as_prometheus_text(session: aiohttp.ClientSession) -> None:
    async with listening(operations(new_registry("test"), tuple), 0, "127.0.0.1") as port:
        answer = await session.get(f"http://127.0.0.1:{port}/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert "gpuyard_build_info" in await answer.text()


async def test_a_handler_that_fails_is_answered_and_logged(session: aiohttp.ClientSession) -> None:
    async def broken(_request: web.Request) -> web.Response:
        raise KeyError("inside")

    app = application()
    app.router.add_get("/broken", broken)
    with capture_logs() as logs:
        async with listening(app, 0, "127.0.0.1") as port:
            answer = await session.get(f"http://127.0.0.1:{port}/broken")
    assert (answer.status, "inside" in await answer.text()) == (500, False)
    assert [line["event"] for line in logs] == ["request-failed"]


@pytest.mark.row("X-90", case="probes")
@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_requests_to_the_probes_are_refused_and_not_logged(
    request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with capture_logs() as logs:
        async with listening(operations(new_registry("test"), tuple), 0, "127.0.0.1") as port:
            assert not (await sent(port, request_bytes)).startswith(b"HTTP/1.1 200 ")
            assert (await sent(port, FINE)).startswith(b"HTTP/1.1 200 ")
        gc.collect()
    assert (logs, caplog.records) == ([], [])
