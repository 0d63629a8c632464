"""The immutable view the engine decides on, and how the next one is made from it at the price of what changed.

A `Snapshot` holds the objects and, kept up to date with every change, what would be slow to count again: the use of
each queue and node, which workloads wait and run in which queue, and the nodes by free GPUs. Mappings are never changed
once a snapshot has them: a `Draft` copies the ones it writes to and shares the rest.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

import msgspec
from gpuyard.engine.fleet import Fleet
from gpuyard.engine.model import (
    GPU,
    NOTHING,
    Amounts,
    Budget,
    Node,
    Offer,
    Pod,
    Promise,
    Queue,
    Shape,
    State,
    Topology,
    Workload,
)

V = TypeVar("V")


class QueueUse(msgspec.Struct, frozen=True):
    """What a queue's whole subtree holds and asks for."""

    allocated: Amounts = NOTHING
    fixed: Amounts = NOTHING
    """The part of `allocated` that is not preemptible."""
    requested: Amounts = NOTHING
    """`allocated` and all that wait, even beyond what can run."""


UNUSED = QueueUse()


class Occupancy(msgspec.Struct, frozen=True):
    """What the pods leave of one node: free now (`idle`), and free once the terminating ones are gone (`releasing`)."""

    idle: int
    releasing: int = 0
    cpu: int = 0
    cpu_releasing: int = 0
    memory: int = 0
    memory_releasing: int = 0
    pods: int = 0
    pods_releasing: int = 0
    groups: Mapping[str, tuple[int, int]] = {}
    """Shared GPUs: milli-GPUs in use, and in use by terminating pods."""


Slot = tuple[int, int]
"""(idle, releasing) whole GPUs of a node: the key of the index of nodes."""


