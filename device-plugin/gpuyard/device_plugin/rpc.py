"""The gRPC services of the device plugin API as tables: a method's path, and the messages on both sides.

Decided in docs/decisions.md: "No generated gRPC stubs".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message
from gpuyard.device_plugin import api_pb2, podresources_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_PLUGIN = "v1beta1.DevicePlugin"
_A = TypeVar("_A", bound=Message)
_UnaryBehavior: TypeAlias = "Callable[[Any, Context], Awaitable[Any]]"


class DevicePlugin(Protocol):
    """What kubelet calls."""

    async def get_options(self, request: api_pb2.Empty, context: Context) -> api_pb2.DevicePluginOptions:
        """Which of the optional calls are wanted."""

    def list_and_watch(self, request: api_pb2.Empty, context: Context) -> AsyncIterator[api_pb2.ListAndWatchResponse]:
        """The whole list of devices, and again on each change."""

    async def get_preferred_allocation(
        self, request: api_pb2.PreferredAllocationRequest, context: Context
    ) -> api_pb2.PreferredAllocationResponse:
        """Which of the available devices to take."""

    async def allocate(self, request: api_pb2.AllocateRequest, context: Context) -> api_pb2.AllocateResponse:
        """What a container needs for its devices."""


def handler(plugin: DevicePlugin) -> grpc.GenericRpcHandler[Any, Any]:
    """The plugin's side of the API, to be added to a server."""
    return grpc.method_handlers_generic_handler(
        _PLUGIN,
        {
            "GetDevicePluginOptions": _unary(plugin.get_options, api_pb2.Empty),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                plugin.list_and_watch,
                request_deserializer=api_pb2.Empty.FromString,
                response_serializer=api_pb2.ListAndWatchResponse.SerializeToString,
            ),
            "GetPreferredAllocation": _unary(plugin.get_preferred_allocation, api_pb2.PreferredAllocationRequest),
            "Allocate": _unary(plugin.allocate, api_pb2.AllocateRequest),
        },
    )


def _unary(behavior: _UnaryBehavior, request: type[Message]) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        behavior,
        request_deserializer=request.FromString,
        response_serializer=_serialized,
    )


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


async def _call(channel: grpc.aio.Channel, path: str, request: Message, answer: type[_A], timeout: float) -> _A:  # noqa: ASYNC109 - gRPC's own
    method = channel.unary_unary(path, request_serializer=_serialized, response_deserializer=answer.FromString)
    found: _A = await method(request, timeout=timeout)
    return found


async def options(channel: grpc.aio.Channel, seconds: float) -> api_pb2.DevicePluginOptions:
    """Ask a plugin for its options."""
    path = f"/{_PLUGIN}/GetDevicePluginOptions"
    return await _call(channel, path, api_pb2.Empty(), api_pb2.DevicePluginOptions, seconds)


async def register(channel: grpc.aio.Channel, request: api_pb2.RegisterRequest, seconds: float) -> None:
    """Tell kubelet of a plugin."""
    await _call(channel, "/v1beta1.Registration/Register", request, api_pb2.Empty, seconds)


async def pod_resources(channel: grpc.aio.Channel, seconds: float) -> podresources_pb2.ListPodResourcesResponse:
    """Ask kubelet which devices its pods have."""
    request, answer = podresources_pb2.ListPodResourcesRequest(), podresources_pb2.ListPodResourcesResponse
    return await _call(channel, "/v1.PodResourcesLister/List", request, answer, seconds)
