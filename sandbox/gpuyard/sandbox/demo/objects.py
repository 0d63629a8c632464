"""The objects of the demo as it reads them: only what it tells of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from gpuyard.common.kube.objects import Meta

if TYPE_CHECKING:
    from collections.abc import Sequence

QUEUE_LABEL = "kai.scheduler/queue"
GPU = "nvidia.com/gpu"

_REASONS = re.compile(r"nodes are available: (?P<all>.+?)\.(?: no new claims| preemption|$)")
_REASON = re.compile(r"(?:^|, )\d+ (?P<one>.+?)(?=, \d+ |$)")
_OF_NODES = ("Insufficient", "node(s)", "Too many pods")
"""How kube-scheduler's own reasons begin: the node is full, or not for such pods."""

_ERROR = "SchedulerError"
"""kube-scheduler's reason where it could not decide and tries again by itself: nobody answered it."""


class Resources(msgspec.Struct, frozen=True):
    """`resources` of a container."""

    limits: dict[str, str] | None = None


class Container(msgspec.Struct, frozen=True):
    """A container."""

    resources: Resources = Resources()


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a Pod."""

    containers: tuple[Container, ...] = ()
    node_name: str = ""


class Condition(msgspec.Struct, frozen=True):
    """An entry of `status.conditions`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, frozen=True):
    """`status` of a Pod."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    """v1 Pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def queue(self) -> str:
        """The queue that its label names."""
        return (self.metadata.labels or {}).get(QUEUE_LABEL, "")

    @property
    def gpus(self) -> int:
        """How many GPUs it asks for."""
        return sum(int((one.resources.limits or {}).get(GPU, 0)) for one in self.spec.containers)

    @property
    def leaving(self) -> bool:
        """Whether somebody deleted it."""
        return self.metadata.deletion_timestamp is not None

    @property
    def why_waiting(self) -> str:
        """kube-scheduler's reason, without its counts; empty when it has given none or the pod has a node."""
        conditions = (c for c in self.status.conditions if c.type == "PodScheduled" and c.status == "False")
        said = (c.message for c in conditions if c.reason != _ERROR)
        message = next(said, "")
        found = _REASONS.search(message)
        reasons = _REASON.findall(found["all"]) if found else [message]
        # Nodes that would not do are of no interest where a rule keeps the pod from one that would.
        return ", ".join([one for one in reasons if not one.startswith(_OF_NODES)] or reasons)

    @property
    def decided(self) -> bool:
        """Whether it runs, or kube-scheduler has said why it does not."""
        return self.status.phase != "Pending" if self.spec.node_name else bool(self.why_waiting)


class Bounds(msgspec.Struct, frozen=True):
    """Quota and limit of one resource."""

    quota: float = 0
    limit: float = 0


class QueueResources(msgspec.Struct, frozen=True):
    """`spec.resources` of a Queue."""

    gpu: Bounds = Bounds()


class QueueSpec(msgspec.Struct, frozen=True):
    """`spec` of a Queue."""

    resources: QueueResources = QueueResources()


class Queue(msgspec.Struct, frozen=True):
    """scheduling.run.ai/v2 Queue."""

    metadata: Meta
    spec: QueueSpec = QueueSpec()


class NodeStatus(msgspec.Struct, frozen=True):
    """`status` of a Node."""

    allocatable: dict[str, str] | None = None


class Node(msgspec.Struct, frozen=True):
    """v1 Node."""

    metadata: Meta
    status: NodeStatus = NodeStatus()

    @property
    def gpus(self) -> int:
        """How many GPUs it offers."""
        return int((self.status.allocatable or {}).get(GPU, 0))


class Scene(NamedTuple):
    """How things are."""

    nodes: Sequence[Node]
    queues: Sequence[Queue]
    pods: Sequence[Pod]
