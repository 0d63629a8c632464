"""A server with two paths, and callers who speak to it byte by byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from gpuyard.extender.http.authentication import Gate
from gpuyard.extender.http.connection import Reply, Route
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.http.server import Server
from prometheus_client import CollectorRegistry

if TYPE_CHECKING:
    from gpuyard.common.extender_config import Authentication

LIMIT = 1000

SILENCE = 0.2


def length(body: bytes | None) -> Reply:
    """How long the body is."""
    return Reply(b"too long" if body is None else b"%d" % len(body))


def no(why: str) -> Reply:
    """What a caller is answered who is not heard."""
    return Reply(b"refused: " + why.encode(), last=True)


class Place:
    """A server with one path that answers from memory, and one that waits until it is let go."""

    def __init__(self) -> None:
        self.mode: Authentication = "none"
        self.gate = Gate(lambda: self.mode)
        self.server = Server([], VerbMetrics(CollectorRegistry()), self.gate, LIMIT)
        self.go = asyncio.Event()
        self.brought_to_its_end = asyncio.Event()
        self.server.routes = {"/length": Route(length, no), "/later": Route(self.later, no, from_memory=False)}

    def later(self, body: bytes | None) -> Awaitable[Reply]:
        async def answer() -> Reply:
            await self.go.wait()
            self.brought_to_its_end.set()
            return Reply(b"later " + (body or b""))

        return answer()


class Caller:
    """Writes bytes, and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, *pieces: bytes) -> None:
        """Send these, each in a packet of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.01)

    async def heard(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers, body."""
        async with asyncio.timeout(10):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            status, *lines = head.strip().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            return int(status.split()[1]), headers, await self.reader.readexactly(int(headers.get("Content-Length", 0)))

    async def is_left(self) -> bool:
        """Whether the server has closed the connection, with nothing more to say."""
        async with asyncio.timeout(10):
            return await self.reader.read() == b""


@asynccontextmanager
async def calling(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Caller]:
    """A caller; with `tls` its handshake is over."""
    name = "server.example" if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    yield Caller(reader, writer)
    writer.close()


def call(path: str = "/length", body: bytes = b"abc", *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: gpuyard", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)
