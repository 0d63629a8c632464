"""kubelet's side: where its sockets are, how it is told of a plugin, and which devices its pods have.

Decided in docs/decisions.md: "The device plugin asks kubelet, not the API server, which devices are in use".
"""

from collections.abc import Iterable
from pathlib import Path

import grpc
from gpuyard.device_plugin import api_pb2, podresources_pb2, rpc
from gpuyard.device_plugin.service import OPTIONS

VERSION = "v1beta1"
FOLDER = Path("/var/lib/kubelet/device-plugins")
POD_RESOURCES = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
SOCKET = "kubelet.sock"
PATIENCE = 5.0

# Short names are shown as they are; a resource's domain makes the others unique.
_NVIDIA = "nvidia.com/"


def endpoint(resource: str) -> str:
    """The name of a resource's socket: `nvidia-gpu.sock`, `example.com-x.sock`."""
    short = f"nvidia-{resource.removeprefix(_NVIDIA)}" if resource.startswith(_NVIDIA) else resource
    return f"{short.replace('/', '-')}.sock"


def fingerprint(path: Path) -> tuple[int, int] | None:
    """What changes when a socket is made anew, even if it gets the same inode; None while there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


async def register(folder: Path, resource: str) -> None:
    """Tell kubelet of a resource; it dials our socket before it answers.

    Raises:
        grpc.aio.AioRpcError: kubelet is not there, or refuses.
    """
    async with grpc.aio.insecure_channel(f"unix:{folder / SOCKET}") as channel:
        request = api_pb2.RegisterRequest(
            version=VERSION, endpoint=endpoint(resource), resource_name=resource, options=OPTIONS
        )
        await rpc.register(channel, request, PATIENCE)


async def in_use(socket: Path) -> dict[str, set[str]] | None:
    """The device ids that pods have, by resource; None when kubelet does not say."""
    if fingerprint(socket) is None:
        return None
    try:
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            listed = await rpc.pod_resources(channel, PATIENCE)
    except grpc.aio.AioRpcError:
        return None
    return by_resource(listed.pod_resources)


def by_resource(pods: Iterable[podresources_pb2.PodResources]) -> dict[str, set[str]]:
    """Device ids by resource, over all containers of all pods."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        for container in pod.containers:
            for devices in container.devices:
                found.setdefault(devices.resource_name, set()).update(devices.device_ids)
    return found
