"""Cheap looks ahead of the search for victims: what cannot work for want of room alone is not tried.

`Clearing` asks of a node what it would hold without all that could ever be evicted from it. `Hope` asks of a set of
victims whether the pods could fit without them. Both only rule out: where they see hope, a trial decides.

Decided in docs/decisions.md: "Nobody is tried where no room can come of it".
"""

from collections.abc import Generator, Mapping, Sequence

from gpuyard.engine.model import Node, Pod, Shape
from gpuyard.engine.placing.node_room import Room
from gpuyard.engine.placing.placement import Nodes
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.search.evicted_chunks import Chunk, Chunks, freed_gpus

Space = tuple[int, int, int, int]
"""Whole GPUs, millicores, bytes, pods."""

_COUNTED = 8
"""Nodes whose pods are counted between two pauses."""

_COMPARED = 128
"""Nodes that are compared between two pauses."""


def taken_by(shape: Shape, groups: int = 0) -> Space:
    """What a pod takes; of shared GPUs each counts as a whole one when it leaves, and as none when it comes."""
    return (shape.gpus or groups, shape.cpu, shape.memory, 1)


def holds(space: Space, need: Space) -> bool:
    """Whether a space is enough."""
    return space[0] >= need[0] and space[1] >= need[1] and space[2] >= need[2] and space[3] >= need[3]


def _more(space: Space, by: Space) -> Space:
    return (space[0] + by[0], space[1] + by[1], space[2] + by[2], space[3] + by[3])


class Clearing:
    """What each open node would hold if all that may ever be evicted had left, counted once for a cycle."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._spaces: Mapping[str, Space] | None = None
        self._known: dict[tuple[Space, Nodes], bool] = {}

    def could_hold(self, shape: Shape, nodes: Nodes) -> Generator[None, None, bool]:
        """Whether one of these nodes (None: any) would hold a pod of this shape; looks at a few at a time."""
        key = (taken_by(shape), nodes)
        found = self._known.get(key)
        if found is None:
            spaces = yield from self._counted()
            found = self._known[key] = yield from _any_holds(spaces, *key)
        return found

    def _counted(self) -> Generator[None, None, Mapping[str, Space]]:
        if self._spaces is None:
            spaces: dict[str, Space] = {}
            for n, node in enumerate(self._scratch.snapshot.fleet.nodes.values(), 1):
                if node.open:
                    spaces[node.name] = self._space(node)
                if not n % _COUNTED:
                    yield
            self._spaces = spaces
        return self._spaces

    def _space(self, node: Node) -> Space:
        gpus, cpu, memory, pods = node.gpus, node.cpu, node.memory, node.pods
        workloads = self._scratch.snapshot.workloads
        for pod in self._scratch.snapshot.on_node.get(node.name, ()):
            workload = workloads.get(pod.workload)
            stays = workload is None or not (workload.preemptible and workload.governed)
            if pod.active and stays:
                gpus -= pod.shape.gpus
                cpu -= pod.shape.cpu
                memory -= pod.shape.memory
                pods -= 1
        return (gpus, cpu, memory, pods)


def _any_holds(spaces: Mapping[str, Space], need: Space, nodes: Nodes) -> Generator[None, None, bool]:
    for n, (name, space) in enumerate(spaces.items(), 1):
        if holds(space, need) and (nodes is None or name in nodes):
            return True
        if not n % _COMPARED:
            yield
    return False


class Hope:
    """Could the pods fit by room alone, were some victims away?

    Where all victims must have places again (`all_return`), those that are no smaller than the pods need as much room.
    """

    def __init__(self, scratch: Scratch, pods: Sequence[Pod], *, all_return: bool) -> None:
        self._rooms = scratch.rooms
        self._all_return = all_return
        sizes = {pod.shape.gpus for pod in pods}
        self._size = sizes.pop() if len(sizes) == 1 else 0
        self._count = len(pods)
        self._need = _smallest([taken_by(pod.shape) for pod in pods])
        company = any(pod.shape.pod_affinity or pod.shape.pod_anti_affinity for pod in pods)
        self._by_room = not (company or scratch.has_avoiding)
        """Whether room decides: somebody who keeps the pods away elsewhere may be worth an eviction as well."""
        self._freed_on: dict[str, Space] = {}
        self._free = 0
        if self._size:
            slots = self._rooms.slots()
            self._free = sum(later // self._size * self._rooms.count((now, later)) for now, later in slots if later > 0)

    def enough(self, chunks: Chunks) -> bool:
        """Whether it is worth a trial to take these chunks away."""
        return self.lacking(chunks) <= 0

    def gains(self, node: str, chunk: Chunk) -> bool:
        """Whether one chunk more can make a difference on its node, with those told of before."""
        freed = self._freed_on.get(node, (0, 0, 0, 0))
        for pod, place in zip(chunk.pods, chunk.places, strict=True):
            if place.node == node:
                freed = _more(freed, taken_by(pod.shape, len(place.groups)))
        self._freed_on[node] = freed
        space = _more(_left(self._rooms[node]), freed)
        return holds(space, self._need) if self._by_room else space[0] >= self._size

    def lacking(self, chunks: Chunks) -> int:
        """For how many pods whole GPUs would be missing without these chunks; only pods of one size are counted."""
        if not self._size:
            return 0
        gained = sum(self._gain(node, gpus) for node, gpus in freed_gpus(chunks).items())
        return self._count - self._free - gained + sum(map(self._returning, chunks))

    def loss(self, chunk: Chunk, freed: Mapping[str, int]) -> int:
        """For how many pods fewer there would be room if one of the chunks stayed that have freed so many GPUs."""
        if not self._size:
            return 0
        stay = freed_gpus([chunk])
        lost = sum(self._gain(node, freed[node]) - self._gain(node, freed[node] - gpus) for node, gpus in stay.items())
        return lost - self._returning(chunk)

    def _gain(self, node: str, freed: int) -> int:
        """For how many pods more a node has whole GPUs once so many are freed."""
        room = self._rooms[node]
        return max(0, room.later + freed) // self._size - max(0, room.later) // self._size if room.node.open else 0

    def _returning(self, chunk: Chunk) -> int:
        """How many pods of a chunk need as much room as the pods, as they must have places again."""
        return sum(pod.shape.gpus >= self._size for pod in chunk.pods) if self._all_return else 0


def _left(room: Room) -> Space:
    return (room.later, room.cpu_later, room.memory_later, room.pods_later)


def _smallest(needs: Sequence[Space]) -> Space:
    """What the least demanding pod would need, resource by resource; where none asks for any, nothing."""
    gpus, cpu, memory, pods = (min(column) for column in zip(*needs, strict=True))
    return (gpus, cpu, memory, pods)
