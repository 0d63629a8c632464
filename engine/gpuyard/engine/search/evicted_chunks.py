"""Pods that are evicted together, and where they stood."""

from collections.abc import Iterable, Mapping

import msgspec
from gpuyard.engine.model import NOTHING, Amounts, Pod
from gpuyard.engine.placing.scratch import Place, Scratch


class Chunk(msgspec.Struct, frozen=True, eq=False):
    """Pods of one workload that are evicted together, and their places before."""

    workload: str
    pods: tuple[Pod, ...]
    places: tuple[Place, ...]

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes that they stand on."""
        return frozenset(place.node for place in self.places)

    def counts(self, scratch: Scratch, pods: Iterable[Pod]) -> Amounts:
        """What some of its pods counted in their queue."""
        node = {pod.key: place.node for pod, place in zip(self.pods, self.places, strict=True)}
        total = NOTHING
        for pod in pods:
            total = total.plus(scratch.claim(pod, node[pod.key]))
        return total


Chunks = tuple[Chunk, ...]


def freed_gpus(chunks: Iterable[Chunk]) -> Mapping[str, int]:
    """Whole GPUs by node, a shared one counted once for every pod on it."""
    out: dict[str, int] = {}
    for chunk in chunks:
        for pod, place in zip(chunk.pods, chunk.places, strict=True):
            out[place.node] = out.get(place.node, 0) + (pod.shape.gpus or len(place.groups))
    return out


class Gathered:
    """Chunks in order, by the nodes that their workloads stand on."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._numbers: dict[str, list[int]] = {}
        self._workloads: dict[str, set[str]] = {}
        self.freed: dict[str, int] = {}
        """The whole GPUs that they free, by node."""

    def add(self, chunk: Chunk) -> None:
        """Take in the next one."""
        self._numbers.setdefault(chunk.workload, []).append(len(self._chunks))
        self._chunks.append(chunk)
        for node, gpus in freed_gpus([chunk]).items():
            self.freed[node] = self.freed.get(node, 0) + gpus
            self._workloads.setdefault(node, set()).add(chunk.workload)

    def touching(self, node: str) -> Iterable[int]:
        """The numbers of all chunks of the workloads that stand on a node."""
        return (number for key in self._workloads[node] for number in self._numbers[key])

    def some(self, numbers: Iterable[int]) -> Chunks:
        """The chunks of these numbers, in order."""
        return tuple(self._chunks[number] for number in sorted(numbers))
