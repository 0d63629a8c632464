"""What has failed already, so that its like need not be tried again.

`Equals` remembers chunks of exactly the same shapes: while places only get fewer, they fail the same way. `Harder` is
for the searches for victims: a workload with the same constraints as one that failed, and not easier, is passed over.
Who cannot be preempted is bound by its quota as well, so that its failure says nothing of those who can.
"""

from collections.abc import Mapping, Sequence

from gpuyard.engine.amounts import at_most
from gpuyard.engine.gang import Team
from gpuyard.engine.model import Amounts, Pod, Shape
from gpuyard.engine.placement import Standing
from gpuyard.engine.scratch import Scratch
from gpuyard.engine.snapshot import claim

_Key = tuple[object, ...]


class Equals:
    """Chunks that found no room, by the shapes of their pods, with the number of pods for which there was room."""

    def __init__(self) -> None:
        self._reached: dict[_Key, int] = {}

    def remember(self, key: _Key | None, reached: int) -> None:
        """Note a failure; a key of None is not comparable with anything."""
        if key is not None:
            self._reached[key] = reached

    def reached(self, key: _Key | None) -> int | None:
        """For how many pods there was room when the same failed before; None if it did not."""
        return None if key is None else self._reached.get(key)


def chunk_key(team: Team, pods: Sequence[Pod]) -> _Key | None:
    """What a chunk's success depends on besides the rooms, if that is all in its pods' shapes."""
    gang = team.workload.gang
    if gang.parts or gang.topology or any(p.shape.pod_affinity or p.shape.pod_anti_affinity for p in pods):
        return None
    return tuple(pod.shape for pod in pods)


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
        memory = self._scratch.snapshot.fleet.smallest_gpu
        return sorted(claim(pod.shape, memory) for pod in team.pods if self._scratch.waits(pod))

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
