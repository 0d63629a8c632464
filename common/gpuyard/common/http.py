"""HTTP as all our processes serve it: one listener per port, bounds and headers set, probes and metrics.

`connections.py` bounds what clients can hold of a port. The log says what fails in our own handlers, and nothing about
requests that are no HTTP: anybody who reaches a port can send these, as many as they like, with whatever bytes they
want to see in our log.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, cast

from aiohttp import web
from gpuyard.common.connections import BOUNDS, Bounds, Connections
from gpuyard.common.logs import get_logger
from gpuyard.common.metrics import CONTENT_TYPE, Page
from prometheus_client import CollectorRegistry
from yarl import URL

OPS_PORT = 8081
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Addresses at which only processes of the same machine, or of the same pod, reach a port."""

SECURITY = {
    "Content-Security-Policy": "default-src 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Checks = Callable[[], Sequence[str]]
"""What is wrong right now, one sentence each; nothing when all is well."""

Pages = Mapping[str, Callable[[], bytes]]
"""Pages of JSON by name."""

NO_PAGES: Pages = MappingProxyType({})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = get_logger()


def application() -> web.Application:
    """An application that logs what fails in it and sends the security headers."""
    # What a request may hold is bounded by its connection, whether a handler reads the body or not.
    app = web.Application(client_max_size=0, middlewares=[_log_faults])
    app.on_response_prepare.append(_secure)
    return app


async def _secure(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in SECURITY.items():
        response.headers.setdefault(name, value)


@web.middleware
async def _log_faults(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 500 where a handler of ours fails, and log why."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception:
        log.exception("request-failed")
        return web.Response(status=500, text="internal error; the log says more\n")


@asynccontextmanager
async def listening(
    app: web.Application, port: int, host: str | None = None, *, shutdown: float = 5, bounds: Bounds = BOUNDS
) -> AsyncIterator[int]:
    """Serve `app` while the context is open; yields the port, which the system chooses if it is 0.

    Without `host` on all addresses. Leaving waits up to `shutdown` seconds for requests under way.
    """
    loop = asyncio.get_running_loop()
    runner = web.AppRunner(app, shutdown_timeout=shutdown)
    await runner.setup()
    server = cast("web.Server", runner.server)
    _tolerate_no_url(server)
    connections = Connections(server, bounds)
    try:
        listener = await loop.create_server(connections, host, port)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
            # A client that does not take its answer keeps nobody waiting longer than that.
            loop.call_later(shutdown, connections.abort)
    finally:
        await runner.cleanup()
        connections.abort()


def _tolerate_no_url(server: web.Server) -> None:
    """Read `CONNECT` without a URL as a request for `/`: aiohttp 3 parses it, and then its task fails."""
    make: Callable[..., web.BaseRequest] = server.request_factory

    def made(message: Any, *rest: Any) -> web.BaseRequest:  # noqa: ANN401 - aiohttp's own forms
        return make(message if message.url else message._replace(path="/", url=URL("/")), *rest)

    server.request_factory = made


def operations(
    registry: CollectorRegistry, ready: Checks, alive: Checks = tuple, pages: Pages = NO_PAGES
) -> web.Application:
    """`/healthz`, `/readyz`, `/metrics` and the pages; a probe that fails answers 503 with the reasons."""
    app = application()
    app.router.add_get("/healthz", _probe(alive))
    app.router.add_get("/readyz", _probe(ready))
    app.router.add_get("/metrics", _metrics(registry))
    app.router.add_get("/{page}", _page(pages))
    return app


def _probe(checks: Checks) -> Handler:
    async def handle(_request: web.Request) -> web.Response:
        problems = checks()
        return web.Response(text="\n".join(problems or ["ok"]) + "\n", status=503 if problems else 200)

    return handle


def _metrics(registry: CollectorRegistry) -> Handler:
    page = Page(registry)

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(body=await page.text(), headers={"Content-Type": CONTENT_TYPE})

    return handle


def _page(pages: Pages) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        page = pages.get(request.match_info["page"])
        if page is None:
            raise web.HTTPNotFound
        return web.Response(body=page(), content_type="application/json")

    return handle
