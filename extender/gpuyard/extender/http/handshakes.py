"""TLS handshakes under way. They count as connections from the moment the caller has connected.

asyncio reports a TLS connection only after its handshake; before, nobody could count or drop it. So the port accepts
without TLS, and each socket is then handed to asyncio again, with TLS.

Decided in docs/decisions.md: "A TLS handshake counts as a connection".
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from socket import SHUT_RDWR, socket

HANDSHAKE = 10.0
"""Seconds that a handshake may take."""


class Accepted(asyncio.Protocol):
    """Takes the socket of a new connection away from asyncio, before anything is read from it."""

    def __init__(self, accepted: Callable[[socket], None]) -> None:
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        # The transport closes its own descriptor; the connection lives on with the copy.
        try:
            sock: socket = transport.get_extra_info("socket").dup()
        finally:
            transport.abort()  # type: ignore[attr-defined]
        self._accepted(sock)


class Handshakes:
    """The handshakes under way, the oldest first."""

    def __init__(self) -> None:
        self._sockets: dict[asyncio.Protocol, socket] = {}
        self._tasks = set[asyncio.Task[None]]()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._sockets)

    def begin(self, protocol: asyncio.Protocol, sock: socket, tls: ssl.SSLContext) -> None:
        """Start one; `protocol` is connected when it succeeds."""
        self._sockets[protocol] = sock
        task = asyncio.create_task(self._run(protocol, sock, tls))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self, protocol: asyncio.Protocol) -> None:
        """The handshake of this protocol, if it had one, is over."""
        self._sockets.pop(protocol, None)

    def drop_oldest(self) -> None:
        """End the oldest handshake without success."""
        # Shut down, it fails at whatever point it is; asyncio then closes it.
        with suppress(OSError):
            self._sockets.pop(next(iter(self._sockets))).shutdown(SHUT_RDWR)

    async def _run(self, protocol: asyncio.Protocol, sock: socket, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            with suppress(OSError):  # ssl.SSLError and TimeoutError are among them: this caller is not let in
                await loop.connect_accepted_socket(lambda: protocol, sock, ssl=tls, ssl_handshake_timeout=HANDSHAKE)
        finally:
            self.end(protocol)
