"""Where a pod goes: of the nodes that suit and have room, the best by this list, the first difference deciding.

    1  the node it is promised
    2  the preferences of the pod itself (node affinity, pod affinity)
    3  the order of the topology's preferred domains
    4  for part of a GPU, if the strategy joins first: a shared GPU that has room
    5  room now rather than later
    6  for a pod without GPU: a node without GPUs
    7  the strategy, by the free GPUs (or millicores) after what is on its way out: `pack` the fewest, `spread` the most
    8  for part of a GPU, the strategy by the free memory of the GPU that it gets
    9  name

Where no preference and no topology ranks the nodes, the indexes of `Rooms` give them in this order, and the first
that will do is the best; else every node that suits is looked at.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from heapq import merge
from itertools import groupby

import msgspec
from gpuyard.engine.model import Offer, Pod, Shape
from gpuyard.engine.model.constraints import look_for_suited, preference, suited
from gpuyard.engine.placing.node_room import Room
from gpuyard.engine.placing.pod_affinity import Company, Wishes
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.placing.strategies import Strategy
from gpuyard.engine.rules.gangs import Team
from gpuyard.engine.stepwise import paused

Nodes = frozenset[str] | None
"""Some nodes, or None for all open ones."""


class Spot(msgspec.Struct, frozen=True, gc=False):
    """A place found for a pod."""

    node: str
    groups: tuple[str, ...]
    now: bool
    """Whether the room is free already."""


class Standing(msgspec.Struct, frozen=True):
    """A place that a pod was promised before this cycle."""

    node: str
    groups: tuple[str, ...] = ()


Search = Generator[None, None, Spot | None]
"""Pauses for others to do something; returns the place found."""

Check = Callable[[Room, Shape], bool]

_NO_OFFER = Offer()


def order(room: Room, shape: Shape, strategy: Strategy) -> tuple[int, ...]:
    """Where a node with room stands by the items 4 to 8 of the list, the lowest first."""
    return (
        -(shape.shared and strategy.joins_first and room.could_join(shape)),
        -room.fits_now(shape),
        0 if shape.wants_gpu or not room.node.gpus else 1,
        strategy.rank(room.later if shape.wants_gpu else room.cpu_later),
        strategy.rank(room.best_card(shape, strategy)) if shape.shared else 0,
    )


class Placer:
    """Finds places on a scratch. `standing` are the promises made earlier, by pod."""

    def __init__(
        self, scratch: Scratch, strategy: Strategy, standing: Mapping[str, Standing], *, moves_bare: bool = True
    ) -> None:
        self._scratch = scratch
        self._rooms = scratch.rooms
        self._fleet = scratch.snapshot.fleet
        self._strategy = strategy
        self._standing = standing
        self._moves_bare = moves_bare
        self.company = Company(scratch)
        self.shut: frozenset[str] = frozenset()
        """Nodes that are kept empty for now."""

    def find(self, pod: Pod, within: Nodes = None, scores: Mapping[str, int] | None = None) -> Search:
        """The best place for a pod, if there is one, among the nodes `within`; `scores` rank the topology's domains."""
        if self.is_fixed(pod):
            return (yield from self._home(pod, within))
        return (yield from self._anywhere(pod, within, scores))

    def _anywhere(self, pod: Pod, within: Nodes, scores: Mapping[str, int] | None) -> Search:
        nodes = self.nodes_for(pod, within)
        wishes = yield from self.company.of(pod)
        promised = self._promised(pod, nodes, wishes)
        if promised is not None:
            return promised
        if scores or pod.shape.preferred or (wishes is not None and wishes.rank):
            return (yield from self._best(pod, self._all(nodes), scores or {}, wishes))
        if pod.shape.gpus:
            return (yield from self._by_index(pod, nodes, wishes))
        if pod.shape.shared:
            if not self._strategy.joins_first:
                return (yield from self._best(pod, self._all(nodes), {}, wishes))
            joined = yield from self._best(pod, self._sharing(nodes), {}, wishes, joins=True)
            return joined or (yield from self._by_index(pod, nodes, wishes))
        found = yield from self._by_cpu(pod, nodes, wishes, Room.fits_now)
        return found or (yield from self._by_cpu(pod, nodes, wishes, _always))

    def is_fixed(self, pod: Pod) -> bool:
        """Whether a running pod cannot be moved, since nobody would create it again on another node."""
        return pod.bare and bool(pod.node) and not self._moves_bare

    def _home(self, pod: Pod, within: Nodes) -> Search:
        """The place on which a pod has stood until now, the only one for a pod that is not moved."""
        if (within is None or pod.node in within) and (yield from self.has_room(pod, pod.node, pod.gpu_groups)):
            return Spot(pod.node, pod.gpu_groups, now=False)
        return None

    def prepare(self, team: Team) -> Iterator[None]:
        """Make the indexes that the pods of a workload will need, a little at a time."""
        yield from self._rooms.order_shelves()
        for shape in {pod.shape for pod in team.pods}:
            yield from look_for_suited(self._fleet, shape)
        if not all(pod.shape.wants_gpu for pod in team.pods):
            yield from self._rooms.order_by_cpu(self._strategy)

    def has_room(self, pod: Pod, node: str, groups: tuple[str, ...]) -> Generator[None, None, bool]:
        """Whether this very place has room for a pod, later if not now."""
        room = self._rooms[node]
        if not (room.fits_later(pod.shape) and room.takes(pod.shape, groups)):
            return False
        wishes = yield from self.company.of(pod)
        return wishes is None or wishes.allow(node)

    def dissolve(self) -> Iterator[None]:
        """Take apart what it remembers, in steps; nobody may use it any more."""
        yield from self.company.dissolve()

    def nodes_for(self, pod: Pod, within: Nodes = None) -> Nodes:
        """The nodes that suit a pod by labels, taints and kube-scheduler's own word; None: all open ones."""
        nodes = suited(self._fleet, pod.shape)
        offer = self._scratch.snapshot.offers.get(pod.key, _NO_OFFER)
        for some in (within, offer.nodes):
            if some is not None:
                nodes = some if nodes is None else nodes & some
        closed = self.shut | offer.refused
        if closed:
            nodes = (frozenset(self._rooms.names()) if nodes is None else nodes) - closed
        return nodes

    def _promised(self, pod: Pod, nodes: Nodes, wishes: Wishes | None) -> Spot | None:
        standing = self._standing.get(pod.key)
        if standing is None or standing.node not in self._rooms or not (nodes is None or standing.node in nodes):
            return None
        room = self._rooms[standing.node]
        if not room.node.open or not room.fits_later(pod.shape) or not (wishes is None or wishes.allow(standing.node)):
            return None
        return self._spot(pod, room, wishes)

    def _all(self, nodes: Nodes) -> Iterable[str]:
        return self._rooms.names() if nodes is None else nodes

    def _sharing(self, nodes: Nodes) -> Iterable[str]:
        """The nodes with shared GPUs."""
        return list(self._rooms.shared) if nodes is None else self._rooms.shared & nodes

    def _by_index(self, pod: Pod, nodes: Nodes, wishes: Wishes | None) -> Search:
        """The best node for whole GPUs, or for new shared ones, through the index."""
        gpus = pod.shape.gpus or pod.shape.devices
        slots = self._strategy.fitting(self._rooms.slots(), gpus)
        ready = [slot for slot in slots if slot[0] >= gpus]
        found = yield from self._first(ready, pod, nodes, wishes, Room.fits_now)
        return found or (yield from self._first(slots, pod, nodes, wishes, _always))

    def _first(
        self, slots: list[tuple[int, int]], pod: Pod, nodes: Nodes, wishes: Wishes | None, check: Check
    ) -> Search:
        for _, level in groupby(slots, key=lambda slot: slot[1]):
            shelves = [self._rooms.shelf(slot) for slot in level]
            for name in paused(shelves[0] if len(shelves) == 1 else merge(*shelves)):
                if name is None:
                    yield
                elif nodes is None or name in nodes:
                    room = self._rooms[name]
                    fits = room.node.open and room.fits_later(pod.shape) and check(room, pod.shape)
                    if fits and (wishes is None or wishes.allow(name)):
                        return self._spot(pod, room, wishes)
        return None

    def _by_cpu(self, pod: Pod, nodes: Nodes, wishes: Wishes | None, check: Check) -> Search:
        """The best node for a pod without GPUs, through the index of millicores."""
        for name in paused(self._rooms.with_cpu(pod.shape.cpu, self._strategy)):
            if name is None:
                yield
            elif nodes is None or name in nodes:
                room = self._rooms[name]
                fits = room.fits_later(pod.shape) and check(room, pod.shape)
                if fits and (wishes is None or wishes.allow(name)):
                    return self._spot(pod, room, wishes)
        return None

    def _best(
        self,
        pod: Pod,
        names: Iterable[str],
        scores: Mapping[str, int],
        wishes: Wishes | None = None,
        *,
        joins: bool = False,
    ) -> Search:
        """The best of the nodes named, each looked at; with `joins` of those with a shared GPU to join."""
        best: tuple[tuple[int, ...], str] | None = None
        for name in paused(names):
            if name is None:
                yield
                continue
            room = self._rooms[name]
            if not room.node.open or not room.fits_later(pod.shape) or (joins and not room.could_join(pod.shape)):
                continue
            if wishes is None or wishes.allow(name):
                found = (self._key(pod, room, scores, wishes), name)
                if best is None or found < best:
                    best = found
        return self._spot(pod, self._rooms[best[1]], wishes) if best else None

    def _key(self, pod: Pod, room: Room, scores: Mapping[str, int], wishes: Wishes | None) -> tuple[int, ...]:
        return (
            -preference(pod.shape, room.node) - (wishes.preference(room.node.name) if wishes else 0),
            -scores.get(room.node.name, 0),
            *order(room, pod.shape, self._strategy),
        )

    def _spot(self, pod: Pod, room: Room, wishes: Wishes | None) -> Spot:
        spot = self._spot_in(pod, room)
        if spot.now and wishes is not None and not wishes.allow(spot.node, now=True):
            return msgspec.structs.replace(spot, now=False)
        return spot

    def _spot_in(self, pod: Pod, room: Room) -> Spot:
        if not pod.shape.shared:
            return Spot(room.node.name, (), room.fits_now(pod.shape))
        own = pod.gpu_groups if pod.node == room.node.name else ()
        groups = room.choose_groups(pod.shape, own, self._strategy)
        return Spot(room.node.name, groups, room.fits_now(pod.shape) and room.has_now(pod.shape, groups))


def _always(_room: Room, _shape: Shape) -> bool:
    return True
