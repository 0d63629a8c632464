"""The resources that a node offers: which names, and which device ids behind each.

Whoever shows devices to Kubernetes (the device plugin to kubelet, the status updater on KWOK nodes) and whoever
reads them back from pods asks here.
"""

from dataclasses import dataclass, replace

from gpuyard.common.topology.ids import other_id, replica_id
from gpuyard.common.topology.model import Gpu, Hardware, MigStrategy, Node

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"
SHARED = ".shared"


@dataclass(frozen=True, slots=True)
class Offer:
    """One device id of one resource."""

    id: str
    healthy: bool
    zone: int | None = None
    """The NUMA zone of its GPU, where there are zones."""


def offers(node: Node) -> dict[str, tuple[Offer, ...]]:
    """All resources of a node with their devices, in the order of the topology."""
    found: dict[str, list[Offer]] = {gpu_resource(node.hardware): []}
    for gpu in node.gpus:
        for name, offer in _of_gpu(gpu, node.hardware):
            found.setdefault(name, []).extend(_replicas(offer, node.hardware))
    for other in node.hardware.other_devices:
        devices = [Offer(other_id(other.name, n), healthy=True) for n in range(other.count)]
        found[other.name] = found.get(other.name, []) + devices
    return {name: tuple(each) for name, each in found.items()}


def gpu_resource(hardware: Hardware) -> str:
    """The name under which whole GPUs are asked for."""
    return GPU + (SHARED if _renamed(hardware) else "")


def mig_resource(profile: str) -> str:
    """The name of a slice where slices have names of their own; `+me` is written `.me`."""
    return MIG + profile.replace("+", ".")


def is_gpu(resource: str) -> bool:
    """Whether a pod that asks for this asks for a GPU or a slice of one."""
    return resource.removesuffix(SHARED) == GPU or resource.startswith(MIG)


def _of_gpu(gpu: Gpu, hardware: Hardware) -> list[tuple[str, Offer]]:
    suffix = SHARED if _renamed(hardware) else ""
    card = Offer(gpu.id, gpu.healthy, hardware.zone(gpu.index) if gpu.zone is None else gpu.zone)
    if gpu.mig is None or hardware.mig_strategy is MigStrategy.NONE:
        return [(GPU + suffix, card)]
    if hardware.mig_strategy is MigStrategy.SINGLE:
        return [(GPU + suffix, replace(card, id=each.id)) for each in gpu.mig]
    return [(mig_resource(each.profile.name) + suffix, replace(card, id=each.id)) for each in gpu.mig]


def _replicas(offer: Offer, hardware: Hardware) -> list[Offer]:
    sharing = hardware.sharing
    if sharing is None or sharing.replicas == 1:
        return [offer]
    return [replace(offer, id=replica_id(offer.id, n)) for n in range(sharing.replicas)]


def _renamed(hardware: Hardware) -> bool:
    return hardware.sharing is not None and hardware.sharing.rename and hardware.sharing.replicas > 1
