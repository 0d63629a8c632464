"""Clients of a port on loopback that send and read as slowly as a test wants."""

import asyncio
import socket
from contextlib import AsyncExitStack, suppress

AT_ONCE = 5.0
"""Seconds that count as at once on a busy machine: half of the shortest time limit of a port."""


class Client:
    """One connection to a port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.was_reset = False
        """Whether the port dropped the connection, with what the kernel still had for it."""

    async def say(self, *pieces: bytes, every: float = 0) -> None:
        """Send pieces, with a pause after each, until all are sent or the port has closed the connection."""
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

    async def rest(self) -> int:
        """How many bytes come until the port closes the connection."""
        found = 0
        async with asyncio.timeout(AT_ONCE):
            try:
                while piece := await self.reader.read(1 << 20):
                    found += len(piece)
            except ConnectionError:
                self.was_reset = True
        return found

    async def trickle(self, seconds: float, every: float) -> int:
        """Read up to a KiB at a time, with pauses, for so long; returns how many bytes."""
        found, loop = 0, asyncio.get_running_loop()
        end = loop.time() + seconds
        with suppress(ConnectionError):
            while loop.time() < end:
                found += len(await self.reader.read(1024))
                await asyncio.sleep(every)
        return found

    async def is_open(self) -> bool:
        """Whether the port holds the connection, on which no answer is due."""
        try:
            async with asyncio.timeout(0.1):
                return await self.reader.read(1) != b""
        except ConnectionError:
            return False
        except TimeoutError:
            return True


class Clients(AsyncExitStack):
    """Connections that end with the test."""

    async def join(self, port: int) -> Client:
        """Connect; the kernel takes little for a client that does not read."""
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=4096)
        self.callback(writer.close)
        return Client(reader, writer)

    async def ask(self, port: int, request: bytes) -> Client:
        """Connect and send."""
        client = await self.join(port)
        await client.say(request)
        return client
