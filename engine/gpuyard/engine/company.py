"""Pod affinity and anti-affinity: who is where, domain by domain.

Pods on their way out do not count for a promise, but they do for a start: nobody is bound next to a pod that he must
not meet before that one has left.
"""

from collections.abc import Iterator

from gpuyard.engine.constraints import looks_for
from gpuyard.engine.model import Pod, PodTerm
from gpuyard.engine.scratch import ACTIVE, Scratch, Status


class Company:
    """Answers for one scratch."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._nodes = scratch.snapshot.fleet.nodes

    def concerns(self, pod: Pod) -> bool:
        """Whether a pod's place depends on other pods at all."""
        shape = pod.shape
        return bool(
            shape.pod_affinity or shape.pod_anti_affinity or (self._scratch.choosy and any(self._avoiders(pod)))
        )

    def allows(self, pod: Pod, node: str, *, now: bool = False) -> bool:
        """Whether the pod may be on the node with the others that stay; with `now` also with those on their way out."""
        if not self.concerns(pod):
            return True
        return (
            not any(self._repels(avoider, term, node, now=now) for avoider, term in self._avoiders(pod))
            and not any(self._meets(pod, t, node, now=now) for t in pod.shape.pod_anti_affinity if not t.weight)
            and all(self._welcomes(pod, t, node) for t in pod.shape.pod_affinity if not t.weight)
        )

    def preference(self, pod: Pod, node: str) -> int:
        """The wishes about other pods that a node fulfils, by weight."""
        near = sum(t.weight for t in pod.shape.pod_affinity if t.weight and self._meets(pod, t, node))
        far = sum(t.weight for t in pod.shape.pod_anti_affinity if t.weight and self._meets(pod, t, node))
        return near - far

    def _avoiders(self, pod: Pod) -> Iterator[tuple[Pod, PodTerm]]:
        for other in self._scratch.choosy.values():
            for term in other.shape.pod_anti_affinity:
                if not term.weight and other.key != pod.key and looks_for(term, other, pod):
                    yield other, term

    def _repels(self, avoider: Pod, term: PodTerm, node: str, *, now: bool) -> bool:
        return any(self._same_domain(term, there, node) for there in self._whereabouts(avoider, now=now))

    def _meets(self, pod: Pod, term: PodTerm, node: str, *, now: bool = False) -> bool:
        return any(
            self._same_domain(term, there, node)
            for other in self._others(pod, term)
            for there in self._whereabouts(other, now=now)
        )

    def _welcomes(self, pod: Pod, term: PodTerm, node: str) -> bool:
        if self._meets(pod, term, node):
            return True
        first = looks_for(term, pod, pod) and not any(
            True for other in self._others(pod, term) for _ in self._whereabouts(other, now=False)
        )
        return first and term.topology_key in self._nodes[node].labels

    def _others(self, pod: Pod, term: PodTerm) -> Iterator[Pod]:
        return (p for p in self._scratch.snapshot.pods.values() if p.key != pod.key and looks_for(term, pod, p))

    def _whereabouts(self, pod: Pod, *, now: bool) -> Iterator[str]:
        """The nodes where a pod is or will be; with `now` also the one that it leaves."""
        place = self._scratch.place(pod)
        if place.status in ACTIVE:
            yield place.node
        if now and pod.holds and place.status in (Status.EVICTED, Status.MOVED, Status.GONE):
            yield pod.node

    def _same_domain(self, term: PodTerm, there: str, node: str) -> bool:
        if there not in self._nodes:
            return False
        mine = self._nodes[node].labels.get(term.topology_key)
        return mine is not None and mine == self._nodes[there].labels.get(term.topology_key)
