"""The connections of a port that aiohttp serves, with bounds on what strangers can hold: each, and all together.

           first byte               last byte               written            part of the answer is not taken
    ┌──────┐ ───────▶ ┌──────────┐ ───────▶ ┌───────────┐ ───────▶ IDLE   ┌────────┐
    │ IDLE │          │ ARRIVING │          │ ANSWERING │ ──────────────▶ │ TAKING │ ──all is taken──▶ IDLE
    └──────┘          └──────────┘          └───────────┘                 └────────┘

IDLE, ARRIVING and TAKING each have a time limit, which further bytes do not extend. When there are too many
connections, one of these is closed for the new one. One that is ANSWERING waits for this process, and is left alone.

aiohttp sees to lines of a head (8 KiB), its fields (128 of 8 KiB) and idle connections. Total times, the number of
connections and the bytes of all of them are bounded here. Decided in docs/decisions.md: "Ports for metrics stay with
aiohttp, whose connection is subclassed".
"""

import asyncio
import logging
from enum import Enum
from socket import SO_LINGER, SO_SNDBUF, SOL_SOCKET
from struct import pack
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from aiohttp import StreamReader, web

if TYPE_CHECKING:
    from collections.abc import Callable

KEEP_ALIVE = 120.0
"""Seconds that a connection may be idle. Go clients end theirs after 90, so it is never us who close one in use."""

MAX_CONNECTIONS = 64
"""Connections of one port. Prometheus and kubelet need a handful."""

MAX_REQUEST = 16 << 10
"""Bytes of one request, head and body together. A scrape has some 300, and no body."""

ARRIVES_WITHIN = 10.0
"""Seconds in which a whole request has to arrive, from its first byte on."""

TAKEN_WITHIN = 30.0
"""Seconds in which a client has to take a whole answer. Prometheus gives up after ten, unless it is set otherwise."""

MAX_UNTAKEN = 16 << 20
"""Bytes of answers that clients have not taken yet, of all connections together. A single answer may be longer."""

SEND_BUFFER = 64 << 10
"""Bytes of an answer that the kernel keeps for each connection, doubled by Linux; without a bound some megabytes."""

MAX_PIPELINED = 2
"""Requests of one connection that may wait to be answered: clients that we know of wait for one answer at a time."""

SILENT = logging.getLogger(f"{__name__}.silent")
"""aiohttp's logger for requests: it would log a traceback with the caller's bytes for each malformed one."""

SILENT.disabled = True


class Bounds(NamedTuple):
    """What the clients of one port may hold."""

    connections: int = MAX_CONNECTIONS
    request: int = MAX_REQUEST
    untaken: int = MAX_UNTAKEN
    idle: float = KEEP_ALIVE
    arrives: float = ARRIVES_WITHIN
    taken: float = TAKEN_WITHIN


BOUNDS = Bounds()


class Phase(Enum):
    """What a connection waits for."""

    IDLE = "the next request"
    ARRIVING = "the rest of a request"
    ANSWERING = "our answer"
    TAKING = "the client, to take the answer"


class Connections:
    """The open connections of one port; called, it makes the next one."""

    def __init__(self, server: web.Server, bounds: Bounds) -> None:
        self.open: set[Connection] = set()
        self.bounds = bounds
        self._server = server
        self._make: Callable[..., web.BaseRequest] = server.request_factory
        server.request_factory = self._request

    def __call__(self) -> "Connection":
        """Make the protocol of a new connection."""
        return Connection(self, self._server)

    def came(self, new: "Connection") -> None:
        """Let a connection in. Of too many the one goes that has waited longest for its client, else the new one."""
        others = [one for one in self.open if one.phase is not Phase.ANSWERING]
        self.open.add(new)
        if len(self.open) > self.bounds.connections:
            # Clients lose nothing with an idle connection, but part of an answer with one that they read from.
            min(others, key=lambda one: (one.phase is Phase.TAKING, one.since), default=new).abort()

    def limit_untaken(self) -> None:
        """Drop the answers that have waited longest for their clients, until the others keep to the bound."""
        waiting = sorted((one for one in self.open if one.phase is Phase.TAKING), key=lambda one: one.since)
        while len(waiting) > 1 and sum(one.untaken for one in waiting) > self.bounds.untaken:
            waiting.pop(0).abort()

    def abort(self) -> None:
        """Drop all that are left."""
        for one in list(self.open):
            one.abort()

    def _request(
        self,
        message: Any,  # noqa: ANN401 - aiohttp's own forms, here and below
        payload: StreamReader,
        connection: web.RequestHandler,
        *rest: Any,  # noqa: ANN401
    ) -> web.BaseRequest:
        cast("Connection", connection).begin(payload)
        return self._make(message, payload, connection, *rest)


class Connection(web.RequestHandler):
    """aiohttp's connection, and what it waits for since when."""

    _wire: asyncio.Transport

    def __init__(self, port: Connections, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=port.bounds.idle,
            logger=SILENT,
            access_log=SILENT,
            # A client whose body nobody wants is answered and left. Nothing is unpacked, however short it is packed.
            lingering_time=0,
            auto_decompress=False,
        )
        self._port = port
        self._limits = {Phase.ARRIVING: port.bounds.arrives, Phase.TAKING: port.bounds.taken}
        self._timer: asyncio.TimerHandle | None = None
        self._held = 0
        """Bytes that have come since the last answer."""
        self.phase = Phase.IDLE
        self.since = self._loop.time()

    @property
    def untaken(self) -> int:
        """Bytes of the answer that the client has not taken."""
        return self._wire.get_write_buffer_size()

    def abort(self) -> None:
        """Drop it at once, with all that is on its way."""
        self._port.open.discard(self)
        # Else the kernel would go on to offer what it has of the answer.
        self._wire.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
        self._wire.abort()

    def begin(self, payload: StreamReader) -> None:
        """The head of a request is complete."""
        if self.phase is not Phase.ARRIVING:
            self._enter(Phase.ARRIVING)
        payload.on_eof(self._arrived)

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        self._wire = cast("asyncio.Transport", transport)
        # An answer is over only when the client has taken all of it: then none is left behind in a closed connection.
        self._wire.set_write_buffer_limits(0)
        self._wire.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, SEND_BUFFER)
        super().connection_made(transport)
        self._port.came(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """It has ended."""
        self._enter(Phase.IDLE)
        self._port.open.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes have come; aiohttp itself calls it without any."""
        if data and self.phase is Phase.IDLE:
            self._enter(Phase.ARRIVING)
        self._held += len(data)
        if self._held > self._port.bounds.request:
            self.abort()
            return
        super().data_received(data)
        if len(self._messages) > MAX_PIPELINED:
            self.abort()

    def pause_writing(self) -> None:
        """Part of the answer is not taken."""
        super().pause_writing()
        if self.phase is Phase.ANSWERING:
            self._enter(Phase.TAKING)
            self._port.limit_untaken()

    # --- what aiohttp calls ---

    def log_access(self, request: web.BaseRequest, response: web.StreamResponse, time: float | None) -> None:
        """An answer is over: all of it has been taken, or the client is gone."""
        super().log_access(request, response, time)
        self._held = 0
        self._enter(Phase.IDLE)

    def _arrived(self) -> None:
        if self.phase is Phase.ARRIVING:
            self._enter(Phase.ANSWERING)

    def _enter(self, phase: Phase) -> None:
        self.phase, self.since = phase, self._loop.time()
        if self._timer is not None:
            self._timer.cancel()
        limit = self._limits.get(phase)
        self._timer = None if limit is None else self._loop.call_later(limit, self.abort)
