"""The Kubernetes objects as the extender sees them: the engine's forms, with versions and a few fields more."""

import msgspec
from gpuyard.engine.kube import objects

LONGEST_VERSION = 20
"""Digits of a version at most: etcd counts in 64 bits."""


def as_version(text: str) -> int:
    """A resourceVersion as a number; 0 for what is none."""
    return int(text) if len(text) <= LONGEST_VERSION and text.isascii() and text.isdecimal() else 0


class Meta(objects.Meta, rename="camel"):
    """`metadata` with the object's version."""

    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`; of a cluster-scoped object its name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name or ""

    @property
    def version(self) -> int:
        """The version as a number: later ones are larger."""
        return as_version(self.resource_version)


class PodCondition(objects.PodCondition, rename="camel"):
    """An entry of a pod's `status.conditions`, with its time."""

    last_transition_time: str | None = None


class PodStatus(objects.PodStatus, rename="camel"):
    """`status` of a Pod with kube-scheduler's word on it."""

    conditions: list[PodCondition] | None = None
    # Nobody here asks which device a container got: passed over, under names that no field has.
    container_statuses: None = msgspec.field(name="(container)", default=None)
    init_container_statuses: None = msgspec.field(name="(init)", default=None)


class Given(msgspec.Struct, frozen=True):
    """Something that is there; what it says does not matter."""


class Volume(msgspec.Struct, rename="camel"):
    """An entry of `spec.volumes`: whether it has to be bound first."""

    persistent_volume_claim: Given | None = None
    ephemeral: Given | None = None


class PodSpec(objects.PodSpec, rename="camel"):
    """`spec` of a Pod with its volumes."""

    volumes: list[Volume] | None = None


class Pod(objects.Pod, kw_only=True):
    """v1 Pod."""

    metadata: Meta
    spec: PodSpec | None = None
    status: PodStatus | None = None

    @property
    def verdict(self) -> str | None:
        """kube-scheduler's message if the last thing that it said is that it found no place."""
        conditions = (self.status.conditions if self.status else None) or ()
        said = (c.message or "" for c in conditions if c.type == "PodScheduled" and c.status == "False")
        return next(said, None)

    @property
    def evicted(self) -> str | None:
        """When it was told to leave for others, or for its node's sake; None: it was not."""
        conditions = (self.status.conditions if self.status else None) or ()
        times = (c.last_transition_time for c in conditions if c.type == "DisruptionTarget" and c.status == "True")
        return next(times, None)

    @property
    def claims_volumes(self) -> bool:
        """Whether binding it may wait for volumes."""
        volumes = (self.spec.volumes if self.spec else None) or ()
        return any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in volumes)


class Node(objects.Node, kw_only=True):
    """v1 Node."""

    metadata: Meta


class Namespace(objects.Namespace, kw_only=True):
    """v1 Namespace."""

    metadata: Meta


class QueueStatus(msgspec.Struct):
    """`status` of a Queue: what was told of it earlier."""

    conditions: list[PodCondition] | None = None


class Queue(objects.Queue, kw_only=True):
    """scheduling.run.ai/v2 Queue."""

    metadata: Meta
    status: QueueStatus | None = None


class PodGroup(objects.PodGroup, kw_only=True):
    """scheduling.run.ai/v2alpha2 PodGroup."""

    metadata: Meta


class OwnerMeta(msgspec.Struct, rename="camel", gc=False):
    """`metadata` of an owner of pods; there may be many thousands, so nothing is kept that nobody asks for."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: objects.Notes | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PodOwner(msgspec.Struct, gc=False):
    """A Job, PyTorchJob, …: how many of its pods must start together."""

    metadata: OwnerMeta
    spec: objects.OwnerSpec | None = None


class PriorityClass(objects.PriorityClass, kw_only=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: Meta


class PodDisruptionBudget(objects.PodDisruptionBudget, kw_only=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: Meta


class Topology(objects.Topology, kw_only=True):
    """kai.scheduler/v1alpha1 Topology."""

    metadata: Meta


class Plan(objects.Plan, kw_only=True):
    """gpuyard.io/v1alpha1 Plan."""

    metadata: Meta
