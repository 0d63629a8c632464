"""The immutable view the engine decides on, and how the next one is made from it at the price of what changed.

A `Snapshot` holds the objects and, kept up to date with every change, what would be slow to count again: the use of
each queue and node, which workloads wait and run in which queue, and the nodes by free GPUs. Mappings are never changed
once a snapshot has them: a `Draft` makes others of the ones that differ, which share what is the same (`persistent`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeGuard

import msgspec
from gpuyard.engine.model import (
    ACTIVE,
    ALONE,
    HOLDING,
    NOTHING,
    Amounts,
    Budget,
    Gang,
    Node,
    Offer,
    Pod,
    PodTerm,
    Promise,
    Queue,
    Shape,
    State,
    Topology,
    Workload,
)
from gpuyard.engine.model.counting import UNUSED, Occupancy, QueueUse, claim, occupancy
from gpuyard.engine.model.fleet import Fleet
from gpuyard.engine.model.persistent import PersistentMap

Names = PersistentMap[str, bool]
"""A set of names; the values say nothing."""

_EMPTY = PersistentMap[Any, Any]()


class AvoidingKind(NamedTuple):
    """Pods that avoid the same others: of one namespace, with the same terms of anti-affinity."""

    namespace: str
    terms: tuple[PodTerm, ...]


def avoiding_kind(pod: Pod) -> AvoidingKind:
    """What a pod avoids."""
    return AvoidingKind(pod.namespace, pod.shape.pod_anti_affinity)


_NO_PODS: Mapping[str, Pod] = {}


Slot = tuple[int, int]
"""(idle, releasing) whole GPUs of a node: the key of the index of nodes."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The cluster at one moment. Make one with `build`, the next one with the `with_…` methods or a `draft`."""

    now: int = 0
    """Seconds since the epoch: the only clock the engine knows."""
    fleet: Fleet = Fleet()
    queues: PersistentMap[str, Queue] = _EMPTY
    workloads: PersistentMap[str, Workload] = _EMPTY
    pods: PersistentMap[str, Pod] = _EMPTY
    topologies: Mapping[str, Topology] = {}
    budgets: Mapping[str, Budget] = {}
    promises: tuple[Promise, ...] = ()
    history: Mapping[str, Amounts] = {}
    """Past use of a queue as a share of the cluster's capacity, in `SCALE`."""
    namespaces: Mapping[str, str] = {}
    """Queue label of each namespace, for `namespaceMatch: label`."""
    offers: Mapping[str, Offer] = {}
    """What kube-scheduler said, by pod."""

    # Derived, kept by `Draft`.
    members: PersistentMap[str, tuple[Pod, ...]] = _EMPTY
    """The pods of each workload."""
    on_node: PersistentMap[str, tuple[Pod, ...]] = _EMPTY
    """The pods that hold room on each node."""
    room: PersistentMap[str, Occupancy] = _EMPTY
    slots: PersistentMap[Slot, Names] = _EMPTY
    """The open nodes by free whole GPUs."""
    sharing: PersistentMap[str, Mapping[str, tuple[int, int]]] = _EMPTY
    """The shared GPUs of the nodes that have any."""
    own: PersistentMap[str, QueueUse] = _EMPTY
    """Use by the queue that the workloads name, whether it exists or not; under "" what is not governed."""
    use: PersistentMap[str, QueueUse] = _EMPTY
    """Use of each queue's whole subtree."""
    wanted: int = 0
    """The milli-GPUs that all who wait ask for."""
    waiting: PersistentMap[str, Names] = _EMPTY
    """The workloads with a pending pod, by queue."""
    victims: PersistentMap[tuple[str, int], Names] = _EMPTY
    """The preemptible workloads with an active pod, by queue and priority."""
    torn: PersistentMap[str, Workload] = _EMPTY
    """The workloads with active pods, but fewer than their minimum."""
    terminating: PersistentMap[str, Pod] = _EMPTY
    nominated: PersistentMap[str, Pod] = _EMPTY
    """Pending pods with a standing nomination."""
    avoiding: "PersistentMap[AvoidingKind, PersistentMap[str, Pod]]" = _EMPTY
    """Pods that hold room and have an anti-affinity, by what they avoid."""

    @classmethod
    def build(  # noqa: PLR0913 - one argument per kind of object
        cls,
        *,
        now: int = 0,
        nodes: Iterable[Node] = (),
        queues: Iterable[Queue] = (),
        workloads: Iterable[Workload] = (),
        pods: Iterable[Pod] = (),
        topologies: Iterable[Topology] = (),
        budgets: Iterable[Budget] = (),
        promises: Iterable[Promise] = (),
        history: Mapping[str, Amounts] | None = None,
        namespaces: Mapping[str, str] | None = None,
    ) -> "Snapshot":
        """Make a snapshot of checked objects.

        The caller has made sure that names are unique, that every pod's workload is given (or empty), and that a pod
        that holds room names a given node. The objects may come in any order.
        """
        empty = cls(
            now=now,
            topologies={t.name: t for t in topologies},
            budgets={b.name: b for b in budgets},
            promises=tuple(sorted(promises, key=lambda p: p.name)),
            history=dict(history or {}),
            namespaces=dict(namespaces or {}),
        )
        draft = Draft(empty)
        draft.put_nodes(nodes)
        for queue in queues:
            draft.put_queue(queue)
        for workload in workloads:
            draft.put_workload(workload)
        draft.put_pods(pods)
        return draft.done()

    def draft(self) -> "Draft":
        """Start a change of several objects; `Draft.done` gives the next snapshot."""
        return Draft(self)

    def at(self, now: int) -> "Snapshot":
        """The same at another time."""
        return msgspec.structs.replace(self, now=now)

    def with_pod(self, *pods: Pod) -> "Snapshot":
        """With these pods, new or in place of those of the same keys."""
        return Draft(self).put_pods(pods).done()

    def with_node(self, *nodes: Node) -> "Snapshot":
        """With these nodes, new or in place of those of the same names."""
        return Draft(self).put_nodes(nodes).done()

    def with_queue(self, queue: Queue) -> "Snapshot":
        """With this queue, new or in place of the one of the same name."""
        return Draft(self).put_queue(queue).done()

    def with_workload(self, workload: Workload) -> "Snapshot":
        """With this workload, new or in place of the one of the same key."""
        return Draft(self).put_workload(workload).done()

    def with_budgets(self, budgets: Iterable[Budget]) -> "Snapshot":
        """With these disruption budgets and no others."""
        return msgspec.structs.replace(self, budgets={b.name: b for b in budgets})

    def with_promises(self, promises: Iterable[Promise]) -> "Snapshot":
        """With these promises and no others."""
        return msgspec.structs.replace(self, promises=tuple(sorted(promises, key=lambda p: p.name)))

    def path(self, queue: str | None) -> tuple[str, ...]:
        """The queue's name and its ancestors' up to the root; empty when there is no such queue."""
        return tuple(_way_up(self.queues, queue or ""))

    def claim_of(self, pod: Pod) -> Amounts:
        """What a pod counts in its queue: where it stands by its node's GPUs, waiting by the smallest ones."""
        node = self.fleet.nodes.get(pod.node) if pod.holds else None
        return claim(pod.shape, node.gpu_memory if node else self.fleet.smallest_gpu)

    @property
    def total(self) -> Amounts:
        """What the queues share: the capacity that counts, less what others' pods hold."""
        return self.fleet.capacity.minus(self.own.get("", UNUSED).allocated)


