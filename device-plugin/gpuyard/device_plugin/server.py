"""One resource's server and its life with kubelet.

             listen, dial ourselves, Register
    ┌──────┐ ─────────────────────────────────▶ ┌────────────┐
    │ AWAY │                                    │ REGISTERED │
    └──────┘ ◀───────────────────────────────── └────────────┘
             our socket is gone · kubelet's socket is new · ListAndWatch ended · a fault wants it

A restarted kubelet empties its folder of sockets and makes its own anew, often with the same inode. Whatever of it
we notice first, the old server ends fully before the new one registers: kubelet would otherwise cut the new stream
with the old one. A start that fails is tried again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import grpc
from gpuyard.common.logs import get_logger
from gpuyard.device_plugin import rpc
from gpuyard.device_plugin.kubelet import PATIENCE, SOCKET, endpoint, fingerprint, register
from gpuyard.device_plugin.service import Service

LOOK = 0.5
RETRY = 1.0
log = get_logger()


class ResourceServer:
    """Serves one resource for as long as it runs; `registered` says whether kubelet knows it."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.registered = False
        self._folder = folder
        self._socket = folder / endpoint(service.resource)

    async def run(self) -> NoReturn:
        """Keep the resource registered until cancelled."""
        problem = ""
        while True:
            try:
                if self._held_back():
                    await asyncio.sleep(LOOK)
                    continue
                await self._once()
                problem = ""
                await asyncio.sleep(LOOK)
            except (grpc.aio.AioRpcError, OSError, RuntimeError, TimeoutError) as error:
                if str(error) != problem:
                    log.warning("not-registered", resource=self.service.resource, reason=_why(error))
                problem = str(error)
                await asyncio.sleep(RETRY)

    def _held_back(self) -> bool:
        return self.service.faults.refuse_register or self.service.faults.drop_stream

    async def _once(self) -> None:
        """From listening to the end of this registration."""
        kubelet = self._folder / SOCKET
        known = fingerprint(kubelet)
        if known is None:
            raise OSError(f"{kubelet} is not there; does kubelet run?")
        async with self._listening():
            await register(self._folder, self.service.resource)
            self.registered = True
            log.info("registered", resource=self.service.resource, devices=len(self.service.inventory.health))
            await self._while_well(known)

    async def _while_well(self, known: tuple[int, int]) -> None:
        while not self._held_back():
            if fingerprint(self._socket) is None or fingerprint(self._folder / SOCKET) != known:
                log.info("kubelet-restarted", resource=self.service.resource)
                return
            try:
                await asyncio.wait_for(self.service.ended.wait(), LOOK)
            except TimeoutError:
                continue
            log.info("stream-ended", resource=self.service.resource)
            return

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        self._socket.unlink(missing_ok=True)
        self.service.ended = asyncio.Event()
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((rpc.handler(self.service),))
        server.add_insecure_port(f"unix:{self._socket}")
        await server.start()
        try:
            await self._dial()
            yield
        finally:
            self.registered = False
            await server.stop(grace=None)
            self._socket.unlink(missing_ok=True)

    async def _dial(self) -> None:
        """Kubelet dials back inside Register: whether that will work is better known before."""
        async with grpc.aio.insecure_channel(f"unix:{self._socket}") as channel:
            await rpc.options(channel, PATIENCE)


def _why(error: Exception) -> str:
    return error.details() or str(error.code()) if isinstance(error, grpc.aio.AioRpcError) else str(error)
