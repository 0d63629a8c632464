"""The HTTP side of the verbs: any call is answered with 200, because kube-scheduler reads no other answer.

What goes wrong goes into the answer: `Error` where there is such a field, nobody and nothing where there is none. No
verb but `bind` waits for the API server: between a decision and its reservation nothing else happens.
"""

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from socket import socket
from time import monotonic, perf_counter
from typing import Any, Generic, TypeVar

from gpuyard.common.logs import get_logger
from gpuyard.extender.http.authentication import Gate
from gpuyard.extender.http.connection import Connection, Reply, Route
from gpuyard.extender.http.handshakes import Accepted, Handshakes
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.http.wire import MAX_BODY, Answer, FilterAnswer, Reader, Request, WireError, write

PATH = "/scheduler"
VERBS = ("filter", "prioritize", "preempt", "bind")
MAX_HELD = 4 * MAX_BODY
"""Bytes of unfinished bodies, of all connections together."""

MAX_CONNECTIONS = 256
"""Of connections whose TLS handshake is not over, and of all others, together."""

TELL_AGAIN = 60.0
"""Seconds in which the log names one stranger at most."""

INTERNAL = "internal error of gpuyard; its log says more"

R = TypeVar("R", bound=Request)

log = get_logger()


class Unavailable(Exception):  # noqa: N818 - says what the extender is
    """Nothing can be decided now; `away` tells the caller to look for somebody else."""

    def __init__(self, why: str, *, away: bool = False) -> None:
        super().__init__(why)
        self.away = away


@dataclass(frozen=True)
class Verb(Generic[R]):
    """One verb: how its calls are read, how they are answered, and what is answered when that fails."""

    name: str
    reader: Reader[R]
    answer: Callable[[R], Answer | Awaitable[Answer]]
    failure: Callable[[str], Answer]
    from_memory: bool = True
    """Whether it is answered without waiting for anybody, so that others may well wait for the answer."""


def _refuse_unknown(_: object = None) -> Reply:
    return Reply(write(FilterAnswer(error=f"gpuyard has no such verb; it has {', '.join(VERBS)}")))


_UNKNOWN = Route(_refuse_unknown, _refuse_unknown)


class Server:
    """Serves the verbs."""

    def __init__(self, verbs: Iterable[Verb[Any]], metrics: VerbMetrics, gate: Gate, max_body: int = MAX_BODY) -> None:
        self.routes: Mapping[str, Route] = {f"{PATH}/{verb.name}": _route(verb, metrics) for verb in verbs}
        self.gate = gate
        self.max_body = max_body
        self.max_held = MAX_HELD
        self.max_connections = MAX_CONNECTIONS
        self.held = 0
        self.under_way = 0
        self.closing = False
        self.connections: set[Connection] = set()
        self.handshakes = Handshakes()
        self._empty = asyncio.Event()
        self._tell_after = 0.0

    @asynccontextmanager
    async def listening(
        self, port: int, host: str | None = None, *, tls: ssl.SSLContext | None = None, shutdown: float = 5
    ) -> AsyncIterator[int]:
        """Serve while the context is open; yields the port, which the system chooses if it is 0.

        Without `host` on all addresses. Leaving waits up to `shutdown` seconds for calls under way.
        """
        loop = asyncio.get_running_loop()

        def accepted() -> asyncio.Protocol:
            return Accepted(partial(self._shake, tls)) if tls else Connection(self)

        listener = await loop.create_server(accepted, host, port)
        try:
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
            await self._drain(shutdown)

    def route(self, path: str) -> Route | None:
        """What answers the calls of a path; None: nothing.

        A verb that there is not is answered with 200, too: of any other answer kube-scheduler prints the address, and
        the token in it, into Events.
        """
        return self.routes.get(path) or (_UNKNOWN if path.startswith(f"{PATH}/") else None)

    def came(self, connection: Connection) -> None:
        """Somebody has connected. Of too many the stranger goes who was silent longest, else who came last."""
        self.handshakes.end(connection)
        self.connections.add(connection)
        if len(self.connections) > self.max_connections:
            strangers = [one for one in self.connections if not one.known]
            dropped = min(strangers, key=lambda one: one.heard, default=connection)
            self.connections.discard(dropped)
            dropped.abort()

    def _shake(self, tls: ssl.SSLContext, sock: socket) -> None:
        """Begin a TLS handshake. Of too many connections the oldest goes that has not finished its own."""
        self.handshakes.begin(Connection(self), sock, tls)
        if len(self.handshakes) + len(self.connections) > self.max_connections:
            self.handshakes.drop_oldest()

    def refused(self, address: object, why: str) -> None:
        """A stranger has called: the log names one of many."""
        if (now := monotonic()) >= self._tell_after:
            self._tell_after = now + TELL_AGAIN
            log.warning("caller-refused", address=address, problem=why)

    def left(self) -> None:
        """A connection has ended."""
        if not self.connections:
            self._empty.set()

    async def _drain(self, seconds: float) -> None:
        """Let the calls under way be answered, and nobody ask any more."""
        self.closing = True
        while self.handshakes:
            self.handshakes.drop_oldest()
        for connection in [one for one in self.connections if one.idle]:
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.connections:
                    self._empty.clear()
                    await self._empty.wait()
        for connection in list(self.connections):
            connection.abort()


def _route(verb: Verb[R], metrics: VerbMetrics) -> Route:
    seconds = metrics.seconds.labels(verb.name)
    outcomes = ("answered", "error", "rejected")
    fine, failed, rejected = (metrics.calls.labels(verb.name, outcome) for outcome in outcomes)

    def reply(found: Answer | Exception, started: float) -> Reply:
        if isinstance(found, Exception):
            failed.inc()
            made = Reply(write(verb.failure(str(found))), last=isinstance(found, Unavailable) and found.away)
        else:
            fine.inc()
            made = Reply(write(found))
        seconds.observe(perf_counter() - started)
        return made

    async def later(found: Awaitable[Answer], started: float) -> Reply:
        return reply(await awaited(verb, found), started)

    def answer(body: bytes | None) -> Reply | Awaitable[Reply]:
        started = perf_counter()
        found = decided(verb, body)
        return later(found, started) if isinstance(found, Awaitable) else reply(found, started)

    def refuse(why: str) -> Reply:
        rejected.inc()
        return Reply(write(verb.failure(why)), last=True)

    return Route(answer, refuse, verb.from_memory)


def decided(verb: Verb[R], body: bytes | None) -> Answer | Awaitable[Answer] | Exception:
    """The answer to a call, or what prevents one. No garbage is collected until it is found: that may take long."""
    if body is None:
        return WireError("the body is longer than gpuyard reads")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return verb.answer(verb.reader.read(body))
    except Exception as error:  # noqa: BLE001 - whatever it is, there is an answer
        return _problem(verb, error)
    finally:
        if was_enabled:
            gc.enable()


async def awaited(verb: Verb[R], found: Awaitable[Answer]) -> Answer | Exception:
    """The answer for which somebody else was asked, or what prevents one."""
    try:
        return await found
    except Exception as error:  # noqa: BLE001 - whatever it is, there is an answer
        return _problem(verb, error)


def _problem(verb: Verb[R], error: Exception) -> Exception:
    """What the caller is told of it."""
    if isinstance(error, WireError | Unavailable):
        return error
    log.error("verb-failed", verb=verb.name, exc_info=error)
    return RuntimeError(INTERNAL)
