"""Room that unfinished plans keep: whose it is, and where it still counts.

        made ──▶ open ──the heir is granted the place──▶ taken ──the heir is bound──▶ met
                  ▲                                        │
                  └──────────── the grant lapses ──────────┘

The heir is the pod that the promise names, while it waits; else the first that may inherit (`rules.promises.inherits`)
and is let through to its node: only that assigns it. An open promise keeps its room from all others but those
whom `verbs/node_room.py` lets go first; a taken one counts as its heir does.

What an elastic plan promises is for all pods of a workload on a node. It is open for as much as those of them leave
that were let through or placed there since the plan was written (`engine.rules.promises.untaken`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gpuyard.engine.model import NOTHING, Amounts, Pod, Promise, PromiseName, Shape, State
from gpuyard.engine.model.counting import claim
from gpuyard.engine.rules.promises import inherits, untaken

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

    def __init__(self, entries: Mapping[str, "Entry"], team: Callable[[str], Collection[str]]) -> None:
        self._entries = entries
        self._team = team
        """The pods of a workload, by key."""
        self.all: tuple[Promise, ...] = ()
        """All that stand."""
        self.gpus: dict[str, int] = {}
        """The whole GPUs that are promised, by node."""
        self.use: dict[tuple[str, bool], Amounts] = {}
        """What is promised to those who do not count yet, by queue and whether it is not preemptible."""
        self._by_pod: dict[str, Promise] = {}
        self._by_owner: dict[str, list[Promise]] = {}
        self._by_node: dict[str, list[Promise]] = {}
        self._by_workload: dict[str, list[Promise]] = {}
        self._left: dict[PromiseName, Promise | None] = {}
        """Of elastic plans: what is left of each promise."""
        self._claimed: dict[PromiseName, str] = {}
        self._shares: dict[PromiseName, Share] = {}
        self._counted: set[PromiseName] = set()
        self._watched: dict[str, list[Promise]] = {}

    def put(self, promises: Iterable[Promise], share: Callable[[Promise], Share]) -> None:
        """These promises stand, and no others."""
        self.all = tuple(promises)
        self._by_pod = {promise.pod: promise for promise in self.all if not promise.elastic}
        self._by_owner, self._by_node, self._by_workload, self._watched = {}, {}, {}, {}
        self.gpus, self.use, self._counted, self._left = {}, {}, set(), {}
        self._shares = {promise.name: share(promise) for promise in self.all}
        self._claimed = {name: pod for name, pod in self._claimed.items() if name in self._shares}
        for promise in self.all:
            self._by_node.setdefault(promise.node, []).append(promise)
            if promise.elastic:
                self._by_workload.setdefault(promise.workload, []).append(promise)
                self._measure(promise)
                continue
            self._by_owner.setdefault(promise.owner, []).append(promise)
            self.gpus[promise.node] = self.gpus.get(promise.node, 0) + promise.shape.gpus
            for pod in {promise.pod, self._claimed.get(promise.name, promise.pod)}:
                self._watched.setdefault(pod, []).append(promise)
            self._count(promise)

    def look(self, pod: str, workloads: Collection[str], nodes: Collection[str]) -> None:
        """Something has happened to this pod of these workloads, which counted and counts on these nodes."""
        for promise in self._watched.get(pod, ()):
            self._count(promise)
        if self._by_workload:
            for node in {*nodes} - {""}:
                for promise in self._by_node.get(node, ()):
                    if promise.elastic and promise.workload in workloads:
                        self._measure(promise)

    def of(self, pod: Pod, nodes: Collection[str] | None = None) -> Promise | None:
        """What a waiting pod may inherit, on one of these nodes if possible. Asking assigns nothing.

        What is kept for its workload on other nodes does not hold it up where it is offered these.
        """
        meant = list(self._meant_for(pod))
        here = (promise for promise in meant if nodes is not None and promise.node in nodes)
        elsewhere = (promise for promise in meant if nodes is None or not promise.elastic)
        return next(here, next(elsewhere, None))

    def left_for(self, workload: str) -> int:
        """The whole GPUs that elastic plans still keep for a workload, on all nodes."""
        left = (self._left.get(one.name) for one in self._by_workload.get(workload, ()))
        return sum(one.shape.gpus for one in left if one is not None)

    def own(self, pod: Pod) -> tuple[Promise, ...]:
        """The promises that keep no room from a pod: the one that it may inherit, and all those to its workload."""
        if not self.all:
            return ()
        shared = tuple(promise for promise in self._meant_for(pod) if promise.elastic)
        first = self.of(pod)
        return shared if first is None or first.elastic else (first, *shared)

    def matched(self, pods: Iterable[Pod]) -> Mapping[str, Promise]:
        """What is kept for these pods one by one: no two of them the same."""
        return {pod.key: promise for pod, promise in self._dealt(pods)}

    def assign(self, pod: Pod, node: str) -> None:
        """A pod was let through to this node: what is promised there is its own from now on, if it inherits it."""
        meant = self._meant_for(pod) if self.all else ()
        promise = next((one for one in meant if one.node == node and not one.elastic), None)
        if promise is not None and promise.pod != pod.key and self._claimed.get(promise.name) != pod.key:
            self._claimed[promise.name] = pod.key
            self._watched.setdefault(pod.key, []).append(promise)
            self._count(promise)

    def shares_of(self, pods: Iterable[Pod]) -> Iterable[Share]:
        """What of `use` is for these pods, as far as they wait: nobody takes two, and no two take one."""
        waiting = [pod for pod in pods if pod.state is State.PENDING]
        names = [promise.name for _, promise in self._dealt(waiting)]
        shared = {promise.name: None for pod in waiting for promise in self._meant_for(pod) if promise.elastic}
        return [self._shares[name] for name in (*names, *shared) if name in self._counted]

    def _dealt(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, Promise]]:
        """These pods with what each may inherit, no two the same; each list of promises is gone through once."""
        dealt: set[PromiseName] = set()
        own = {pod: name for name, pod in self._claimed.items()}
        free: dict[tuple[str, str, Shape], Iterator[Promise]] = {}
        for pod in pods:
            kind = (pod.owner, self._queue_of(pod), pod.shape)
            left = free.setdefault(kind, iter(self._by_owner.get(pod.owner, ()) if pod.owner else ()))
            for promise in self._first(pod, own.get(pod.key), left):
                if promise.name not in dealt:
                    dealt.add(promise.name)
                    yield pod, promise
                    break

    def _first(self, pod: Pod, own: PromiseName | None, left: Iterator[Promise]) -> Iterator[Promise]:
        """What a pod may inherit: by its name, what it was let through to, then what is left for those like it."""
        queue, named = self._queue_of(pod), self._by_pod.get(pod.key)
        if named is not None and inherits(named, pod, queue):
            yield named
            return
        if own is not None:
            yield from (promise for promise in self._by_owner.get(pod.owner, ()) if promise.name == own)
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
        for promise in self._by_workload.get(pod.workload, ()):
            if inherits(promise, pod, queue) and not self.is_taken(promise):
                yield promise

    def _is_free_for(self, promise: Promise, pod: str) -> bool:
        """Whether a promise has no other heir: neither one that waits nor one that has taken the place."""
        heir = self._heir(promise)
        return heir == pod or (heir is None and not self.is_taken(promise))

    def _queue_of(self, pod: Pod) -> str:
        entry = self._entries.get(pod.key)
        return (entry.seen.workload.queue or "") if entry is not None and entry.seen.workload else ""

    def open(self, pod: Pod) -> Iterator[Promise]:
        """What keeps room from this pod: of all promises that are not its own what is neither taken nor met."""
        return self._open(self.all, self.own(pod))

    def open_ones(self) -> Iterator[Promise]:
        """What is neither taken nor met of all promises."""
        return self._open(self.all)

    def open_on(self, node: str, own: Collection[Promise] = ()) -> Iterator[Promise]:
        """What keeps room on a node from whoever has `own`."""
        return self._open(self._by_node.get(node, ()), own)

    def _open(self, promises: Iterable[Promise], own: Collection[Promise] = ()) -> Iterator[Promise]:
        for promise in promises:
            if promise not in own and not self.is_taken(promise):
                yield self._left.get(promise.name) or promise

    def is_taken(self, promise: Promise) -> bool:
        """Whether an heir of the promise counts on its node, granted or placed; nothing is left of a workload's."""
        if promise.elastic:
            return self._left.get(promise.name) is None
        return any(entry.counted.node == promise.node for entry in self._heirs_that_count(promise))

    def _heirs_that_count(self, promise: Promise) -> Iterator["Entry"]:
        """Those who have a place, be it the promised one, and count in their queue."""
        for entry in self._heirs(promise):
            if entry.reservation is not None or entry.seen.pod.active:
                yield entry

    def _count(self, promise: Promise) -> None:
        """Count a promise in its queue for as long as nobody does for whom it is."""
        name = promise.name
        counts = next(self._heirs_that_count(promise), None) is None
        if counts is not (name in self._counted):
            queue, fixed, amounts = self._shares[name]
            held = self.use.get((queue, fixed), NOTHING)
            self.use[queue, fixed] = held.plus(amounts) if counts else held.minus(amounts)
            (self._counted.add if counts else self._counted.discard)(name)

    def _measure(self, promise: Promise) -> None:
        """Count as much of an elastic plan's promise, in its queue and on its node, as its pods have not taken."""
        before, name = self._left.get(promise.name), promise.name
        pods = (self._entries[key].counted for key in self._team(promise.workload))
        left = self._left[name] = untaken(promise, pods)
        queue, fixed, old = self._shares[name]
        new = claim(left.shape, 0) if left else NOTHING
        held = self.use.get((queue, fixed), NOTHING).minus(old if before else NOTHING)
        self.use[queue, fixed] = held.plus(new)
        self._shares[name] = Share(queue, fixed, new)
        self._counted.add(name)
        more = (left.shape.gpus if left else 0) - (before.shape.gpus if before else 0)
        self.gpus[promise.node] = self.gpus.get(promise.node, 0) + more

    def _heir(self, promise: Promise) -> str | None:
        """The waiting pod that the promise is for."""
        waiting = (entry.seen.pod for entry in self._heirs(promise) if entry.seen.pod.state is State.PENDING)
        return next((pod.key for pod in waiting), None)

    def _heirs(self, promise: Promise) -> Iterator["Entry"]:
        """The pod that is named, and the one to which the promise was assigned, as far as they inherit it."""
        for key in (promise.pod, self._claimed.get(promise.name, "")):
            entry = self._entries.get(key)
            if entry is not None and inherits(promise, entry.seen.pod, self._queue_of(entry.seen.pod)):
                yield entry
