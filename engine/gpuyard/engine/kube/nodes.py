"""A Kubernetes Node as the engine's."""

from gpuyard.engine.kube import objects, quantity
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.meta import labels_of, name_of, read
from gpuyard.engine.kube.shapes import MOST_GPUS
from gpuyard.engine.model import Node, Taint

GPU_MEMORY = "nvidia.com/gpu.memory"
"""The label that says how many MiB one GPU of a node has."""

_HARD, _SOFT = frozenset({"NoSchedule", "NoExecute"}), frozenset({"PreferNoSchedule"})
_NO_SPEC = objects.NodeSpec()
_NO_STATUS = objects.NodeStatus()
_NOTHING = objects.Allocatable()
_NO_CAPACITY = objects.Capacity()


def node(seen: objects.Node, complain: Complain) -> Node:
    """Translate a node; one without a Ready condition counts as ready."""
    spec, status, labels = seen.spec or _NO_SPEC, seen.status or _NO_STATUS, labels_of(seen)
    has, installed = status.allocatable or _NOTHING, (status.capacity or _NO_CAPACITY).gpu
    _check_taints(spec, complain)
    return Node(
        name=name_of(seen),
        gpus=read(_gpus, has.gpu, "status.allocatable.nvidia.com/gpu", complain, 0),
        capacity=read(_gpus, installed, "status.capacity.nvidia.com/gpu", complain, -1),
        cpu=read(quantity.cpu, has.cpu, "status.allocatable.cpu", complain, 0),
        memory=read(quantity.size, has.memory, "status.allocatable.memory", complain, 0),
        pods=read(quantity.count, has.pods, "status.allocatable.pods", complain, 110),
        gpu_memory=read(quantity.count, labels.get(GPU_MEMORY), f"metadata.labels.{GPU_MEMORY}", complain, 0),
        labels=labels,
        taints=_taints(spec, _HARD),
        soft_taints=_taints(spec, _SOFT),
        ready=all(c.status == "True" for c in status.conditions or () if c.type == "Ready"),
        cordoned=bool(spec.unschedulable),
    )


def _gpus(value: quantity.Number) -> int:
    gpus = quantity.count(value)
    if gpus > MOST_GPUS:
        raise ValueError(f"{gpus} GPUs on one node, more than {MOST_GPUS}")
    return gpus


def _check_taints(spec: objects.NodeSpec, complain: Complain) -> None:
    for n, taint in enumerate(spec.taints or ()):
        if taint.effect not in _HARD | _SOFT:
            effects = ", ".join(sorted(_HARD | _SOFT))
            complain(f"spec.taints[{n}].effect", f"{taint.effect!r} is none of {effects}")


def _taints(spec: objects.NodeSpec, effects: frozenset[str]) -> tuple[Taint, ...]:
    return tuple(Taint(t.key, t.value or "", t.effect) for t in spec.taints or () if t.effect in effects)