class Draft:
    """A snapshot being changed: notes what differs. What follows is derived once for all changes, by `done`."""

    def __init__(self, base: Snapshot) -> None:
        self._base = base
        self._fleet = base.fleet
        self._changes = defaultdict[str, dict[Any, Any]](dict)
        """By field of the snapshot the entries that differ; None: no longer there."""
        self._names = defaultdict[tuple[str, Any], dict[str, Any]](dict)
        """The same for the names within an entry of a field."""
        self._come = defaultdict[str, dict[str, Pod]](dict)
        """The pods that were put, by workload."""
        self._gone = defaultdict[str, list[Pod]](list)
        """The pods of `base` that are not there any more, by workload."""
        self._nodes = defaultdict[str, list[Pod]](list)
        """The nodes that differ, with the pods that are new on them."""
        self._tally: Counter[_Kind] = Counter()
        self._tree_changed = False

    @property
    def pods_changed(self) -> int:
        """How many pods differ."""
        return len(self._changes["pods"])

    # --- changes ---

    def put_pods(self, pods: Iterable[Pod]) -> Self:
        """Add pods, or replace those of the same keys."""
        changes, come = self._changes["pods"], self._come
        for pod in pods:
            if pod.key in changes:
                self.drop_pods((pod.key,))
            changes[pod.key] = come[pod.workload][pod.key] = pod
        return self

    def drop_pods(self, keys: Iterable[str]) -> Self:
        """Take pods away."""
        changes = self._changes["pods"]
        for key in keys:
            earlier: Pod | None = changes.get(key)
            if earlier is not None:
                del self._come[earlier.workload][key]
            changes[key] = None
        return self

    def put_nodes(self, nodes: Iterable[Node]) -> Self:
        """Add nodes, or replace those of the same names."""
        changed = {node.name: node for node in nodes}
        return self._set_nodes({**self._fleet.nodes, **changed}, changed)

    def drop_node(self, name: str) -> Self:
        """Take a node away. Pods that named it stay, but hold room nowhere."""
        return self._set_nodes({n: node for n, node in self._fleet.nodes.items() if n != name}, (name,))

    def put_queue(self, queue: Queue) -> Self:
        """Add a queue, or replace the one of the same name."""
        old = self._now("queues", queue.name)
        self._tree_changed |= old is None or old.parent != queue.parent
        self._changes["queues"][queue.name] = queue
        return self

    def drop_queue(self, name: str) -> Self:
        """Take a queue away."""
        self._tree_changed |= self._now("queues", name) is not None
        self._changes["queues"][name] = None
        return self

    def put_workload(self, workload: Workload) -> Self:
        """Add a workload, or replace the one of the same key."""
        self._changes["workloads"][workload.key] = workload
        return self

    def drop_workload(self, key: str) -> Self:
        """Take a workload and its pods away."""
        self.drop_pods([*self._come[key], *(pod.key for pod in self._staying_in(key))])
        self._changes["workloads"][key] = None
        return self

    def room(self, nodes: Iterable[str]) -> dict[str, Occupancy | None]:
        """What is left of these nodes by now, for the price of the changes so far, not of a snapshot; None: no node."""
        changes, before = self._changes["pods"], self._base
        come = defaultdict[str, list[Pod]](list)
        for pod in filter(_stands, changes.values()):
            come[pod.node].append(pod)
        stirred = {pod.node for pod in filter(_stands, map(before.pods.get, changes))}.union(come, self._nodes)
        return {
            name: self._left_of(name, self._standing_on(name, come[name])) if name in stirred else before.room.get(name)
            for name in nodes
        }

    def done(self) -> Snapshot:
        """The snapshot with all changes."""
        self._sort_pods()
        for name, come in self._nodes.items():
            self._settle_node(name, come)
        settle = self._settle_workload if self._base.workloads or self._base.pods else self._settle_new
        for key in {**self._changes["workloads"], **self._come, **self._gone}:
            settle(key)
        for (field, key), names in self._names.items():
            self._changes[field][key] = getattr(self._base, field).get(key, _EMPTY).changed(names) or None
        new = {field: getattr(self._base, field).changed(changes) for field, changes in self._changes.items()}
        return self._with_use(msgspec.structs.replace(self._base, fleet=self._fleet, **new))

    # --- what is so by now ---

    def _now(self, field: str, key: str) -> Any:  # noqa: ANN401 - a value of that field
        changes = self._changes[field]
        return changes[key] if key in changes else getattr(self._base, field).get(key)

    def _set_nodes(self, nodes: Mapping[str, Node], changed: Iterable[str]) -> Self:
        for name in changed:
            self._nodes[name] = []
        self._fleet = Fleet.of(nodes)
        return self

    def _staying_in(self, workload: str) -> Sequence[Pod]:
        """The pods of a workload that are as they were."""
        before = self._base.members.get(workload)
        if not before:
            return ()
        changes = self._changes["pods"]
        return [pod for pod in before if pod.key not in changes]

    # --- bringing the derived mappings up to date ---

    def _sort_pods(self) -> None:
        """Tell apart who is gone and who has come, and where."""
        changes = self._changes["pods"]
        for old in filter(None, map(self._base.pods.get, changes)):
            self._index(old, None)
            self._gone[old.workload].append(old)
            if _stands(old):
                self._nodes.setdefault(old.node, [])
        for pod in filter(None, changes.values()):
            state = pod.state
            if state is State.TERMINATING or pod.nominated or pod.shape.pod_anti_affinity:
                self._index(pod, pod)
            if _stands(pod):
                self._nodes[pod.node].append(pod)

    def _index(self, pod: Pod, entry: Pod | None) -> None:
        if pod.state is State.TERMINATING:
            self._changes["terminating"][pod.key] = entry
        if pod.nominated and pod.state is State.PENDING:
            self._changes["nominated"][pod.key] = entry
        if pod.shape.pod_anti_affinity and pod.holds:
            self._names["avoiding", avoiding_kind(pod)][pod.key] = entry

    def _standing_on(self, node: str, come: Iterable[Pod]) -> tuple[Pod, ...]:
        """The pods of a node: those that are as they were, and these."""
        changes = self._changes["pods"]
        stay = (pod for pod in self._base.on_node.get(node, ()) if pod.key not in changes)
        return tuple(sorted((*stay, *come), key=_key_of))

    def _left_of(self, name: str, pods: Iterable[Pod]) -> Occupancy | None:
        node = self._fleet.nodes.get(name)
        return occupancy(node, pods) if node is not None else None

    def _settle_node(self, name: str, come: Iterable[Pod]) -> None:
        pods = self._standing_on(name, come)
        before, node = self._base.fleet.nodes.get(name), self._fleet.nodes.get(name)
        left, was = self._left_of(name, pods), self._base.room.get(name)
        self._changes["on_node"][name] = pods or None
        if before is node and left == was:
            # Whoever begins to run where it stood takes no more than before.
            return
        self._changes["room"][name] = left
        self._changes["sharing"][name] = (left.groups or None) if left else None
        if before is not None and was is not None and before.open:
            self._names["slots", (was.idle, was.releasing)][name] = None
        if node is not None and left is not None and node.open:
            self._names["slots", (left.idle, left.releasing)][name] = True

    def _settle_new(self, key: str) -> None:
        """As `_settle_workload`, where nothing was there before: so a big cluster is counted quickly."""
        new, come = self._changes["workloads"].get(key), self._come.get(key)
        pods = tuple(come.values()) if come else ()
        self._count(pods, new, self._fleet, 1)
        members = self._set_members(key, pods)
        if new is not None:
            self._settle_standing(new, members)

    def _settle_workload(self, key: str) -> None:
        come, stay = self._come.get(key, _NO_PODS).values(), self._staying_in(key)
        old, new = self._base.workloads.get(key), self._now("workloads", key)
        self._count(come, new, self._fleet, 1)
        if key in self._gone:
            self._count(self._gone[key], old, self._base.fleet, -1)
        if stay and old is not new:
            self._count(stay, new, self._fleet, 1)
            self._count(stay, old, self._base.fleet, -1)
        pods = self._set_members(key, (*come, *stay))
        if old is not None:
            # Whoever only lands, or begins to run, stands as before.
            if old is new and _standing(old.gang, self._base.members.get(key, ())) == _standing(old.gang, pods):
                return
            self._forget_standing(key, old)
        if new is not None:
            self._settle_standing(new, pods)

    def _set_members(self, key: str, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """Note who belongs to a workload, in the order in which they start; pods without one are no team."""
        if not key:
            return pods
        if len(pods) > 1:
            pods = tuple(sorted(pods, key=start_order))
        self._changes["members"][key] = pods or None
        return pods

    def _count(self, pods: Iterable[Pod], workload: Workload | None, fleet: Fleet, sign: int) -> None:
        label = workload.queue or "" if workload is not None and workload.governed else ""
        fixed = workload is not None and not workload.preemptible
        tally = self._tally
        for pod in pods:
            state, shape = pod.state, pod.shape
            active = state in ACTIVE
            if active or pod.waits:
                memory = _gpu_memory(fleet, pod.node if active else "") if shape.gpu_memory else 0
                tally[label, active, fixed, shape, memory] += sign

    def _forget_standing(self, key: str, old: Workload) -> None:
        self._changes["torn"][key] = None
        self._names["waiting", old.queue or ""][key] = None
        self._names["victims", (old.queue or "", old.priority)][key] = None

    def _settle_standing(self, new: Workload, pods: Sequence[Pod]) -> None:
        """Whether a workload waits, may lose its place, is torn."""
        waits, active, stands = _standing(new.gang, pods)
        if active and not stands:
            self._changes["torn"][new.key] = new
        queue = new.queue
        if queue is None or new.scheduler:
            return
        if waits:
            self._names["waiting", queue][new.key] = True
        if active and new.preemptible:
            self._names["victims", (queue, new.priority)][new.key] = True

    def _with_use(self, new: Snapshot) -> Snapshot:
        """The snapshot with the use of its queues, which is counted again where an old one would not tell."""
        recount = bool(self._base.pods) and self._counts_otherwise(new.fleet)
        if recount:
            self._tally.clear()
            for pod in new.pods.values():
                self._count((pod,), new.workloads.get(pod.workload), new.fleet, 1)
        more = _use_by_label(self._tally)
        before: PersistentMap[str, QueueUse] = _EMPTY if recount else new.own
        own = before.changed({label: before.get(label, UNUSED).plus(use) for label, use in more.items()})
        wanted = sum(use.requested.gpu - use.allocated.gpu for use in more.values()) + (0 if recount else new.wanted)
        anew = recount or self._tree_changed
        use = _added_up(new.queues, _EMPTY if anew else new.use, own if anew else more)
        return msgspec.structs.replace(new, own=own, use=use, wanted=wanted)

    def _counts_otherwise(self, fleet: Fleet) -> bool:
        """Whether pods that have not changed count otherwise by the GPUs that there are now."""
        before = self._base.fleet
        if fleet is before:
            return False
        return before.smallest_gpu != fleet.smallest_gpu or any(
            name in self._base.on_node and _gpu_memory(before, name) != _gpu_memory(fleet, name) for name in self._nodes
        )


_Kind = tuple[str, bool, bool, Shape, int]
"""Pods that count alike: for a label, active or waiting, not preemptible or so, of one shape, by GPUs of this size."""


def _use_by_label(tally: Mapping[_Kind, int]) -> dict[str, QueueUse]:
    """What so many pods of each kind add to the use of each label."""
    out: dict[str, QueueUse] = {}
    for (label, active, fixed, shape, gpu_memory), pods in tally.items():
        if pods:
            amounts = claim(shape, gpu_memory).times(pods)
            held = amounts if active else NOTHING
            use = QueueUse(held, held if fixed else NOTHING, amounts)
            out[label] = out.get(label, UNUSED).plus(use)
    return out


def _added_up(
    queues: Mapping[str, Queue], use: PersistentMap[str, QueueUse], more: Mapping[str, QueueUse]
) -> PersistentMap[str, QueueUse]:
    """The use of subtrees, with more use by label in the queues of that name and above."""
    changes: dict[str, QueueUse] = {}
    for label, added in more.items():
        for name in _way_up(queues, label):
            changes[name] = changes.get(name, use.get(name, UNUSED)).plus(added)
    return use.changed(changes)


def _way_up(queues: Mapping[str, Queue], name: str) -> Mapping[str, Queue]:
    """The queue of this name and its ancestors, each once even where somebody has tied them into a circle."""
    out: dict[str, Queue] = {}
    while name not in out and (found := queues.get(name)) is not None:
        out[name] = found
        name = found.parent
    return out


def _standing(gang: Gang, pods: Sequence[Pod]) -> tuple[bool, bool, bool]:
    """Whether any of the pods waits, whether any is active, and whether those are enough for the gang."""
    if gang is ALONE and len(pods) == 1:
        runs = pods[0].state in ACTIVE
        return not runs and pods[0].waits, runs, runs
    waits, active = False, dict[str, int]()
    for pod in pods:
        if pod.state in ACTIVE:
            active[pod.group] = active.get(pod.group, 0) + 1
        elif not waits:
            waits = pod.waits
    return waits, bool(active), gang.stands(active)


def start_order(pod: Pod) -> tuple[bool, int, int, str]:
    """Sort key of the pods of one workload: who starts first, and so is evicted last."""
    return (not pod.leader, -pod.task_priority, pod.created, pod.key)


def _key_of(pod: Pod) -> str:
    return pod.key


def _stands(pod: Pod | None) -> TypeGuard[Pod]:
    """Whether there is a pod that holds room on a node; of a reserved one nobody may know yet on which."""
    return pod is not None and pod.node != "" and pod.state in HOLDING


def _gpu_memory(fleet: Fleet, node: str) -> int:
    """The MiB that one GPU of a node has; by the smallest ones for a pod that stands nowhere."""
    found = fleet.nodes.get(node)
    return found.gpu_memory if found else fleet.smallest_gpu
