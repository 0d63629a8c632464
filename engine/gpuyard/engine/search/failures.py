"""What has failed already, so that its like need not be tried again.

`Equals` remembers chunks of exactly the same shapes: while places only get fewer, they fail the same way, and so does
a single pod that asks for no less than one that failed, of everything, on nodes of the same kind. `Harder` is
for the searches for victims: a workload with the same constraints as one that failed, and not easier, is passed over.
Who cannot be preempted is bound by its quota as well, so that its failure says nothing of those who can.
"""

from collections.abc import Mapping, Sequence
from operator import le

from gpuyard.engine.model import Amounts, Pod, Shape
from gpuyard.engine.model.amounts import at_most
from gpuyard.engine.placing.placement import Standing
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.rules.gangs import Team

_Key = tuple[object, ...]

ChunkKey = tuple[Shape, ...]
"""The shapes of the pods of a chunk."""


class Equals:
    """Chunks that found no room, by the shapes of their pods, with the number of pods for which there was room."""

    def __init__(self) -> None:
        self._reached: dict[ChunkKey, int] = {}
        self._alone: dict[_Key, list[_Size]] = {}

    def remember(self, key: ChunkKey | None, reached: int) -> None:
        """Note a failure; a key of None is not comparable with anything."""
        if key is None or key in self._reached:
            return
        self._reached[key] = reached
        if len(key) == 1 and not self._smaller_failed(key[0]):
            self._alone.setdefault(_place(key[0]), []).append(_size(key[0]))

    def reached(self, key: ChunkKey | None) -> int | None:
        """For how many pods there was room when the same failed before; None if it did not."""
        if key is None:
            return None
        found = self._reached.get(key)
        return 0 if found is None and len(key) == 1 and self._smaller_failed(key[0]) else found

    def _smaller_failed(self, shape: Shape) -> bool:
        asked = _size(shape)
        return any(all(map(le, failed, asked)) for failed in self._alone.get(_place(shape), ()))


_Size = tuple[int, ...]


def _size(shape: Shape) -> _Size:
    return (shape.gpus, shape.fraction, shape.gpu_memory, shape.devices, shape.cpu, shape.memory)


def _place(shape: Shape) -> _Key:
    """What decides on which nodes a pod may stand, and how it asks for GPUs."""
    kind = (bool(shape.gpus), bool(shape.fraction), bool(shape.gpu_memory))
    return (shape.selector, shape.affinity, shape.tolerations, kind)


def chunk_key(team: Team, pods: Sequence[Pod]) -> ChunkKey | None:
    """What a chunk's success depends on besides the rooms, if that is all in its pods' shapes.

    Of GPU memory it also depends on the bounds of the queue, as they are known on the node alone.
    """
    gang = team.workload.gang
    if gang.parts or gang.topology or any(_looks_further(pod.shape) for pod in pods):
        return None
    return tuple(pod.shape for pod in pods)


def _looks_further(shape: Shape) -> bool:
    return bool(shape.pod_affinity or shape.pod_anti_affinity or shape.gpu_memory)


class Harder:
    """The easiest workloads that failed, by their constraints; `standing` are the places promised to pods."""

    def __init__(self, scratch: Scratch, standing: Mapping[str, Standing]) -> None:
        self._scratch = scratch
        self._standing = standing
        self._failed: dict[_Key, tuple[list[Amounts], str]] = {}

    def failed_before(self, team: Team, scope: str = "") -> str | None:
        """A workload that was not harder than this one and has failed; None if there is none."""
        failed = self._failed.get(self._key(team, scope))
        sizes = self._sizes(team)
        if failed is None or len(failed[0]) > len(sizes):
            return None
        easier = any(size != other and at_most(size, other) for size, other in zip(sizes, failed[0], strict=False))
        return None if easier else failed[1]

    def remember(self, team: Team, scope: str = "") -> None:
        """Note a failure."""
        key, sizes = self._key(team, scope), self._sizes(team)
        known = self._failed.get(key)
        smaller = known is None or (len(sizes) <= len(known[0]) and all(map(at_most, sizes, known[0])))
        if smaller:
            self._failed[key] = sizes, team.workload.key

    def _sizes(self, team: Team) -> list[Amounts]:
        """What its waiting pods ask for; GPUs in the unit of the request, which is compared with its like alone."""
        shapes = (pod.shape for pod in team.pods if self._scratch.waits(pod))
        return sorted(Amounts(s.gpus or s.fraction or s.gpu_memory, s.cpu, s.memory) for s in shapes)

    def _key(self, team: Team, scope: str) -> _Key:
        waiting = {
            (pod.group, _constraints(pod.shape), self._said_of(pod)) for pod in team.pods if self._scratch.waits(pod)
        }
        return (scope, team.workload.preemptible, team.workload.gang.topology, frozenset(waiting))

    def _said_of(self, pod: Pod) -> _Key:
        """What promises and kube-scheduler make of one pod among others of its shape."""
        offer = self._scratch.snapshot.offers.get(pod.key)
        return (self._standing.get(pod.key), offer and (offer.nodes, offer.refused))


def _constraints(shape: Shape) -> _Key:
    """All of a shape but its amounts; whole and shared GPUs do not compare."""
    return (
        shape.selector,
        shape.affinity,
        shape.pod_affinity,
        shape.pod_anti_affinity,
        shape.tolerations,
        shape.shared,
        shape.devices,
        bool(shape.gpu_memory),
    )
