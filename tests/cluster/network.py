"""A network between a client and the API server that can be cut or fall silent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def background(part: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run something beside the test; it has ended when the test goes on."""
    task = asyncio.create_task(part)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


class Link:
    """Passes TCP connections on to one port. `cut` ends and refuses them; `hush` keeps them and passes nothing on."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def join(self) -> None:
        """Pass connections on, as at first."""
        self._flowing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server:
            self._server.close()
            self._server = None
        for task in self._passing:
            task.cancel()
        if self._passing:
            await asyncio.wait(self._passing)

    def hush(self) -> None:
        self._flowing.clear()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), aborted(writer):
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            with aborted(back):
                await asyncio.gather(self._pass(reader, back), self._pass(there, writer))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            await self._flowing.wait()
            sink.write(data)
            await sink.drain()
        sink.transport.abort()


@contextlib.contextmanager
def aborted(writer: asyncio.StreamWriter) -> Iterator[None]:
    try:
        yield
    finally:
        writer.transport.abort()


@asynccontextmanager
async def linked(target: int) -> AsyncIterator[Link]:
    link = Link(target)
    await link.join()
    try:
        yield link
    finally:
        await link.cut()
