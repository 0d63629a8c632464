"""A stand-in for kubelet's side of the device plugin API, for unit tests; the real one is in tests/cluster."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
from gpuyard.device_plugin import api_pb2, podresources_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PLUGIN = "/v1beta1.DevicePlugin"


class Kubelet:
    """Takes registrations, dials back, and keeps each resource's list of devices as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices: dict[str, dict[str, str]] = {}
        self.zones: dict[str, list[list[int]]] = {}
        self.registrations: list[str] = []
        self.used: dict[str, list[str]] = {}
        self.refuse = False
        self._server: grpc.aio.Server | None = None
        self._endpoints: dict[str, str] = {}
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._told = asyncio.Event()

    async def start(self) -> None:
        """As kubelet does: first the folder is emptied of sockets."""
        for path in self.folder.iterdir():
            if path.is_socket():
                path.unlink()
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self._registration(), self._pod_resources()))
        self._server.add_insecure_port(f"unix:{self.folder / 'kubelet.sock'}")
        await self._server.start()

    async def stop(self) -> None:
        """End all streams and the server."""
        for stream in self._streams.values():
            stream.cancel()
        await asyncio.gather(*self._streams.values(), return_exceptions=True)
        self._streams.clear()
        self.devices.clear()
        if self._server:
            await self._server.stop(None)

    async def until(self, resource: str, devices: dict[str, str]) -> None:
        """Wait until a resource has exactly these devices."""
        async with asyncio.timeout(8):
            while self.devices.get(resource) != devices:
                self._told.clear()
                await self._told.wait()

    async def call(self, resource: str, method: str, request: object, answer: type) -> object:
        """Call the plugin of a resource."""
        async with grpc.aio.insecure_channel(f"unix:{self.folder / self._endpoints[resource]}") as channel:
            stub = channel.unary_unary(
                f"{PLUGIN}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=answer.FromString,  # type: ignore[attr-defined]
            )
            return await stub(request)

    def _registration(self) -> grpc.GenericRpcHandler:  # type: ignore[type-arg]
        return grpc.method_handlers_generic_handler(
            "v1beta1.Registration",
            {
                "Register": grpc.unary_unary_rpc_method_handler(
                    self._register,
                    request_deserializer=api_pb2.RegisterRequest.FromString,
                    response_serializer=api_pb2.Empty.SerializeToString,
                )
            },
        )

    async def _register(self, request: api_pb2.RegisterRequest, context: grpc.aio.ServicerContext) -> api_pb2.Empty:  # type: ignore[type-arg]
        if self.refuse or request.version != "v1beta1" or "/" in request.endpoint:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "refused")
        self.registrations.append(request.resource_name)
        self._endpoints[request.resource_name] = request.endpoint
        channel = grpc.aio.insecure_channel(f"unix:{self.folder / request.endpoint}")
        watch = channel.unary_stream(
            f"{PLUGIN}/ListAndWatch",
            request_serializer=api_pb2.Empty.SerializeToString,
            response_deserializer=api_pb2.ListAndWatchResponse.FromString,
        )
        lists = aiter(watch(api_pb2.Empty()))
        self._note(request.resource_name, await anext(lists))
        self._streams[request.resource_name] = asyncio.create_task(self._follow(request.resource_name, lists, channel))
        return api_pb2.Empty()

    async def _follow(
        self, resource: str, lists: AsyncIterator[api_pb2.ListAndWatchResponse], channel: grpc.aio.Channel
    ) -> None:
        async with channel:
            try:
                async for listed in lists:
                    self._note(resource, listed)
            except grpc.aio.AioRpcError:
                pass
        self.devices.pop(resource, None)
        self._told.set()

    def _note(self, resource: str, listed: api_pb2.ListAndWatchResponse) -> None:
        self.devices[resource] = {device.ID: device.health for device in listed.devices}
        self.zones[resource] = [[node.ID for node in device.topology.nodes] for device in listed.devices]
        self._told.set()

    def _pod_resources(self) -> grpc.GenericRpcHandler:  # type: ignore[type-arg]
        async def listed(_request: object, _context: object) -> podresources_pb2.ListPodResourcesResponse:
            answer = podresources_pb2.ListPodResourcesResponse()
            container = answer.pod_resources.add(name="p", namespace="ns").containers.add(name="c")
            for resource, devices in self.used.items():
                container.devices.add(resource_name=resource, device_ids=devices)
            return answer

        return grpc.method_handlers_generic_handler(
            "v1.PodResourcesLister",
            {
                "List": grpc.unary_unary_rpc_method_handler(
                    listed,
                    request_deserializer=podresources_pb2.ListPodResourcesRequest.FromString,
                    response_serializer=podresources_pb2.ListPodResourcesResponse.SerializeToString,
                )
            },
        )


@asynccontextmanager
async def kubelet_in(folder: Path) -> AsyncIterator[Kubelet]:
    """A running one."""
    kubelet = Kubelet(folder)
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()
