"""All resources of this node: a server for each that the topology offers, kept as the topology says.

A server is never stopped while the process runs: a resource that is no longer offered has no devices.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NoReturn

from gpuyard.common.logs import get_logger
from gpuyard.common.topology.model import Faults, Node
from gpuyard.common.topology.resources import Offer, offers
from gpuyard.device_plugin.server import ResourceServer
from gpuyard.device_plugin.service import Service

POLL = 2.0
log = get_logger()

InUse = Callable[[], Awaitable[dict[str, set[str]] | None]]
Spawn = Callable[[str, ResourceServer], None]


class CrashError(Exception):
    """The fault `crash` was switched on."""


class Plugin:
    """Follows the topology's word on this node."""

    def __init__(self, folder: Path, in_use: InUse, spawn: Spawn, *, visible_devices: bool = False) -> None:
        self.servers: dict[str, ResourceServer] = {}
        self._folder = folder
        self._in_use = in_use
        self._spawn = spawn
        self._visible_devices = visible_devices
        self._wanted: Node | None = None
        self._known = False
        self._news = asyncio.Event()

    def follow(self, node: Node | None) -> None:
        """From now on this; None: the topology does not name the node."""
        if self._known and node is None and self._wanted is None:
            return
        if node is None:
            log.info("node-not-in-topology")
        self._wanted, self._known = node, True
        self._news.set()

    @property
    def problem(self) -> str:
        """Which resources kubelet does not know yet."""
        if not self._known:
            return "the topology has not been read yet"
        faults = self._wanted.hardware.faults if self._wanted else Faults()
        if faults.refuse_register or faults.drop_stream:
            return ""
        return ", ".join(f"{name} is not registered" for name, server in self.servers.items() if not server.registered)

    async def run(self) -> NoReturn:
        """Carry out what `follow` was told, and let devices go when nobody has them.

        Raises:
            CrashError: that fault was switched on.
        """
        crash = True
        while True:
            await self._wait()
            node = self._wanted
            if node is not None and node.hardware.faults.crash and not crash:
                raise CrashError("the fault crash is on for this node")
            # On from the start: this is the restart that the fault asked for.
            crash = node is not None and node.hardware.faults.crash
            await self._carry_out(node)

    async def _wait(self) -> None:
        """Until there is news; while devices leave, look from time to time whether they are free."""
        leaving = any(server.service.inventory.leaving for server in self.servers.values())
        try:
            await asyncio.wait_for(self._news.wait(), POLL if leaving else None)
        except TimeoutError:
            return
        self._news.clear()

    async def _carry_out(self, node: Node | None) -> None:
        wanted = offers(node) if node else {}
        faults = node.hardware.faults if node else Faults()
        used = await self._in_use()
        await self._offer(wanted, faults, used)

    async def _offer(
        self, wanted: Mapping[str, tuple[Offer, ...]], faults: Faults, used: dict[str, set[str]] | None
    ) -> None:
        for name in [*wanted, *(name for name in self.servers if name not in wanted)]:
            new = name not in self.servers
            service = Service(name, visible_devices=self._visible_devices) if new else self.servers[name].service
            service.faults = faults
            changed = _update(service, wanted.get(name, ()), None if used is None else used.get(name, set()))
            if new:
                self.servers[name] = ResourceServer(service, self._folder)
                self._spawn(name, self.servers[name])
            elif changed:
                log.info("devices", resource=name, health=service.inventory.health)
                await service.tell()


def _update(service: Service, wanted: tuple[Offer, ...], used: set[str] | None) -> bool:
    """Bring an inventory up to date; whether kubelet must be told. A device goes a pass after it became unhealthy."""
    inventory = service.inventory
    released = used is not None and not service.open_allocations and inventory.release(used)
    adopted = inventory.adopt(used - {offer.id for offer in wanted}) if used else False
    offered = inventory.offer(wanted)
    return released or adopted or offered