def share_of_gpu(shape: Shape, gpu_memory: int) -> int:
    """The milli-GPUs that a shared request takes of each of its devices, where a GPU has `gpu_memory` MiB."""
    if shape.fraction or not shape.gpu_memory:
        return shape.fraction
    return -(-shape.gpu_memory * GPU // gpu_memory) if gpu_memory else GPU + 1


def claim(shape: Shape, gpu_memory: int) -> Amounts:
    """What a pod of this shape counts in its queue, with GPUs of `gpu_memory` MiB."""
    return Amounts(
        shape.gpus * GPU + share_of_gpu(shape, gpu_memory) * shape.devices if shape.wants_gpu else 0,
        shape.cpu,
        shape.memory,
    )


def occupancy(node: Node, pods: Iterable[Pod]) -> Occupancy:
    """Count what `pods` leave of `node`."""
    idle, cpu, memory, places = node.gpus, node.cpu, node.memory, node.pods
    releasing = cpu_releasing = memory_releasing = places_releasing = 0
    groups: dict[str, tuple[int, int]] = {}
    for pod in pods:
        shape, leaves = pod.shape, pod.state is State.TERMINATING
        idle -= shape.gpus
        cpu -= shape.cpu
        memory -= shape.memory
        places -= 1
        if leaves:
            releasing += shape.gpus
            cpu_releasing += shape.cpu
            memory_releasing += shape.memory
            places_releasing += 1
        share = share_of_gpu(shape, node.gpu_memory)
        for group in pod.gpu_groups:
            used, freed = groups.get(group, (0, 0))
            groups[group] = (used, freed + share) if leaves else (used + share, freed)
    for used, _ in groups.values():
        idle -= 1
        releasing += not used
    return Occupancy(idle, releasing, cpu, cpu_releasing, memory, memory_releasing, places, places_releasing, groups)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The cluster at one moment. Make one with `build`, the next one with the `with_…` methods or a `draft`."""

    now: int = 0
    """Seconds since the epoch: the only clock the engine knows."""
    fleet: Fleet = Fleet()
    queues: Mapping[str, Queue] = {}
    workloads: Mapping[str, Workload] = {}
    pods: Mapping[str, Pod] = {}
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
    members: Mapping[str, tuple[Pod, ...]] = {}
    """The pods of each workload."""
    on_node: Mapping[str, tuple[Pod, ...]] = {}
    """The pods that hold room on each node."""
    room: Mapping[str, Occupancy] = {}
    slots: Mapping[Slot, Mapping[str, None]] = {}
    """The open nodes by free whole GPUs."""
    sharing: Mapping[str, Mapping[str, tuple[int, int]]] = {}
    """The shared GPUs of the nodes that have any."""
    own: Mapping[str, QueueUse] = {}
    """Use by the queue that the workloads name, whether it exists or not; under "" what is not governed."""
    use: Mapping[str, QueueUse] = {}
    """Use of each queue's whole subtree."""
    waiting: Mapping[str, Mapping[str, None]] = {}
    """The workloads with a pending pod, by queue."""
    victims: Mapping[tuple[str, int], Mapping[str, None]] = {}
    """The preemptible workloads with an active pod, by queue and priority."""
    torn: Mapping[str, Workload] = {}
    """The workloads with active pods, but fewer than their minimum."""
    terminating: Mapping[str, Pod] = {}
    nominated: Mapping[str, Pod] = {}
    """Pending pods with a standing nomination."""
    choosy: Mapping[str, Pod] = {}
    """Pods that hold room and keep others away (anti-affinity)."""

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

        The caller has made sure that names are unique, that every pod's workload is given (or empty), that a pod that
        holds room names a given node, and that no queue is its own ancestor. The objects may come in any order.
        """
        empty = cls(
            now=now,
            topologies={t.name: t for t in topologies},
            budgets={b.name: b for b in budgets},
            promises=tuple(sorted(promises, key=lambda p: (p.plan, p.pod))),
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

    def without_pod(self, *keys: str) -> "Snapshot":
        """Without these pods; unknown keys are nothing to take away."""
        return Draft(self).drop_pods(keys).done()

    def with_node(self, *nodes: Node) -> "Snapshot":
        """With these nodes, new or in place of those of the same names."""
        return Draft(self).put_nodes(nodes).done()

    def without_node(self, name: str) -> "Snapshot":
        """Without a node; pods that named it stay, but hold room nowhere."""
        return Draft(self).drop_node(name).done()

    def with_queue(self, queue: Queue) -> "Snapshot":
        """With this queue, new or in place of the one of the same name."""
        return Draft(self).put_queue(queue).done()

    def without_queue(self, name: str) -> "Snapshot":
        """Without a queue; its workloads wait from now on."""
        return Draft(self).drop_queue(name).done()

    def with_workload(self, workload: Workload) -> "Snapshot":
        """With this workload, new or in place of the one of the same key."""
        return Draft(self).put_workload(workload).done()

    def without_workload(self, key: str) -> "Snapshot":
        """Without a workload and its pods."""
        return Draft(self).drop_workload(key).done()

    def with_budgets(self, budgets: Iterable[Budget]) -> "Snapshot":
        """With these disruption budgets and no others."""
        return msgspec.structs.replace(self, budgets={b.name: b for b in budgets})

    def with_promises(self, promises: Iterable[Promise]) -> "Snapshot":
        """With these promises and no others."""
        return msgspec.structs.replace(self, promises=tuple(sorted(promises, key=lambda p: (p.plan, p.pod))))

    def with_offer(self, pod: str, offer: Offer | None) -> "Snapshot":
        """With what kube-scheduler said of a pod last; None: nothing that is still fresh."""
        offers = dict(self.offers)
        offers.pop(pod, None)
        return msgspec.structs.replace(self, offers=offers | ({pod: offer} if offer else {}))

    def path(self, queue: str | None) -> tuple[str, ...]:
        """The queue's name and its ancestors' up to the root; empty when there is no such queue."""
        out: list[str] = []
        name = queue or ""
        while (found := self.queues.get(name)) is not None:
            out.append(name)
            name = found.parent
        return tuple(out)

    def claim_of(self, pod: Pod) -> Amounts:
        """What a pod counts in its queue: where it stands by its node's GPUs, waiting by the smallest ones."""
        node = self.fleet.nodes.get(pod.node) if pod.holds else None
        return claim(pod.shape, node.gpu_memory if node else self.fleet.smallest_gpu)

    @property
    def total(self) -> Amounts:
        """What the queues share: the capacity that counts, less what others' pods hold."""
        return self.fleet.capacity.minus(self.own.get("", UNUSED).allocated)


class Draft:
    """A snapshot being changed; `done` brings the derived mappings up to date."""

    def __init__(self, base: Snapshot) -> None:
        self._base = base
        self._new: dict[str, Any] = {}
        self._members: dict[str, dict[str, Pod]] = {}
        self._on_node: dict[str, dict[str, Pod]] = {}
        self._deltas: dict[str, list[int]] = {}
        self._copied: dict[str, dict[Any, dict[str, None]]] = {}
        self._tree_changed = False
        self._recount = False

    # --- changes ---

    def put_pods(self, pods: Iterable[Pod]) -> Self:
        """Add pods, or replace those of the same keys."""
        mine = self._own("pods")
        for pod in pods:
            if (old := mine.get(pod.key)) is not None:
                self._detach(old)
            mine[pod.key] = pod
            self._attach(pod)
        return self

    def drop_pods(self, keys: Iterable[str]) -> Self:
        """Take pods away."""
        mine = self._own("pods")
        for key in keys:
            if (old := mine.pop(key, None)) is not None:
                self._detach(old)
        return self

    def put_nodes(self, nodes: Iterable[Node]) -> Self:
        """Add nodes, or replace those of the same names."""
        mine = dict(self._fleet.nodes)
        for node in nodes:
            mine[node.name] = node
            self._holders(node.name)
        return self._set_nodes(mine)

    def drop_node(self, name: str) -> Self:
        """Take a node away. Pods that named it stay, but hold room nowhere."""
        self._holders(name)
        return self._set_nodes({n: node for n, node in self._fleet.nodes.items() if n != name})

    def put_queue(self, queue: Queue) -> Self:
        """Add a queue, or replace the one of the same name."""
        mine = self._own("queues")
        old = mine.get(queue.name)
        self._tree_changed |= old is None or old.parent != queue.parent
        mine[queue.name] = queue
        return self

    def drop_queue(self, name: str) -> Self:
        """Take a queue away."""
        self._tree_changed |= self._own("queues").pop(name, None) is not None
        return self

    def put_workload(self, workload: Workload) -> Self:
        """Add a workload, or replace the one of the same key."""
        members = self._team(workload.key).values()
        for pod in members:
            self._count(pod, -1)
        self._own("workloads")[workload.key] = workload
        for pod in members:
            self._count(pod, 1)
        return self

    def drop_workload(self, key: str) -> Self:
        """Take a workload and its pods away."""
        self.drop_pods(list(self._team(key)))
        self._own("workloads").pop(key, None)
        return self

    def done(self) -> Snapshot:
        """The snapshot with all changes."""
        for name, holders in self._on_node.items():
            self._settle_node(name, holders)
        for key, team in self._members.items():
            self._settle_workload(key, team)
        if self._recount:
            self._count_again()
        if self._deltas or self._tree_changed:
            self._settle_use()
        return msgspec.structs.replace(self._base, **self._new)

    # --- what is copied ---

    def _own(self, field: str) -> dict[str, Any]:
        mine: dict[str, Any] | None = self._new.get(field)
        if mine is None:
            mine = self._new[field] = dict(getattr(self._base, field))
        return mine

    def _get(self, field: str) -> Any:  # noqa: ANN401 - a field of Snapshot by its name
        return self._new[field] if field in self._new else getattr(self._base, field)

    @property
    def _fleet(self) -> Fleet:
        fleet: Fleet = self._get("fleet")
        return fleet

    def _set_nodes(self, nodes: Mapping[str, Node]) -> Self:
        old, new = self._fleet, Fleet.of(nodes)
        resized = any(pods and _gpu_memory(old, name) != _gpu_memory(new, name) for name, pods in self._on_node.items())
        self._recount |= bool(self._get("pods")) and (resized or old.smallest_gpu != new.smallest_gpu)
        self._new["fleet"] = new
        return self

    def _team(self, workload: str) -> dict[str, Pod]:
        team = self._members.get(workload)
        if team is None:
            team = self._members[workload] = {p.key: p for p in self._base.members.get(workload, ())}
        return team

    def _holders(self, node: str) -> dict[str, Pod]:
        holders = self._on_node.get(node)
        if holders is None:
            holders = self._on_node[node] = {p.key: p for p in self._base.on_node.get(node, ())}
        return holders

    # --- one pod ---

    def _attach(self, pod: Pod) -> None:
        if pod.workload:
            self._team(pod.workload)[pod.key] = pod
        if pod.holds:
            self._holders(pod.node)[pod.key] = pod
        for field, belongs in _POD_INDEXES:
            if belongs(pod):
                self._own(field)[pod.key] = pod
        self._count(pod, 1)

    def _detach(self, pod: Pod) -> None:
        if pod.workload:
            self._team(pod.workload).pop(pod.key, None)
        if pod.holds:
            self._holders(pod.node).pop(pod.key, None)
        for field, belongs in _POD_INDEXES:
            if belongs(pod):
                self._own(field).pop(pod.key, None)
        self._count(pod, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        waits = pod.state is State.PENDING and not pod.gated
        if not waits and not pod.active:
            return
        workload: Workload | None = self._get("workloads").get(pod.workload)
        label = (workload.queue or "") if workload is not None and workload.governed else ""
        node = self._fleet.nodes.get(pod.node) if pod.active else None
        amounts = claim(pod.shape, node.gpu_memory if node else self._fleet.smallest_gpu)
        delta = self._deltas.get(label)
        if delta is None:
            delta = self._deltas[label] = [0] * 9
        for n, amount in enumerate(amounts):
            delta[6 + n] += sign * amount
            if pod.active:
                delta[n] += sign * amount
                if workload is not None and not workload.preemptible:
                    delta[3 + n] += sign * amount

    # --- bringing the derived mappings up to date ---

    def _settle_node(self, name: str, holders: Mapping[str, Pod]) -> None:
        pods = tuple(holders[key] for key in sorted(holders))
        _put(self._own("on_node"), name, pods or None)
        node = self._fleet.nodes.get(name)
        before: Occupancy | None = self._base.room.get(name)
        after = occupancy(node, pods) if node is not None else None
        _put(self._own("room"), name, after)
        _put(self._own("sharing"), name, after.groups if after else None)
        was_open = name in self._base.fleet.nodes and self._base.fleet.nodes[name].open
        if before is not None and was_open:
            self._move(name, (before.idle, before.releasing), out=True)
        if after is not None and node is not None and node.open:
            self._move(name, (after.idle, after.releasing), out=False)

    def _move(self, name: str, slot: Slot, *, out: bool) -> None:
        names = self._inner("slots", slot)
        if out:
            names.pop(name, None)
        else:
            names[name] = None

    def _inner(self, field: str, key: Any) -> dict[str, None]:  # noqa: ANN401 - queue names or slots
        """The inner mapping of a two-level index, copied once."""
        copied = self._copied.setdefault(field, {})
        if key not in copied:
            copied[key] = self._own(field)[key] = dict(self._get(field).get(key, {}))
        return copied[key]

    def _settle_workload(self, key: str, team: Mapping[str, Pod]) -> None:
        pods = tuple(sorted(team.values(), key=start_order))
        _put(self._own("members"), key, pods or None)
        old: Workload | None = self._base.workloads.get(key)
        new: Workload | None = self._get("workloads").get(key)
        if old is not None:
            self._inner("waiting", old.queue or "").pop(key, None)
            self._inner("victims", (old.queue or "", old.priority)).pop(key, None)
        _put(self._own("torn"), key, new if new and _is_torn(new, pods) else None)
        if new is None or not new.governed:
            return
        if any(p.state is State.PENDING and not p.gated for p in pods):
            self._inner("waiting", new.queue or "")[key] = None
        if new.preemptible and any(p.active for p in pods):
            self._inner("victims", (new.queue or "", new.priority))[key] = None

    def _count_again(self) -> None:
        self._deltas.clear()
        self._new["own"] = {}
        self._tree_changed = True
        for pod in self._get("pods").values():
            self._count(pod, 1)

    def _settle_use(self) -> None:
        own = self._own("own")
        for label, delta in self._deltas.items():
            own[label] = _added(own.get(label, UNUSED), delta)
        changes = self._deltas
        if self._tree_changed:
            self._new["use"] = {}
            changes = {label: [*u.allocated, *u.fixed, *u.requested] for label, u in own.items()}
        queues, use = self._get("queues"), self._own("use")
        for label, delta in changes.items():
            name = label
            while (queue := queues.get(name)) is not None:
                use[name] = _added(use.get(name, UNUSED), delta)
                name = queue.parent


def start_order(pod: Pod) -> tuple[bool, int, int, str]:
    """Sort key of the pods of one workload: who starts first, and so is evicted last."""
    return (not pod.leader, -pod.task_priority, pod.created, pod.key)


def _is_torn(workload: Workload, pods: Iterable[Pod]) -> bool:
    active: dict[str, int] = {}
    for pod in pods:
        if pod.active:
            active[pod.group] = active.get(pod.group, 0) + 1
    return bool(active) and not workload.gang.stands(active)


def _added(use: QueueUse, delta: list[int]) -> QueueUse:
    a, f, r = (Amounts(*delta[n : n + 3]) for n in (0, 3, 6))
    return QueueUse(use.allocated.plus(a), use.fixed.plus(f), use.requested.plus(r))


def _gpu_memory(fleet: Fleet, name: str) -> int | None:
    node = fleet.nodes.get(name)
    return node.gpu_memory if node else None


def _put(mapping: dict[str, V], key: str, value: V | None) -> None:
    if value:
        mapping[key] = value
    else:
        mapping.pop(key, None)


_POD_INDEXES: tuple[tuple[str, Callable[[Pod], bool]], ...] = (
    ("terminating", lambda p: p.state is State.TERMINATING),
    ("nominated", lambda p: p.state is State.PENDING and bool(p.nominated)),
    ("choosy", lambda p: p.holds and bool(p.shape.pod_anti_affinity)),
)
