"""The values the engine decides about: nodes, queues, workloads and their pods.

Every type is immutable and every quantity an integer: milli-GPUs, MiB of GPU memory, millicores, bytes, seconds.
Nothing here decides anything; the readers (`gpuyard.engine.kube`, the extender's ledger) fill these types,
`snapshot.Snapshot` holds them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

UNLIMITED = -1
"""A quota or limit without bound; it counts as larger than any number."""

GPU = 1000
"""One whole GPU in milli-GPUs."""

SCALE = 1_000_000
"""One, for weights, usage and the other ratios that are kept as scaled integers."""

MOST_LEVELS = 32
"""Of queues and of sub-groups, one below the other: nobody has more, and the engine walks them by recursion."""

STUCK_AFTER = 120
"""A pod that should have been gone for longer than these seconds gives its place back to nobody."""


class Amounts(NamedTuple):
    """How much of each resource that queues share: milli-GPUs, millicores, bytes."""

    gpu: int = 0
    cpu: int = 0
    memory: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        """The sum, resource by resource."""
        return Amounts(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def minus(self, other: "Amounts") -> "Amounts":
        """The difference, resource by resource."""
        return Amounts(self[0] - other[0], self[1] - other[1], self[2] - other[2])

    def times(self, count: int) -> "Amounts":
        """So many times as much."""
        return Amounts(self[0] * count, self[1] * count, self[2] * count)


NOTHING = Amounts()
NO_BOUND = Amounts(UNLIMITED, UNLIMITED, UNLIMITED)
RESOURCES = Amounts._fields

Labels = Mapping[str, str]
NO_LABELS: Labels = {}


# --- queues


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as configured; amounts per resource, `UNLIMITED` allowed in `quota` and `limit`, weights in `SCALE`."""

    name: str
    parent: str = ""
    priority: int = 100
    quota: Amounts = NOTHING
    limit: Amounts = NOTHING
    weight: Amounts = Amounts(SCALE, SCALE, SCALE)
    unset: tuple[str, ...] = ()
    """The bounds that count as 0 because nobody set them, as `gpu.limit`."""
    created: int = 0
    preempt_min_runtime: int | None = None
    reclaim_min_runtime: int | None = None
    display: str = ""


# --- nodes


class Taint(NamedTuple):
    """A taint that keeps pods away, or with `PreferNoSchedule` would rather."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node: what it offers now (`gpus`, `cpu`, …) and what it counts for in shares (`stable_gpus`)."""

    name: str
    gpus: int = 0
    stable_gpus: int = -1
    """The last stable count; -1: as `gpus`. Larger than `gpus` means a dip: it counts, but nothing is placed there."""
    capacity: int = -1
    """The GPUs of `status.capacity`, of which `gpus` are allocatable; -1: not known, taken for as many."""
    cpu: int = 0
    memory: int = 0
    pods: int = 110
    gpu_memory: int = 0
    """MiB of one GPU; 0: not known, requests in GPU memory do not fit."""
    labels: Labels = NO_LABELS
    taints: tuple[Taint, ...] = ()
    """Those that keep pods away."""
    soft_taints: tuple[Taint, ...] = ()
    """Those with `PreferNoSchedule`: of no account for room, only for kube-scheduler's choice."""
    ready: bool = True
    cordoned: bool = False

    @property
    def dips(self) -> bool:
        """Whether it reports fewer GPUs than it had a moment ago."""
        return self.stable_gpus > self.gpus

    @property
    def all_allocatable(self) -> bool:
        """Whether each GPU of the node can be given to a pod."""
        return self.capacity in (-1, self.gpus)

    @property
    def counts(self) -> bool:
        """Whether its capacity counts for the shares of the queues."""
        return self.ready or self.dips

    @property
    def open(self) -> bool:
        """Whether pods may be placed there at all."""
        return self.ready and not self.cordoned and not self.dips


class Topology(msgspec.Struct, frozen=True):
    """A tree of domains: node labels, the widest level first."""

    name: str
    levels: tuple[str, ...]


# --- what a pod asks for


class Requirement(NamedTuple):
    """One expression over labels: `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeTerm(NamedTuple):
    """Node affinity: all the requirements on labels and on the node's name hold together."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()
    """Requirements on the field `metadata.name`."""


class PreferredNodes(NamedTuple):
    """A node affinity that is a wish, with its weight of 1 to 100."""

    weight: int
    term: NodeTerm


