"""Room that unfinished plans keep: whose it is, and where it still counts.

        made ──▶ open ──the heir is granted the place──▶ taken ──the heir is bound──▶ met
                  ▲                                        │
                  └──────────── the grant lapses ──────────┘

The heir is the pod that the promise names, while it waits; else the first that may inherit (`engine.promises.inherits`)
and is let through to its node: only that assigns it. An open promise keeps its room from all others but those whom
`verbs/node_room.py` lets go first; a taken one counts as its heir does.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gpuyard.engine.model import NOTHING, Amounts, Pod, Promise, Shape, State
from gpuyard.engine.rules.promises import inherits

if TYPE_CHECKING:
    from gpuyard.extender.ledger import Entry


class Share(NamedTuple):
    """What a promise takes up in its queue."""

    queue: str
    fixed: bool
    """Whether it is not preemptible."""
    amounts: Amounts


class Promises:
    """The promises of all plans, over the pods of the ledger."""

    def __init__(self, entries: Mapping[str, "Entry"]) -> None:
        self._entries = entries
        self.all: tuple[Promise, ...] = ()
        """All that stand."""
        self.gpus: dict[str, int] = {}
        """The whole GPUs that are promised, by node."""
        self.use: dict[tuple[str, bool], Amounts] = {}
        """What is promised to those who do not count yet, by queue and whether it is not preemptible."""
        self._by_pod: dict[str, Promise] = {}
        self._by_owner: dict[str, list[Promise]] = {}
        self._by_node: dict[str, list[Promise]] = {}
        self._claimed: dict[tuple[str, str], str] = {}
        self._shares: dict[tuple[str, str], Share] = {}
        self._counted: set[tuple[str, str]] = set()
        self._watched: dict[str, list[Promise]] = {}

    def put(self, promises: Iterable[Promise], share: Callable[[Promise], Share]) -> None:
        """These promises stand, and no others."""
        self.all = tuple(promises)
        self._by_pod = {promise.pod: promise for promise in self.all}
        self._by_owner, self._by_node, self._watched = {}, {}, {}
        self.gpus, self.use, self._counted = {}, {}, set()
        self._shares = {_name(promise): share(promise) for promise in self.all}
        self._claimed = {name: pod for name, pod in self._claimed.items() if name in self._shares}
        for promise in self.all:
            self._by_owner.setdefault(promise.owner, []).append(promise)
            self._by_node.setdefault(promise.node, []).append(promise)
            self.gpus[promise.node] = self.gpus.get(promise.node, 0) + promise.shape.gpus
            for pod in {promise.pod, self._claimed.get(_name(promise), promise.pod)}:
                self._watched.setdefault(pod, []).append(promise)
            self._count(promise)

    def look(self, pod: str) -> None:
        """Something has happened to this pod."""
        for promise in self._watched.get(pod, ()):
            self._count(promise)

    def of(self, pod: Pod, nodes: Collection[str] = ()) -> Promise | None:
        """What a waiting pod may inherit, on one of these nodes if possible. Asking assigns nothing."""
        meant = list(self._meant_for(pod))
        return next((promise for promise in meant if promise.node in nodes), meant[0] if meant else None)

    def matched(self, pods: Iterable[Pod]) -> Mapping[str, Promise]:
        """What these pods may inherit together, by pod: no two of them the same."""
        return {pod.key: promise for pod, promise in self._dealt(pods)}

    def assign(self, pod: Pod, node: str) -> None:
        """A pod was let through to this node: what is promised there is its own from now on, if it inherits it."""
        promise = next((one for one in self._meant_for(pod) if one.node == node), None) if self.all else None
        if promise is not None and promise.pod != pod.key and self._claimed.get(_name(promise)) != pod.key:
            self._claimed[_name(promise)] = pod.key
            self._watched.setdefault(pod.key, []).append(promise)
            self._count(promise)

    def shares_of(self, pods: Iterable[Pod]) -> Iterable[Share]:
        """What of `use` is for these pods, as far as they wait: nobody takes two, and no two take one."""
        waiting = (pod for pod in pods if pod.state is State.PENDING)
        names = (_name(promise) for _, promise in self._dealt(waiting))
        return [self._shares[name] for name in names if name in self._counted]

    def _dealt(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, Promise]]:
        """These pods with what each may inherit, no two the same; each list of promises is gone through once."""
        dealt: set[tuple[str, str]] = set()
        own = {pod: name for name, pod in self._claimed.items()}
        free: dict[tuple[str, str, Shape], Iterator[Promise]] = {}
        for pod in pods:
            kind = (pod.owner, self._queue_of(pod), pod.shape)
            left = free.setdefault(kind, iter(self._by_owner.get(pod.owner, ()) if pod.owner else ()))
            for promise in self._first(pod, own.get(pod.key), left):
                if _name(promise) not in dealt:
                    dealt.add(_name(promise))
                    yield pod, promise
                    break

    def _first(self, pod: Pod, own: tuple[str, str] | None, left: Iterator[Promise]) -> Iterator[Promise]:
        """What a pod may inherit: by its name, what it was let through to, then what is left for those like it."""
        queue, named = self._queue_of(pod), self._by_pod.get(pod.key)
        if named is not None and inherits(named, pod, queue):
            yield named
            return
        if own is not None:
            yield from (promise for promise in self._by_owner.get(pod.owner, ()) if _name(promise) == own)
            return
        yield from (promise for promise in left if inherits(promise, pod, queue) and self._heir(promise) is None)

    def _meant_for(self, pod: Pod) -> Iterator[Promise]:
        """What a waiting pod may inherit."""
        queue = self._queue_of(pod)
        if (named := self._by_pod.get(pod.key)) and inherits(named, pod, queue):
            yield named
            return
        for promise in self._by_owner.get(pod.owner, ()) if pod.owner else ():
            if inherits(promise, pod, queue) and self._is_free_for(promise, pod.key):
                yield promise

    def _is_free_for(self, promise: Promise, pod: str) -> bool:
        """Whether a promise has no other heir: neither one that waits nor one that has taken the place."""
        heir = self._heir(promise)
        return heir == pod or (heir is None and not self.is_taken(promise))

    def _queue_of(self, pod: Pod) -> str:
        entry = self._entries.get(pod.key)
        return (entry.seen.workload.queue or "") if entry is not None and entry.seen.workload else ""

    def open(self, pod: Pod) -> Iterator[Promise]:
        """The promises that keep room from this pod: all that are neither its own nor taken nor met."""
        own = self.of(pod) if self.all else None
        return (promise for promise in self.all if promise is not own and not self.is_taken(promise))

    def open_on(self, node: str, own: Promise | None) -> Iterator[Promise]:
        """The promises that keep room on a node from whoever has `own`."""
        here = self._by_node.get(node, ())
        return (promise for promise in here if promise is not own and not self.is_taken(promise))

    def is_taken(self, promise: Promise) -> bool:
        """Whether an heir of the promise counts on its node, granted or placed."""
        return any(entry.counted.node == promise.node for entry in self._heirs_that_count(promise))

    def _heirs_that_count(self, promise: Promise) -> Iterator["Entry"]:
        """Those who have a place, be it the promised one, and count in their queue."""
        for entry in self._heirs(promise):
            if entry.reservation is not None or entry.seen.pod.active:
                yield entry

    def _count(self, promise: Promise) -> None:
        """Count a promise in its queue for as long as nobody does for whom it is."""
        name = _name(promise)
        counts = next(self._heirs_that_count(promise), None) is None
        if counts is not (name in self._counted):
            queue, fixed, amounts = self._shares[name]
            held = self.use.get((queue, fixed), NOTHING)
            self.use[queue, fixed] = held.plus(amounts) if counts else held.minus(amounts)
            (self._counted.add if counts else self._counted.discard)(name)

    def _heir(self, promise: Promise) -> str | None:
        """The waiting pod that the promise is for."""
        waiting = (entry.seen.pod for entry in self._heirs(promise) if entry.seen.pod.state is State.PENDING)
        return next((pod.key for pod in waiting), None)

    def _heirs(self, promise: Promise) -> Iterator["Entry"]:
        """The pod that is named, and the one to which the promise was assigned, as far as they inherit it."""
        for key in (promise.pod, self._claimed.get(_name(promise), "")):
            entry = self._entries.get(key)
            if entry is not None and inherits(promise, entry.seen.pod, self._queue_of(entry.seen.pod)):
                yield entry


def _name(promise: Promise) -> tuple[str, str]:
    return promise.plan, promise.pod
