"""What kubelet asks a device plugin, answered for one resource."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from typing import Never

import grpc
from gpuyard.common.logs import get_logger
from gpuyard.common.topology.ids import physical_id
from gpuyard.common.topology.model import Faults
from gpuyard.device_plugin import api_pb2
from gpuyard.device_plugin.inventory import Device, Inventory, preferred
from gpuyard.device_plugin.rpc import Context

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
OPTIONS = api_pb2.DevicePluginOptions(get_preferred_allocation_available=True)
log = get_logger()


class Service:
    """Tells kubelet the devices of one resource and hands them out."""

    def __init__(self, resource: str, *, visible_devices: bool = False) -> None:
        self.resource = resource
        self.inventory = Inventory()
        self.faults = Faults()
        self.open_allocations = 0
        self.ended = asyncio.Event()
        self._visible_devices = visible_devices
        self._news = asyncio.Condition()

    async def tell(self) -> None:
        """Send the list again to whoever watches."""
        async with self._news:
            self._news.notify_all()

    async def get_options(self, _request: api_pb2.Empty, _context: Context) -> api_pb2.DevicePluginOptions:
        """We have preferences, and no call before a container's start."""
        return OPTIONS

    async def list_and_watch(
        self, _request: api_pb2.Empty, _context: Context
    ) -> AsyncIterator[api_pb2.ListAndWatchResponse]:
        """The whole list at once, and again on each change. `ended` is set when kubelet goes away."""
        # Of this registration: an old stream may end after the next one has begun.
        ended = self.ended
        try:
            while True:
                told = self.inventory.devices
                yield _listed(told)
                async with self._news:
                    await self._news.wait_for(partial(self._differ_from, told))
        finally:
            ended.set()

    async def get_preferred_allocation(
        self, request: api_pb2.PreferredAllocationRequest, context: Context
    ) -> api_pb2.PreferredAllocationResponse:
        """The lowest free index; what must be included comes first."""
        answer = api_pb2.PreferredAllocationResponse()
        order = list(self.inventory.health)
        for asked in request.container_requests:
            try:
                chosen = preferred(
                    asked.available_deviceIDs, asked.must_include_deviceIDs, asked.allocation_size, order
                )
            except ValueError as error:
                await _refuse(context, f"{self.resource}: {error}")
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    async def allocate(self, request: api_pb2.AllocateRequest, context: Context) -> api_pb2.AllocateResponse:
        """One answer per container, empty as a rule: there is no device to give. An unknown id is refused by name."""
        self.open_allocations += 1
        try:
            await asyncio.sleep(self.faults.slow_allocate)
            if self.faults.allocate_error:
                await _refuse(context, f"{self.resource}: the fault allocate-error is on for this node")
            return await self._allocated(request, context)
        finally:
            self.open_allocations -= 1

    async def _allocated(self, request: api_pb2.AllocateRequest, context: Context) -> api_pb2.AllocateResponse:
        known = self.inventory.health
        answer = api_pb2.AllocateResponse()
        for asked in request.container_requests:
            if unknown := [device for device in asked.devices_ids if device not in known]:
                await _refuse(context, f"{self.resource}: no device {unknown[0]!r} on this node")
            answer.container_responses.add(envs=self._variables(asked.devices_ids))
            log.info("allocated", resource=self.resource, devices=list(asked.devices_ids))
        return answer

    def _variables(self, devices: Iterable[str]) -> Mapping[str, str]:
        if not self._visible_devices:
            return {}
        return {VISIBLE: ",".join(dict.fromkeys(physical_id(device) for device in devices))}

    def _differ_from(self, told: list[Device]) -> bool:
        return self.inventory.devices != told


def _listed(devices: Iterable[Device]) -> api_pb2.ListAndWatchResponse:
    return api_pb2.ListAndWatchResponse(devices=[_device(device) for device in devices])


def _device(device: Device) -> api_pb2.Device:
    zone = None if device.zone is None else api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=device.zone)])
    return api_pb2.Device(ID=device.id, health=device.health, topology=zone)


async def _refuse(context: Context, reason: str) -> Never:
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
    raise AssertionError("abort does not return")
