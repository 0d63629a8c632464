"""Which nodes a gang may be spread over when its pods must, or would rather, stay within one domain of a topology.

Domains that can hold all the pods are offered one after the other: the narrowest level first, from the preferred level
up to the required one; within a level those with the least room first. Pods that run already pin the required domain.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import reduce

import msgspec
from gpuyard.engine.model import GPU, NOTHING, Amounts, Pod, Topology, TopologyConstraint
from gpuyard.engine.model.amounts import RATIO
from gpuyard.engine.model.counting import card_size, part_of_card, share_of_gpu
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.stepwise import paused

Domain = tuple[str, ...]
"""The values of the levels' labels, the widest level first; `()` is everything."""

_NO_ROOM = 1000 * RATIO


class NodeSet(msgspec.Struct, frozen=True):
    """Nodes to try, and how much each is preferred."""

    nodes: frozenset[str] | None = None
    scores: Mapping[str, int] | None = None


EVERYWHERE = (NodeSet(),)


def node_sets(
    scratch: Scratch,
    constraint: TopologyConstraint | None,
    pods: Sequence[Pod],
    within: NodeSet,
    running: Iterable[str],
) -> Iterator[NodeSet | None]:
    """The sets of nodes to try for these pods, best first; `running` are the nodes of the gang's active pods.

    None says that others may do something before it goes on.
    """
    if constraint is None or not constraint.topology or not pods:
        yield within
        return
    topology = scratch.snapshot.topologies.get(constraint.topology)
    levels = _levels(topology, constraint) if topology else None
    if topology is not None and levels is not None:
        tree = _Tree(scratch, topology, pods, within)
        yield from tree.grow()
        yield from tree.offers(constraint, levels, frozenset(running))


def _levels(topology: Topology, constraint: TopologyConstraint) -> list[int] | None:
    """The depths to try, the narrowest first (0 is everything); None when the topology lacks a level that is named."""
    known = {label: depth for depth, label in enumerate(topology.levels, 1)}
    wanted = [level for level in (constraint.preferred, constraint.required) if level]
    if not wanted or any(level not in known for level in wanted):
        return None
    top = known[constraint.required] if constraint.required else 0
    bottom = known[constraint.preferred] if constraint.preferred else top
    return list(range(max(top, bottom), top - 1, -1))


class _Tree:
    """The domains of a topology over some nodes, with what is free in each."""

    def __init__(self, scratch: Scratch, topology: Topology, pods: Sequence[Pod], within: NodeSet) -> None:
        self._scratch = scratch
        self._levels = topology.levels
        self._within = within
        self._pods = len(pods)
        asked = [self._asked(pod) for pod in pods]
        self._total = reduce(Amounts.plus, asked)
        self._largest = Amounts(*map(max, zip(*asked, strict=True)))
        shapes = {pod.shape for pod in pods}
        self._parts = shapes if all(shape.shared for shape in shapes) else set()
        self._alike = len({pod.shape.wants_gpu for pod in pods}) == 1
        self._nodes: dict[Domain, list[str]] = {}
        self._paths: dict[str, Domain] = {}
        self._ratios: dict[Domain, int] = {}

    def grow(self) -> Iterator[None]:
        """Look at all nodes, from the narrowest domains up, so that each is looked at once."""
        free: dict[Domain, Amounts] = {}
        rooms, within = self._scratch.rooms, self._within.nodes
        for name in paused(rooms.names() if within is None else within):
            if name is None:
                yield
                continue
            labels = rooms[name].node.labels
            path = tuple(labels[level] for level in self._levels if level in labels)
            if len(path) == len(self._levels):
                self._paths[name] = path
                self._nodes.setdefault(path, []).append(name)
                free[path] = free.get(path, NOTHING).plus(self._free(name))
        for depth in range(len(self._levels), -1, -1):
            for domain in paused([one for one in self._nodes if len(one) == depth]):
                if domain is None:
                    yield
                    continue
                self._ratios[domain] = _fullness(self._total, free[domain])
                if domain:
                    above = domain[:-1]
                    self._nodes.setdefault(above, []).extend(self._nodes[domain])
                    free[above] = free.get(above, NOTHING).plus(free[domain])

    def offers(
        self, constraint: TopologyConstraint, levels: Sequence[int], running: frozenset[str]
    ) -> Iterator[NodeSet | None]:
        """The domains that can hold the pods, in the order in which they are tried."""
        top = levels[-1]
        pinned = {self._paths[name][:top] for name in running if name in self._paths} if constraint.required else set()
        scores = self._scores(levels[0]) if constraint.preferred else self._within.scores
        for depth in levels:
            found = list[Domain]()
            for domain in [d for d in self._nodes if len(d) == depth and (not pinned or d[:top] in pinned)]:
                yield None
                if (yield from self._holds(domain)):
                    found.append(domain)
            for domain in sorted(found, key=self._order):
                yield NodeSet(frozenset(self._nodes[domain]), scores)

    def _order(self, domain: Domain) -> list[tuple[int, str]]:
        """Fuller domains first, at each level on the way down; then by name."""
        ways = (domain[:depth] for depth in range(1, len(domain) + 1))
        return [(-self._ratios[way], way[-1]) for way in ways]

    def _scores(self, depth: int) -> dict[str, int]:
        ordered = sorted((d for d in self._nodes if len(d) == depth), key=self._order)
        return {
            name: (place * 10) // len(ordered)
            for place, domain in enumerate(ordered, 1)
            for name in self._nodes[domain]
        }

    def _holds(self, domain: Domain) -> Generator[None, None, bool]:
        """Whether a domain can hold the pods."""
        if not self._alike:
            return self._ratios[domain] <= RATIO
        places = 0
        for name in paused(self._nodes[domain]):
            if name is None:
                yield
            elif (places := places + self._places(name)) >= self._pods:
                return True
        return False

    def _places(self, name: str) -> int:
        """How many of the largest pods find room on a node."""
        free, pod = self._free(name), self._largest
        if self._parts:
            free, pod = free._replace(gpu=self._places_by_parts(name)), pod._replace(gpu=1)
        counts = [have // want for want, have in zip(pod, free, strict=True) if want]
        return max(0, min(counts, default=self._pods))

    def _places_by_parts(self, name: str) -> int:
        """How many pods find room on the GPUs of a node, where each asks for parts of GPUs."""
        room = self._scratch.rooms[name]
        memory = room.node.gpu_memory
        size, part = card_size(memory), max(part_of_card(shape, memory) for shape in self._parts)
        shared = sum((size - stays) // part for _, stays in room.groups.values() if stays)
        return (max(0, room.later) * (size // part) + shared) // max(shape.devices for shape in self._parts)

    def _free(self, name: str) -> Amounts:
        room = self._scratch.rooms[name]
        return Amounts(room.later * GPU, room.cpu_later, room.memory_later)

    def _asked(self, pod: Pod) -> Amounts:
        shape, smallest = pod.shape, self._scratch.snapshot.fleet.smallest_gpu
        gpu = shape.gpus * GPU + (share_of_gpu(shape, smallest) * shape.devices if shape.shared else 0)
        return Amounts(gpu, shape.cpu, shape.memory)


def _fullness(asked: Amounts, free: Amounts) -> int:
    """The largest part that so much would take of what is free, over all resources."""
    return max(
        (want * RATIO // have if have > 0 else _NO_ROOM for want, have in zip(asked, free, strict=True) if want),
        default=0,
    )
