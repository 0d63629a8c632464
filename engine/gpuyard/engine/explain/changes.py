"""The single changes that could let a pod run, as values that can be tried on a snapshot.

    change            what it alters                                    one unit less of it
    Wait              the time                                          a second earlier
    Lapse             the promises of one plan                          -
    UseQueue          the queue that the workload names                 -
    Relax             one of the pod's demands on nodes                 -
    Raise             a limit or quota of one queue                     lower by a milli-GPU, a millicore, 10^6 bytes
    SmallerGang       the number of pods that must start together       higher by one
    Shrink            what each pod of the workload asks for            larger by one
    MakePreemptible   the workload's class                              -
    AddNode           the cluster, by a node                            a node with one GPU fewer

`apply` gives the snapshot as it would be; `weaker` the change with one unit less, None where there is nothing less.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from gpuyard.engine.model import Amounts, Node, Pod, Shape, State, Toleration, Workload
from gpuyard.engine.model.constraints import selects
from gpuyard.engine.model.snapshot import Snapshot

MEGABYTE = 1_000_000
HOSTNAME = "kubernetes.io/hostname"
"""The label that no two nodes share."""

PREEMPTIBLE_CLASS = ("build-preemptible", 75)
"""The highest of the known classes whose pods may be evicted, and its value."""

BoundKind = Literal["limit", "quota"]
Resource = Literal["gpu", "cpu", "memory"]
Asked = Literal["gpus", "fraction", "gpu_memory", "cpu", "memory"]
Demand = Literal["selector", "affinity", "pod_affinity", "pod_anti_affinity", "taint"]

UNITS: Mapping[str, int] = {"gpu": 1, "cpu": 1, "memory": MEGABYTE}
"""The smallest step of a queue's bound, per resource, in engine units."""

STEPS: Mapping[str, int] = {"gpus": 1, "fraction": 1, "gpu_memory": 1, "cpu": 1, "memory": MEGABYTE}
"""The smallest step of a pod's request, per field of its shape."""


class Raise(msgspec.Struct, frozen=True, kw_only=True):
    """More quota or limit in one queue: `to`, in engine units."""

    queue: str
    resource: Resource
    kind: BoundKind
    to: int

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """With the bound raised."""
        queue = snapshot.queues[self.queue]
        bound = queue.limit if self.kind == "limit" else queue.quota
        raised = {self.kind: bound._replace(**{self.resource: self.to})}
        return snapshot.with_queue(msgspec.structs.replace(queue, **raised))

    def weaker(self) -> "Raise":
        """Raised by one step less."""
        return msgspec.structs.replace(self, to=self.to - UNITS[self.resource])


class Shrink(msgspec.Struct, frozen=True, kw_only=True):
    """A smaller request, for all waiting pods of the workload that ask for the same: `to`, in the unit of the field."""

    workload: str
    shape: Shape
    field: Asked
    to: int

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """With the smaller request."""
        smaller = msgspec.structs.replace(self.shape, **{self.field: self.to})
        return _reshaped(snapshot, self.workload, lambda shape: smaller if shape == self.shape else shape)

    def weaker(self) -> "Shrink":
        """A request larger by one step."""
        return msgspec.structs.replace(self, to=self.to + STEPS[self.field])


class SmallerGang(msgspec.Struct, frozen=True, kw_only=True):
    """Fewer pods that must start together."""

    workload: str
    to: int

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """With the smaller minimum."""
        gang = msgspec.structs.replace(snapshot.workloads[self.workload].gang, minimum=self.to)
        return _changed(snapshot, self.workload, gang=gang)

    def weaker(self) -> "SmallerGang":
        """A minimum higher by one."""
        return msgspec.structs.replace(self, to=self.to + 1)


class MakePreemptible(msgspec.Struct, frozen=True, kw_only=True):
    """A priority class whose pods may be evicted: it may use what others leave idle."""

    workload: str

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """In the preemptible class."""
        name, value = PREEMPTIBLE_CLASS
        return _changed(snapshot, self.workload, preemptible=True, priority=value, priority_class=name)

    def weaker(self) -> None:
        """There is no smaller step."""


class AddNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node more, with so many GPUs and whatever else the workload needs there."""

    workload: str
    gpus: int

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """With the node."""
        return snapshot.with_node(self.node(snapshot))

    def node(self, snapshot: Snapshot) -> Node:
        """The node as it is tried."""
        return _new_node(snapshot, self.workload, self.gpus)

    def weaker(self) -> "AddNode":
        """A node with one GPU fewer."""
        return msgspec.structs.replace(self, gpus=self.gpus - 1)


class Relax(msgspec.Struct, frozen=True, kw_only=True):
    """Without one of the demands on nodes: a label of the selector, an affinity, or intolerance of a taint."""

    workload: str
    demand: Demand
    key: str = ""
    """The label's or the taint's key, for `selector` and `taint`."""

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Without the demand."""
        return _reshaped(snapshot, self.workload, lambda shape: _RELAXED[self.demand](shape, self.key))

    def weaker(self) -> None:
        """There is no smaller step."""


class UseQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Another queue's name on the workload."""

    workload: str
    queue: str

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """In that queue."""
        return _changed(snapshot, self.workload, queue=self.queue)

    def weaker(self) -> None:
        """There is no smaller step."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing but time: until then, in seconds since the epoch."""

    until: int

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """At that time."""
        return snapshot.at(self.until)

    def weaker(self) -> "Wait":
        """A second earlier."""
        return Wait(until=self.until - 1)


class Lapse(msgspec.Struct, frozen=True, kw_only=True):
    """A plan's promises kept or given up: wait for it."""

    plan: str

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Without the plan's promises."""
        return snapshot.with_promises(p for p in snapshot.promises if p.plan != self.plan)

    def weaker(self) -> None:
        """There is no smaller step."""


Change = Raise | Shrink | SmallerGang | MakePreemptible | AddNode | Relax | UseQueue | Wait | Lapse


# --- how a workload and its pods are altered


def _changed(snapshot: Snapshot, workload: str, **fields: object) -> Snapshot:
    changed: Workload = msgspec.structs.replace(snapshot.workloads[workload], **fields)
    return snapshot.with_workload(changed)


def _reshaped(snapshot: Snapshot, workload: str, alter: Callable[[Shape], Shape]) -> Snapshot:
    return snapshot.with_pod(*(_with_shape(p, alter(p.shape)) for p in waiting_pods(snapshot, workload)))


def _with_shape(pod: Pod, shape: Shape) -> Pod:
    return msgspec.structs.replace(pod, shape=shape)


def waiting_pods(snapshot: Snapshot, workload: str) -> list[Pod]:
    """The pods of a workload that wait."""
    return [p for p in snapshot.members.get(workload, ()) if p.state is State.PENDING and not p.gated]


def first_to_ask(snapshot: Snapshot, workload: str) -> Pod:
    """The first pod of a workload that waits; the first of all where none does, as the plan has yet to evict it."""
    return next(iter(waiting_pods(snapshot, workload)), snapshot.members[workload][0])


def asked_for(snapshot: Snapshot, workload: str) -> Amounts:
    """What the waiting pods of a workload count in its queue together."""
    claims = [snapshot.claim_of(p) for p in waiting_pods(snapshot, workload)]
    return Amounts(*(sum(column) for column in zip(*claims, strict=True)))


def _new_node(snapshot: Snapshot, workload: str, gpus: int) -> Node:
    """A node like the largest of those whose labels suit the workload's first waiting pod, with a name of its own.

    It has as much CPU and memory as any other node; more where the workload as a whole asks for more.
    """
    nodes, shape = snapshot.fleet.nodes, first_to_ask(snapshot, workload).shape
    alike = [n for n in nodes.values() if selects(shape, n)]
    model = max(alike, key=lambda n: (n.gpus, n.name), default=None)
    asked = asked_for(snapshot, workload)
    name = next(name for n in range(len(nodes) + 1) if (name := f"new-node-{n}") not in nodes)
    return Node(
        name=name,
        gpus=gpus,
        cpu=max(asked.cpu, *(n.cpu for n in nodes.values()), 0),
        memory=max(asked.memory, *(n.memory for n in nodes.values()), 0),
        gpu_memory=model.gpu_memory if model else snapshot.fleet.largest_gpu,
        labels={**(model.labels if model else dict(shape.selector)), HOSTNAME: name},
    )


def _without_label(shape: Shape, key: str) -> Shape:
    return msgspec.structs.replace(shape, selector=tuple(pair for pair in shape.selector if pair[0] != key))


def _tolerant(shape: Shape, key: str) -> Shape:
    return msgspec.structs.replace(shape, tolerations=(*shape.tolerations, Toleration(key=key, operator="Exists")))


_RELAXED: Mapping[str, Callable[[Shape, str], Shape]] = {
    "selector": _without_label,
    "taint": _tolerant,
    "affinity": lambda shape, _: msgspec.structs.replace(shape, affinity=()),
    "pod_affinity": lambda shape, _: msgspec.structs.replace(
        shape, pod_affinity=tuple(t for t in shape.pod_affinity if t.weight)
    ),
    "pod_anti_affinity": lambda shape, _: msgspec.structs.replace(
        shape, pod_anti_affinity=tuple(t for t in shape.pod_anti_affinity if t.weight)
    ),
}
