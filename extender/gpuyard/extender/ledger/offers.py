"""The nodes that kube-scheduler last offered each waiting pod.

Pods of one kind are offered the same nodes, on a large cluster thousands of names, and several kinds take turns. So
equal lists are kept once, whoever was asked about in between, and a list goes with the last pod that was offered it.
Where pods are offered ever different lists, those that were offered longest ago are forgotten: their pods count as pods
whose offer has grown old.

Decided in docs/decisions.md: "A waiting pod remembers the nodes that it was offered, within a bound".
"""

from collections.abc import Collection

import msgspec
from gpuyard.engine.model import Pod

NAMES = 2_000_000
"""Names in all the lists that are kept: some 130 MiB, or 400 different lists of 5,000 nodes."""

_NEVER = float("-inf")
_FORGOTTEN = frozenset[str]()


class _List(msgspec.Struct):
    """The names of some nodes, for all the pods that were offered these."""

    nodes: frozenset[str]
    pods: int = 0
    kept: bool = True


class _Offer(msgspec.Struct, frozen=True):
    """What kube-scheduler offered one pod, and when."""

    uid: str
    names: _List
    at: float


class Offers:
    """The last offer of each pod, by the pod's key. Times are seconds of one monotonic clock."""

    def __init__(self, most: int = NAMES) -> None:
        self.names = 0
        """How many names all the lists have together."""
        self._most = most
        self._offers: dict[str, _Offer] = {}
        self._lists: dict[frozenset[str], _List] = {}
        """The one that was offered longest ago first."""

    def put(self, pod: Pod, nodes: Collection[str], at: float) -> None:
        """kube-scheduler offers these nodes to this pod."""
        found = self._list_of(frozenset(nodes))
        found.pods += 1
        self.drop(pod.key)
        self._offers[pod.key] = _Offer(pod.uid, found, at)
        while self.names > self._most and len(self._lists) > 1:
            self._forget(next(iter(self._lists.values())))

    def drop(self, key: str) -> None:
        """Nobody asks any more what this pod was offered."""
        offer = self._offers.pop(key, None)
        if offer is not None:
            offer.names.pods -= 1
            if not offer.names.pods and offer.names.kept:
                self._forget(offer.names)

    def since(self, pod: Pod, since: float) -> frozenset[str] | None:
        """The nodes that were offered to this pod since then; None: none were.

        Of a forgotten list the names are gone: it counts as one without names, offered before any time.
        """
        offer = self._offers.get(pod.key)
        if offer is None or offer.uid != pod.uid:
            return None
        return offer.names.nodes if (offer.at if offer.names.kept else _NEVER) >= since else None

    def last(self, pod: Pod) -> float | None:
        """When this pod was last offered nodes; None: never."""
        offer = self._offers.get(pod.key)
        return offer.at if offer is not None and offer.uid == pod.uid else None

    def _list_of(self, nodes: frozenset[str]) -> _List:
        found = self._lists.pop(nodes, None)
        if found is None:
            found = _List(nodes)
            self.names += len(nodes)
        self._lists[found.nodes] = found
        return found

    def _forget(self, names: _List) -> None:
        del self._lists[names.nodes]
        self.names -= len(names.nodes)
        names.nodes, names.kept = _FORGOTTEN, False


def among(known: frozenset[str], offered: Collection[str]) -> frozenset[str]:
    """Those of the known nodes that are offered, each once; `known` itself where all are.

    A set of thousands of names takes half a MiB, which each call would get from the kernel and give back.
    """
    return known if len(offered) == len(known) and known.issuperset(offered) else known.intersection(offered)
