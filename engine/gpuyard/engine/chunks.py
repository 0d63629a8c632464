"""Pods that are evicted together, and where they stood."""

from collections.abc import Iterable

import msgspec
from gpuyard.engine.model import NOTHING, Amounts, Pod
from gpuyard.engine.scratch import Place, Scratch


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
