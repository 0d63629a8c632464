"""What clients of a port can hold is bounded, and bounds on some leave the port open for the others."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from aiohttp import web
from gpuyard.common.connections import KEEP_ALIVE, MAX_CONNECTIONS, MAX_REQUEST, Bounds
from gpuyard.common.http import application, listening, operations
from gpuyard.common.metrics import new_registry

ASKED = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = ASKED[:20]
LARGE = 16 << 20
"""Bytes of a page that no kernel takes at once for a client that does not read."""

AT_ONCE = 2.0
"""Seconds that count as at once on a busy machine; the time limits of the port are longer."""


class Client:
    """One connection to a port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, *pieces: bytes, every: float = 0) -> None:
        """Send pieces, with pauses between them, until all are sent or the port has closed the connection."""
        with suppress(ConnectionError):
            for piece in pieces:
                self.writer.write(piece)
                await self.writer.drain()
                await asyncio.sleep(every)

    async def answer(self) -> bytes:
        """The body of the next answer."""
        async with asyncio.timeout(AT_ONCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            return await self.reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))

    async def left_after(self) -> float:
        """Seconds until the port closes the connection."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with asyncio.timeout(10):
            with suppress(ConnectionError):
                while await self.reader.read(1 << 16):
                    pass
        return loop.time() - begun

    async def is_open(self) -> bool:
        """Whether the port still holds the connection, which has nothing to read."""
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(0.05):
                await self.reader.read(1)
            return False
        return not self.reader.at_eof() and self.reader.exception() is None


Connect = Callable[[int], AsyncIterator[Client]]


class Clients(AsyncExitStack):
    """Connections that end with the test."""

    async def join(self, port: int, count: int = 1, *, buffer: int = 0) -> list[Client]:
        """Connect so many; with `buffer` the kernel takes about so much for a client that does not read."""
        return [await self._one(port, buffer) for _ in range(count)]

    async def _one(self, port: int, buffer: int) -> Client:
        sock = socket.socket()
        sock.setblocking(False)  # noqa: FBT003
        if buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
        self.callback(writer.close)
        return Client(reader, writer)


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with Clients() as made:
        yield made
