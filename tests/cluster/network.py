"""A network between a client and the API server that can be cut or fall silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Link:
    """Passes TCP connections on to one port. `cut` ends and refuses them; `hush` keeps them and passes nothing on."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def join(self) -> None:
        """Pass connections on, as at first."""
        self._flowing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        if self._server:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()

    def hush(self) -> None:
        self._flowing.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._open |= {writer, back}
        try:
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        except OSError:
            pass
        finally:
            self._open -= {writer, back}
            writer.transport.abort()
            back.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            await self._flowing.wait()
            sink.write(data)
            await sink.drain()
        sink.transport.abort()


@asynccontextmanager
async def linked(target: int) -> AsyncIterator[Link]:
    link = Link(target)
    await link.join()
    try:
        yield link
    finally:
        link.cut()
        link.hush()
        await asyncio.sleep(0.05)
