"""Which nodes a gang may be spread over when its pods must, or would rather, stay within one domain of a topology.

Domains that can hold all the pods are offered one after the other: the narrowest level first, from the preferred level
up to the required one; within a level those with the least room first. Pods that run already pin the required domain.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from gpuyard.engine.amounts import RATIO
from gpuyard.engine.counting import share_of_gpu
from gpuyard.engine.model import GPU, NOTHING, Amounts, Pod, Topology, TopologyConstraint
from gpuyard.engine.scratch import Scratch

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
) -> Iterable[NodeSet]:
    """The sets of nodes to try for these pods, best first; `running` are the nodes of the gang's active pods."""
    if constraint is None or not constraint.topology or not pods:
        return (within,)
    topology = scratch.snapshot.topologies.get(constraint.topology)
    levels = _levels(topology, constraint) if topology else None
    if topology is None or levels is None:
        return ()
    return _Tree(scratch, topology, pods, within).offers(constraint, levels, frozenset(running))


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
        self._pods = pods
        self._within = within
        self._nodes: dict[Domain, list[str]] = {}
        self._paths: dict[str, Domain] = {}
        free: dict[Domain, Amounts] = {}
        for name in sorted(scratch.rooms.names() if within.nodes is None else within.nodes):
            labels = scratch.rooms[name].node.labels
            path = tuple(labels[level] for level in topology.levels if level in labels)
            if len(path) == len(topology.levels):
                self._paths[name] = path
                self._nodes.setdefault(path, []).append(name)
                free[path] = free.get(path, NOTHING).plus(self._free(name))
        # From the narrowest domains up: each node is looked at once.
        for depth in range(len(topology.levels) - 1, -1, -1):
            for path in [path for path in self._nodes if len(path) == depth + 1]:
                self._nodes.setdefault(path[:depth], []).extend(self._nodes[path])
                free[path[:depth]] = free.get(path[:depth], NOTHING).plus(free[path])
        asked = self._sum(self._asked(pod) for pod in pods)
        self._ratios = {domain: _fullness(asked, left) for domain, left in free.items()}

    def offers(
        self, constraint: TopologyConstraint, levels: Sequence[int], running: frozenset[str]
    ) -> Iterator[NodeSet]:
        """The domains that can hold the pods, in the order in which they are tried."""
        top = levels[-1]
        pinned = {self._paths[name][:top] for name in running if name in self._paths} if constraint.required else set()
        scores = self._scores(levels[0]) if constraint.preferred else self._within.scores
        for depth in levels:
            found = (d for d in self._nodes if len(d) == depth and (not pinned or d[:top] in pinned) and self._holds(d))
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

    def _holds(self, domain: Domain) -> bool:
        gpus = sum(pod.shape.wants_gpu for pod in self._pods)
        if gpus not in (0, len(self._pods)):
            return self._ratios[domain] <= RATIO
        asked = [self._asked(pod) for pod in self._pods]
        largest = Amounts(*(max(column) for column in zip(*asked, strict=True)))
        return sum(self._places(name, largest) for name in self._nodes[domain]) >= len(self._pods)

    def _places(self, name: str, pod: Amounts) -> int:
        free = self._free(name)
        if 0 < pod.gpu < GPU:
            room = self._scratch.rooms[name]
            rest = sum(GPU - stays for held, stays in room.groups.values() if held or stays)
            free = free.plus(Amounts(gpu=rest))
        counts = [have // want for want, have in zip(pod, free, strict=True) if want]
        return max(0, min(counts, default=len(self._pods)))

    def _free(self, name: str) -> Amounts:
        room = self._scratch.rooms[name]
        return Amounts(room.later * GPU, room.cpu_later, room.memory_later)

    def _asked(self, pod: Pod) -> Amounts:
        shape, smallest = pod.shape, self._scratch.snapshot.fleet.smallest_gpu
        gpu = shape.gpus * GPU + (share_of_gpu(shape, smallest) * shape.devices if shape.shared else 0)
        return Amounts(gpu, shape.cpu, shape.memory)

    @staticmethod
    def _sum(amounts: Iterable[Amounts]) -> Amounts:
        total = Amounts()
        for some in amounts:
            total = total.plus(some)
        return total


def _fullness(asked: Amounts, free: Amounts) -> int:
    """The largest part that so much would take of what is free, over all resources."""
    return max(
        (want * RATIO // have if have > 0 else _NO_ROOM for want, have in zip(asked, free, strict=True) if want),
        default=0,
    )
