"""Pods, as far as their GPUs go: what each container asks for, what kubelet gave it, and how busy it is to look."""

from collections.abc import Mapping
from datetime import datetime

import msgspec
from gpuyard.common.kube.objects import Meta
from gpuyard.common.topology.resources import is_gpu
from gpuyard.common.topology.utilization import BUSY, IDLE, Span, Utilization, UtilizationError, parse

UTILIZATION = "run.ai/simulated-gpu-utilization"
GROUP = "runai-gpu-group"
PARTS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
INDEX = "runai-gpu"
RESERVED_INDEX = "run.ai/reserve_for_gpu_index"
RESERVATIONS = ("runai-reservation", "kai-resource-reservation")
IDLE_PREFIX = "runai-idle-gpu-"
WORKLOAD_KIND = "workloadKind"
_BY_KIND: Mapping[str, Utilization] = {"TrainingWorkload": Span(80, 100), "InteractiveWorkload": IDLE}


class Resources(msgspec.Struct, frozen=True):
    """What a container asks for."""

    limits: dict[str, str] | None = None
    requests: dict[str, str] | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """A container as written."""

    name: str
    resources: Resources = Resources()
    restart_policy: str = ""

    @property
    def sidecar(self) -> bool:
        """Whether it is an init container that stays."""
        return self.restart_policy == "Always"

    def gpus(self) -> dict[str, int]:
        """How many of which GPU resource."""
        asked = (self.resources.requests or {}) | (self.resources.limits or {})
        return {name: int(count) for name, count in asked.items() if is_gpu(name) and count.isdecimal() and int(count)}


class Running(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a container that runs."""

    started_at: str | None = None


class Told(msgspec.Struct, frozen=True):
    """A state of which only matters that it is told."""


class State(msgspec.Struct, frozen=True):
    """What a container does: one of the three is set."""

    running: Running | None = None
    waiting: Told | None = None
    terminated: Told | None = None


class Given(msgspec.Struct, frozen=True):
    """One device that kubelet gave."""

    resource_id: str = msgspec.field(default="", name="resourceID")


class GivenResource(msgspec.Struct, frozen=True):
    """The devices of one resource that kubelet gave."""

    name: str = ""
    resources: tuple[Given, ...] = ()


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A container as it is."""

    name: str
    state: State = State()
    allocated_resources_status: tuple[GivenResource, ...] = ()


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """What a pod wants."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """How a pod is."""

    phase: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: Meta
    spec: Spec = Spec()
    status: Status = Status()

    @property
    def holds(self) -> bool:
        """Whether it may have devices: it is on a node and has not ended."""
        return bool(self.spec.node_name) and self.status.phase not in {"Succeeded", "Failed"}

    @property
    def age(self) -> tuple[str, str]:
        """The order in which devices are given by rule: the oldest first."""
        return self.metadata.creation_timestamp or "", self.metadata.uid

    @property
    def reservation(self) -> bool:
        """Whether it only keeps a GPU for pods that share it."""
        return self.metadata.namespace in RESERVATIONS

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of pods with which it shares a GPU each: one label, or a label for each of several GPUs."""
        labels = self.metadata.labels or {}
        several = sorted(name.removeprefix(f"{GROUP}/") for name in labels if name.startswith(f"{GROUP}/"))
        return (*filter(None, [labels.get(GROUP)]), *several)

    def annotation(self, name: str) -> str:
        """An annotation's value, or nothing."""
        return (self.metadata.annotations or {}).get(name, "")

    @property
    def concerned(self) -> bool:
        """Whether GPUs have anything to do with it."""
        asks = any(container.gpus() for container in self.spec.containers + self.spec.init_containers)
        return asks or bool(self.groups) or any(self.annotation(hint) for hint in PARTS)

    def status_of(self, container: str) -> ContainerStatus | None:
        """How one of its containers is."""
        every = self.status.container_statuses + self.status.init_container_statuses
        return next((status for status in every if status.name == container), None)

    def started(self, container: str) -> float | None:
        """When a container began to run; None while it does not."""
        if self.status.phase == "Unknown":
            return None
        status = self.status_of(container)
        if status is not None and status.state.running is not None:
            return _seconds(status.state.running.started_at or self.status.start_time)
        told = status is not None and (status.state.waiting is not None or status.state.terminated is not None)
        return None if told or self.status.phase != "Running" else _seconds(self.status.start_time)

    def given(self, container: str) -> dict[str, tuple[str, ...]]:
        """The device ids that kubelet says it gave a container, by resource; in a stable order."""
        status = self.status_of(container)
        found = status.allocated_resources_status if status else ()
        return {each.name: tuple(sorted(g.resource_id for g in each.resources)) for each in found if is_gpu(each.name)}


def _seconds(time: str | None) -> float:
    return datetime.fromisoformat(time).timestamp() if time else 0.0


def utilization(pod: Pod, default: Utilization | None) -> tuple[Utilization, str]:
    """How busy a running pod keeps its GPU, and what is wrong with what was written, if anything."""
    otherwise = _hinted(pod) or default or BUSY
    written = pod.annotation(UTILIZATION)
    if not written:
        return otherwise, ""
    try:
        return parse(written), ""
    except UtilizationError as error:
        return otherwise, f"annotation {UTILIZATION}: {error}; {otherwise} is used instead"


def _hinted(pod: Pod) -> Utilization | None:
    if pod.metadata.name.startswith(IDLE_PREFIX):
        return IDLE
    return _BY_KIND.get((pod.metadata.labels or {}).get(WORKLOAD_KIND, ""))
