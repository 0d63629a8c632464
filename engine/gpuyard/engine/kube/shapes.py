"""What a pod asks for: requests, shares of GPUs, where it may stand. Pods of one kind are read once."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from gpuyard.engine.kube import objects, quantity
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.meta import NO_NOTES, read
from gpuyard.engine.kube.quantity import Number
from gpuyard.engine.kube.selectors import standing, tolerations
from gpuyard.engine.model import GPU, Shape

MOST_GPUS = 4096
"""More GPUs on one node, or asked for by one pod, are taken for a mistake."""

_Containers = tuple[objects.Container, ...]

_NULL = b"null"
_NO_RESOURCES = objects.Resources()
_NO_REQUESTS = objects.Requests()


class Need(NamedTuple):
    """Whole GPUs, millicores, bytes."""

    gpus: int = 0
    cpu: int = 0
    memory: int = 0

    def plus(self, other: "Need") -> "Need":
        """The sum of both."""
        return Need(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def at_least(self, other: "Need") -> "Need":
        """The larger of both, resource by resource."""
        return Need(max(self[0], other[0]), max(self[1], other[1]), max(self[2], other[2]))


def shape(spec: objects.PodSpec, notes: objects.Notes | None, complain: Complain, *, parts: bool = True) -> Shape:
    """The shape of a pod, with its part of a GPU if `parts` count (`parts.py`). Equal pods get the same object."""
    selector = spec.node_selector
    found, complaints = _read(
        spec.containers or (),
        spec.init_containers or (),
        spec.overhead,
        tuple(sorted(selector.items())) if selector else (),
        bytes(spec.affinity),
        bytes(spec.tolerations),
        notes or NO_NOTES,
        parts,
    )
    for field, why in complaints:
        complain(field, why)
    return found


def need(init_containers: _Containers, containers: _Containers, complain: Complain) -> Need:
    """What the containers of a pod take together.

    Init containers run one after the other, each beside the sidecars that were started before it; then all main
    containers run beside all sidecars.
    """
    sidecars, peak = Need(), Need()
    for own, container in _each(init_containers, "spec.initContainers", complain):
        if container.restart_policy == "Always":
            sidecars = sidecars.plus(own)
            peak = peak.at_least(sidecars)
        else:
            peak = peak.at_least(sidecars.plus(own))
    running = sidecars
    for own, _ in _each(containers, "spec.containers", complain):
        running = running.plus(own)
    return running.at_least(peak)


@lru_cache(maxsize=1 << 13)
def _read(  # noqa: PLR0913, PLR0917 - all that a shape follows from, hashable
    containers: _Containers,
    init_containers: _Containers,
    overhead: objects.Requests | None,
    selector: tuple[tuple[str, str], ...],
    affinity: bytes,
    tolerated: bytes,
    notes: objects.Notes,
    parts: bool,  # noqa: FBT001 - by position, as the cache takes it quicker
) -> tuple[Shape, tuple[tuple[str, str], ...]]:
    complaints: list[tuple[str, str]] = []

    def complain(field: str, why: str) -> None:
        complaints.append((field, why))

    taken = need(init_containers, containers, complain)
    if overhead is not None:
        taken = taken.plus(_amounts(overhead, _NO_REQUESTS, "spec.overhead", complain))
    place = standing(b"" if affinity == _NULL else affinity, complain)
    # Whole GPUs exclude annotations, whether these have an effect or not.
    counted = notes if parts or taken.gpus else NO_NOTES
    fraction, memory, devices = _shared(counted, taken.gpus, complain)
    if taken.gpus > MOST_GPUS:
        complain("spec.containers", f"ask for {taken.gpus} GPUs, more than {MOST_GPUS}")
    if devices > MOST_GPUS:
        complain("metadata.annotations.gpu-fraction-num-devices", f"asks for {devices} GPUs, more than {MOST_GPUS}")
        devices = 1
    made = Shape(
        gpus=taken.gpus,
        fraction=fraction,
        gpu_memory=memory,
        devices=devices,
        cpu=taken.cpu,
        memory=taken.memory,
        selector=selector,
        affinity=place.affinity,
        preferred=place.preferred,
        pod_affinity=place.pod_affinity,
        pod_anti_affinity=place.pod_anti_affinity,
        tolerations=tolerations(b"" if tolerated == _NULL else tolerated, complain),
    )
    return made, tuple(complaints)


def _each(
    containers: Iterable[objects.Container], field: str, complain: Complain
) -> Iterable[tuple[Need, objects.Container]]:
    for n, container in enumerate(containers):
        has = container.resources or _NO_RESOURCES
        where = f"{field}[{n}].resources"
        yield _amounts(has.requests or _NO_REQUESTS, has.limits or _NO_REQUESTS, where, complain), container


def _amounts(requests: objects.Requests, limits: objects.Requests, field: str, complain: Complain) -> Need:
    def amount(name: str, request: Number | None, limit: Number | None) -> int:
        part, value = ("limits", limit) if request is None else ("requests", request)
        parse = {"nvidia.com/gpu": quantity.count, "cpu": quantity.cpu}.get(name, quantity.size)
        return read(parse, value, f"{field}.{part}.{name}", complain, 0)

    return Need(
        amount("nvidia.com/gpu", requests.gpu, limits.gpu),
        amount("cpu", requests.cpu, limits.cpu),
        amount("memory", requests.memory, limits.memory),
    )


def _shared(notes: objects.Notes, gpus: int, complain: Complain) -> tuple[int, int, int]:
    """(milli-GPUs, MiB, devices) of a pod that asks for shares of GPUs; the three ways to ask exclude each other."""
    fraction = read(_fraction, notes.gpu_fraction, "metadata.annotations.gpu-fraction", complain, 0)
    memory = read(_positive, notes.gpu_memory, "metadata.annotations.gpu-memory", complain, 0)
    devices = read(_positive, notes.num_devices, "metadata.annotations.gpu-fraction-num-devices", complain, 1)
    asked = (("gpu-memory", notes.gpu_memory), ("gpu-fraction", notes.gpu_fraction), ("nvidia.com/gpu", gpus or None))
    ways = [name for name, value in asked if value is not None]
    if len(ways) > 1:
        complain(f"metadata.annotations.{ways[0]}", f"excludes {ways[-1]}: keep one of them")
    if gpus:
        # As far as it can be read: the whole GPUs are what kubelet gives it.
        return 0, 0, 1
    if notes.num_devices is not None and not (fraction or memory):
        complain("metadata.annotations.gpu-fraction-num-devices", "needs gpu-fraction or gpu-memory beside it")
    return fraction, memory, devices


def _fraction(text: str) -> int:
    share = quantity.scaled(text, 3)
    if not 0 < share <= GPU:
        raise ValueError(f"{text!r} is not a share of a GPU from 0.001 to 1")
    return share


def _positive(text: str) -> int:
    number = quantity.count(text)
    if not number:
        raise ValueError(f"{text!r} is not a positive whole number")
    return number