class PodTerm(NamedTuple):
    """Pod (anti-)affinity: pods that match, counted within a domain of nodes with equal `topology_key`."""

    topology_key: str
    selector: tuple[Requirement, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Empty: the pod's own namespace; `*`: every namespace."""
    weight: int = 0
    """0: required; otherwise a wish."""


class Toleration(NamedTuple):
    """A toleration; empty key with `Exists` tolerates everything, empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Shape(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What one pod asks for and where it may stand. Readers give pods of one kind one and the same Shape.

    Of the GPU requests only one is set: `gpus` whole ones, or `fraction` (milli-GPUs), or `gpu_memory` (MiB), the last
    two on each of `devices` GPUs of one node.
    """

    gpus: int = 0
    fraction: int = 0
    gpu_memory: int = 0
    devices: int = 1
    cpu: int = 0
    memory: int = 0
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[NodeTerm, ...] = ()
    """One of them must hold; none: anywhere."""
    preferred: tuple[PreferredNodes, ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether it asks for parts of GPUs."""
        return bool(self.fraction or self.gpu_memory)

    @property
    def wants_gpu(self) -> bool:
        """Whether it asks for any GPU at all."""
        return bool(self.gpus or self.fraction or self.gpu_memory)


# --- pods and workloads


class State(StrEnum):
    """Where a pod is in its life, as the input says."""

    PENDING = "Pending"
    BOUND = "Bound"
    RUNNING = "Running"
    TERMINATING = "Terminating"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod. `workload` is empty for a pod that is not governed: it only uses up what it holds."""

    key: str
    """`namespace/name`."""
    uid: str = ""
    workload: str = ""
    group: str = ""
    """Its sub-group in the gang; empty: the only one."""
    shape: Shape
    state: State = State.PENDING
    node: str = ""
    gated: bool = False
    """A pod with scheduling gates does not exist yet."""
    created: int = 0
    started: int | None = None
    deleted_at: int | None = None
    """When it should be gone, for a terminating pod."""
    nominated: str = ""
    """The node of `status.nominatedNodeName`: a standing promise of kube-scheduler."""
    task_priority: int = 0
    leader: bool = False
    """Master or launcher: first to start, last to go."""
    gpu_groups: tuple[str, ...] = ()
    """The shared GPUs it stands on, by their names on the node. A pod that asks for no part of a GPU keeps its group's
    GPU for the pods that do."""
    devices: tuple[int, ...] = ()
    """The indices of its GPUs on the node, where known."""
    owner: str = ""
    """UID of the owner that replaces it under a new name; empty for pods that keep their name (bare, StatefulSet)."""
    bare: bool = False
    """Whether it has no owner at all, so that no controller replaces it."""
    labels: Labels = NO_LABELS
    spreads: bool = False
    """Whether it would rather be spread over a topology (`ScheduleAnyway`)."""

    @property
    def prefers(self) -> bool:
        """Whether it says itself which of the nodes that it may have it would rather have."""
        shape = self.shape
        terms = (*shape.pod_affinity, *shape.pod_anti_affinity)
        return self.spreads or bool(shape.preferred) or any(term.weight for term in terms)

    @property
    def namespace(self) -> str:
        """The part of the key before the slash."""
        return self.key.partition("/")[0]

    @property
    def holds(self) -> bool:
        """Whether it takes up room on its node."""
        return self.state in HOLDING

    @property
    def active(self) -> bool:
        """Whether it counts as allocated in its queue: placed and not on its way out."""
        return self.state in ACTIVE

    @property
    def waits(self) -> bool:
        """Whether it is there and asks for a place."""
        return self.state in _WAITING and not self.gated


# Sets, as Python takes longer to look up a member of an Enum than to find a text in a set.
HOLDING = frozenset({State.BOUND, State.RUNNING, State.TERMINATING})
ACTIVE = frozenset({State.BOUND, State.RUNNING})
_WAITING = frozenset({State.PENDING})


class TopologyConstraint(msgspec.Struct, frozen=True):
    """Keep the pods within one domain: of the required level for certain, of the preferred one if possible."""

    topology: str
    required: str = ""
    preferred: str = ""


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the gang's tree. A leaf (no `parts`) needs `minimum` pods, another node `minimum` of its parts."""

    name: str = ""
    minimum: int = 1
    parts: tuple["Gang", ...] = ()
    topology: TopologyConstraint | None = None

    def stands(self, pods: Mapping[str, int]) -> bool:
        """Whether these numbers of pods, by sub-group, are enough."""
        if not self.parts:
            return pods.get(self.name, 0) >= self.minimum
        return sum(part.stands(pods) for part in self.parts) >= self.minimum

    @property
    def has_topology(self) -> bool:
        """Whether the nodes of its pods, or of those of a part of it, depend on each other."""
        return self.topology is not None or any(part.has_topology for part in self.parts)

    @property
    def leaves(self) -> tuple["Gang", ...]:
        """The sub-groups that hold pods."""
        return tuple(leaf for part in self.parts for leaf in part.leaves) or (self,)


ALONE = Gang()
"""The gang of a pod that starts by itself."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One or more pods that start together."""

    key: str
    """`namespace/name`."""
    queue: str | None = None
    """The queue's name as the labels give it (or the default queue's); None: no queue, not governed."""
    scheduler: str = ""
    """A `schedulerName` that is not ours to serve; empty when it is."""
    priority: int = 50
    priority_class: str = ""
    preemptible: bool = True
    gang: Gang = ALONE
    created: int = 0
    last_evicted: int | None = None
    preemption_delay: int = 0
    stale_since: int | None = None
    staleness_grace: int | None = None
    """Seconds; negative: never evicted for it; None: the setting's."""
    display: str = ""

    @property
    def namespace(self) -> str:
        """The part of the key before the slash."""
        return self.key.partition("/")[0]

    @property
    def governed(self) -> bool:
        """Whether the queues' rules are for it."""
        return self.queue is not None and not self.scheduler


# --- what others hold on to


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget: how many of these pods may still be evicted."""

    name: str
    """`namespace/name`."""
    pods: frozenset[str]
    allowed: int


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """Room that an unfinished Plan keeps: for the pod named `pod`, or for another one of `owner`."""

    plan: str
    pod: str
    """Key of the pod it was made for; a pod that keeps its name is found by it."""
    owner: str = ""
    workload: str = ""
    shape: Shape
    node: str
    gpu_groups: tuple[str, ...] = ()
    queue: str = ""
    priority: int = 50

    @property
    def namespace(self) -> str:
        """The part of the pod's key before the slash."""
        return self.pod.partition("/")[0]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What kube-scheduler said of a pod's nodes: a fresh list of those it offers, and those it keeps refusing."""

    nodes: frozenset[str] | None = None
    refused: frozenset[str] = frozenset()
    since: int = 0
    in_vain: str = ""
    """Why no eviction would help the pod; empty: one may."""
