"""Whether a node that kube-scheduler offers has room for a pod in truth.

It counts whole GPUs itself, and what it has assumed but not bound. It does not know of room that is kept for others,
nor of parts of GPUs. Where one of these is in play we count ourselves; a pod in flight then counts on each node that it
may land on. Room for whole GPUs that a plan keeps is not kept from a pod of the same queue with a higher priority.

Decided in docs/decisions.md: "Kept room yields to a higher priority of its own queue".
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from gpuyard.engine.model import Pod, Promise, Shape
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.node_room import Room
from gpuyard.engine.placing.placement import order
from gpuyard.engine.placing.strategies import Strategy
from gpuyard.extender.ledger import Ledger


class Part(NamedTuple):
    """What a pod takes of a node; without `groups` nobody knows yet which shared GPUs."""

    shape: Shape
    groups: tuple[str, ...] = ()


class NodeRoom:
    """The room for one pod; `view` is the cluster in which nothing was granted to it.

    By the strategy nodes are ranked, and parts of GPUs counted that have no GPU yet: on those that they would get.
    """

    def __init__(self, view: Snapshot, ledger: Ledger, pod: Pod, strategy: Strategy) -> None:
        self._view = view
        self._ledger = ledger
        self._pod = pod
        self._strategy = strategy
        self._shape = pod.shape
        self._own = ledger.promises.own(pod)
        self._workload = view.workloads.get(pod.workload)
        unseen = view.sharing or ledger.promises.all or ledger.kept or ledger.in_flight.sharing
        self.sees_all = not (unseen or self._shape.shared)
        """Whether kube-scheduler sees on each node all that matters, so that what it offers fits."""

    @property
    def promised(self) -> Iterator[tuple[str, Part]]:
        """What plans keep for others, by node."""
        kept = filter(self._heeds, self._ledger.promises.open(self._pod))
        return ((one.node, Part(one.shape, one.gpu_groups)) for one in kept)

    def is_kept(self, nodes: Collection[str]) -> bool:
        """Whether on one of these nodes room is kept for somebody else."""
        kept = {*self._ledger.in_flight.kept.values(), *self._ledger.promises.gpus}
        return any(node in nodes and self._keeps(node) for node in kept)

    def _keeps(self, node: str) -> bool:
        if self._ledger.in_flight.keeps(node, self._pod.key):
            return True
        return next(self._kept_on(node), None) is not None

    def _kept_on(self, node: str) -> Iterator[Promise]:
        """What plans keep there from the pod."""
        return filter(self._heeds, self._ledger.promises.open_on(node, self._own))

    def _heeds(self, promise: Promise) -> bool:
        """Whether a promise to another pod keeps room from this one."""
        workload = self._workload
        if workload is None or not workload.governed or promise.shape.shared or self._shape.shared:
            # Whoever has a part of a GPU promised takes it unseen: kube-scheduler would not notice that it is gone.
            return True
        return workload.queue != promise.queue or workload.priority <= promise.priority

    def _is_unseen(self, node: str) -> bool:
        """Whether something there matters of which kube-scheduler knows nothing."""
        if node in self._view.sharing or self._keeps(node):
            return True
        if not self._ledger.in_flight.sharing:
            return False
        return any(pod.shape.shared and pod.key != self._pod.key for pod in self._ledger.in_flight.landing_on(node))

    def fits(self, node: str, gone: Iterable[Pod] = ()) -> bool:
        """Whether the pod has room there now, as far as kube-scheduler cannot tell, once these others are gone."""
        if self.sees_all or not (self._shape.shared or self._is_unseen(node)):
            return True
        return self.has_room(node, gone)

    def has_room(self, node: str, gone: Iterable[Pod] = ()) -> bool:
        """Whether the pod has room there now by our own count, once these others are gone."""
        room = self.cleared(node, gone)
        return room is not None and room.fits_now(self._shape)

    def cleared(self, node: str, gone: Iterable[Pod]) -> Room | None:
        """What there is on a known node by our own count, once these others are gone."""
        room = self._room(node)
        if room is not None:
            for pod in gone:
                # What a terminating pod leaves is counted as free later already.
                room.shift(pod.shape, pod.gpu_groups, 1, 1 if pod.active else 0)
        return room

    def shared_gpus(self, node: str) -> tuple[str, ...] | None:
        """The GPUs of a node that the pod shares from now on; None without room."""
        room = self._room(node)
        return self._gpus_for(room, self._shape) if room and room.fits_now(self._shape) else None

    def order_of_part(self, node: str) -> tuple[int, ...] | None:
        """Where a node stands for a part of a GPU, the lowest first, as in the engine's placing; None without room."""
        room = self._room(node)
        if room is None or not room.fits_now(self._shape):
            return None
        return order(room, self._shape, self._strategy)

    def _room(self, node: str) -> Room | None:
        """What others leave of a known node."""
        if node not in self._view.room:
            return None
        room = Room(self._view.fleet.nodes[node], self._view.room[node])
        for part in self._others_on(node):
            room.shift(part.shape, part.groups or self._gpus_for(room, part.shape), -1, -1)
        return room

    def is_in_use(self, node: str) -> bool:
        """Whether some GPU of a known node is taken."""
        return node in self._view.room and self._view.room[node].idle < self._view.fleet.nodes[node].gpus

    def _others_on(self, node: str) -> Iterator[Part]:
        """What is promised on a node, and what may land there."""
        for one in self._kept_on(node):
            yield Part(one.shape, one.gpu_groups)
        for pod in self._ledger.in_flight.landing_on(node):
            if pod.key != self._pod.key:
                yield Part(pod.shape)

    def _gpus_for(self, room: Room, shape: Shape) -> tuple[str, ...]:
        return room.choose_groups(shape, (), self._strategy) if shape.shared else ()
