"""Pod affinity and anti-affinity: which nodes a pod may be on, and prefers, because of the pods in their domains.

Pods on their way out do not count for a promise, but they do for a start: no pod is bound next to one that it must not
meet before that one has left.
"""

from collections.abc import Generator, Sequence
from typing import NamedTuple

from gpuyard.engine.model import Pod, PodTerm
from gpuyard.engine.placing.affinity_index import AffinityIndex, Group, Presence
from gpuyard.engine.placing.scratch import Scratch

Steps = Generator[None, None, None]


class Company:
    """Answers for one scratch."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._index = AffinityIndex(scratch.snapshot, scratch.changed, scratch.newcomers)

    def of(self, pod: Pod) -> "Generator[None, None, Wishes | None]":
        """What a pod and the others demand of its place now; None: it does not depend on other pods."""
        shape = pod.shape
        if not (shape.pod_affinity or shape.pod_anti_affinity or self._scratch.has_avoiding):
            return None
        # Before anybody asks there is nothing to keep current.
        self._scratch.watch = self._index.moved
        seeks = yield from self._sides(pod, shape.pod_affinity)
        avoids = yield from self._sides(pod, shape.pod_anti_affinity)
        others = []
        if self._scratch.has_avoiding:
            for group, presence in (yield from self._index.avoiding(pod)).items():
                keeps_away = any(not t.weight and Group.of(t, pod.namespace) == group for t in shape.pod_anti_affinity)
                others.append(self._side(pod, 0, presence, counted=keeps_away))
        return Wishes(seeks, avoids, others) if seeks or avoids or others else None

    def dissolve(self) -> Steps:
        """Take it apart in steps; nobody may use it any more."""
        yield from self._index.dissolve()

    def _sides(self, pod: Pod, terms: Sequence[PodTerm]) -> "Generator[None, None, list[_Side]]":
        found = []
        for term in terms:
            group = Group.of(term, pod.namespace)
            presence = yield from self._index.sought(group)
            found.append(self._side(pod, term.weight, presence, counted=group.has(pod)))
        return found

    def _side(self, pod: Pod, weight: int, presence: Presence, *, counted: bool) -> "_Side":
        own = Presence(presence.topology_key, self._scratch.snapshot.fleet.nodes)
        if counted:
            own.add(pod, self._scratch.place(pod))
        return _Side(weight, presence, own, counted)


class _Side(NamedTuple):
    """One term: where its pods are, and what of that is the pod itself, which is no company to itself."""

    weight: int
    presence: Presence
    own: Presence
    first: bool
    """Whether the term is about the pod itself."""

    def meets(self, node: str, *, now: bool = False) -> bool:
        """Whether another pod of the term is in the domain of a node."""
        domain = self.presence.domain(node)
        return self.presence.count(domain, now=now) > self.own.count(domain, now=now)

    def welcomes(self, node: str) -> bool:
        """Whether a required affinity is met: the first of those that seek their own kind may start a domain."""
        if self.meets(node):
            return True
        alone = self.presence.anywhere == self.own.anywhere
        return self.first and alone and self.presence.domain(node) is not None


class Wishes:
    """What one pod and the others demand of its place, until one of them moves."""

    def __init__(self, seeks: Sequence[_Side], avoids: Sequence[_Side], others: Sequence[_Side]) -> None:
        self._must_seek = [side for side in seeks if not side.weight]
        self._must_avoid = [*(side for side in avoids if not side.weight), *others]
        self._wishes = [
            *((side, side.weight) for side in seeks if side.weight),
            *((side, -side.weight) for side in avoids if side.weight),
        ]

    @property
    def rank(self) -> bool:
        """Whether the pod prefers some of the allowed nodes to others."""
        return bool(self._wishes)

    def allow(self, node: str, *, now: bool = False) -> bool:
        """Whether the pod may be on the node with the others that stay; with `now` also with those on their way out."""
        return not any(side.meets(node, now=now) for side in self._must_avoid) and all(
            side.welcomes(node) for side in self._must_seek
        )

    def preference(self, node: str) -> int:
        """The preferences about other pods that a node fulfils, by weight."""
        return sum(weight for side, weight in self._wishes if side.meets(node))
