"""Room that unfinished plans keep: whose it is, and where it still counts.

        made ──▶ open ──the heir is granted the place──▶ taken ──the heir is bound──▶ met
                  ▲                                        │
                  └──────────── the grant lapses ──────────┘

The heir is the pod that the promise names, while it waits; else the first of the same owner and of an equal shape that
kube-scheduler asks about. An open promise keeps its room from all but its heir; a taken one counts as its heir does.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gpuyard.engine.model import Pod, Promise

if TYPE_CHECKING:
    from gpuyard.extender.ledger import Entry


class Promises:
    """The promises of all plans, over the pods of the ledger."""

    def __init__(self, entries: Mapping[str, "Entry"]) -> None:
        self._entries = entries
        self.all: tuple[Promise, ...] = ()
        """All that stand."""
        self._by_pod: dict[str, Promise] = {}
        self._by_owner: dict[str, list[Promise]] = {}
        self._claimed: dict[tuple[str, str], str] = {}

    def put(self, promises: Iterable[Promise]) -> None:
        """These promises stand, and no others."""
        self.all = tuple(promises)
        self._by_pod = {promise.pod: promise for promise in self.all}
        self._by_owner = {}
        for promise in self.all:
            self._by_owner.setdefault(promise.owner, []).append(promise)
        names = {_name(promise) for promise in self.all}
        self._claimed = {name: pod for name, pod in self._claimed.items() if name in names}

    def of(self, pod: Pod) -> Promise | None:
        """What a waiting pod is promised; whoever of several heirs asks first gets it."""
        if named := self._by_pod.get(pod.key):
            return named
        for promise in self._by_owner.get(pod.owner, ()) if pod.owner else ():
            if promise.shape == pod.shape and self._heir(promise) in (None, pod.key):
                self._claimed[_name(promise)] = pod.key
                return promise
        return None

    def open(self, pod: Pod) -> Iterator[Promise]:
        """The promises that keep room from this pod: all that are neither its own nor taken nor met."""
        own = self.of(pod) if self.all else None
        return (promise for promise in self.all if promise is not own and not self.is_taken(promise))

    def is_taken(self, promise: Promise) -> bool:
        """Whether an heir of the promise counts on its node, granted or placed."""
        keys = (promise.pod, self._claimed.get(_name(promise), ""))
        found = (entry for key in keys if (entry := self._entries.get(key)))
        return any(entry.counted.active and entry.counted.node == promise.node for entry in found)

    def _heir(self, promise: Promise) -> str | None:
        """The waiting pod that the promise is for."""
        for key in (promise.pod, self._claimed.get(_name(promise), "")):
            entry = self._entries.get(key)
            if entry is not None and entry.seen.pod.state == "Pending":
                return key
        return None


def _name(promise: Promise) -> tuple[str, str]:
    return promise.plan, promise.pod
