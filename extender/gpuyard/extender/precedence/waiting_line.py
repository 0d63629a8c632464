"""The line of those who wait for GPUs, kept at each event, and how much is asked for before any place in it.

    the planner lines up            1   3   5   7   9 ...
    who has come since          0   2   4   6   8   10     in the gap before whom it goes first in its queue

Each kind of request has its sums over these numbers, so that a question costs steps by the number of kinds, not by how
many wait. There are two sums of each: of all, and of those who are alive.
"""

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

from gpuyard.engine.model import Pod, Shape, Workload
from gpuyard.engine.model.counting import claim

if TYPE_CHECKING:
    from gpuyard.extender.precedence.queue_turns import Course

AT_ONCE = 100
"""So many are taken for dead within an answer; more would take longer than one may."""


class Demand(NamedTuple):
    """Milli-GPUs that are asked for as whole GPUs, and as parts of some."""

    whole: int = 0
    parts: int = 0


def demand(pods: Iterable[Pod], gpu_memory: int) -> Demand:
    """What these pods ask for, with GPUs of `gpu_memory` MiB."""
    whole = parts = 0
    for pod in pods:
        asked = claim(pod.shape, gpu_memory).gpu
        if pod.shape.shared:
            parts += asked
        else:
            whole += asked
    return Demand(whole, parts)


class Ahead(NamedTuple):
    """What those who go first ask for who are alike."""

    shape: Shape
    """Of one of them, the first pod."""
    each: Demand
    """What one of them asks for, with all the pods that it starts."""
    asked: Demand
    """What all of them ask for."""


def sum_of(ahead: Iterable[Ahead], fits: Callable[[Shape, Demand], bool]) -> Demand:
    """What they ask for, as far as one of them would fit with all the pods that it starts."""
    whole = parts = 0
    for one in ahead:
        if fits(one.shape, one.each):
            whole += one.asked.whole
            parts += one.asked.parts
    return Demand(whole, parts)


Rank = tuple[int, bool, int, str]
"""The order within one queue: priority, whether it has its minimum already, age, name."""


def rank(workload: Workload, *, above: bool = False) -> Rank:
    """Where a workload stands among those of its queue; `above` its minimum a gang comes after those that wait."""
    return (-workload.priority, above, workload.created, workload.key)


class _Sums:
    """Sums over numbered places (a Fenwick tree); only where somebody stands does it take up memory."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._tree: dict[int, int] = {}

    def add(self, place: int, amount: int) -> None:
        """Count so much more at a place."""
        at, tree = place + 1, self._tree
        while at <= self._places:
            tree[at] = tree.get(at, 0) + amount
            at += at & -at

    def before(self, place: int) -> int:
        """The sum over all places before this one."""
        total, at, tree = 0, place, self._tree
        while at:
            total += tree.get(at, 0)
            at &= at - 1
        return total


class _Kind:
    """Requests that fit the same nodes and are equally large: the sums of all, and of those who are alive."""

    def __init__(self, shape: Shape, each: Demand, places: int) -> None:
        self.shape = shape
        self.each = each
        self.everybody = (_Sums(places), _Sums(places))
        self.alive = (_Sums(places), _Sums(places))


class _Place(NamedTuple):
    """A workload in line."""

    at: int
    kind: _Kind
    first: str
    """The pod with which it stands and falls."""


class Line:
    """Who waits, best first. A workload is alive as long as the first of its pods has given a sign of life."""

    def __init__(self, most: int = 0, gpu_memory: int = 0) -> None:
        """For so many turns at most, where the smallest GPU has so many MiB."""
        self._size = 2 * most + 1
        self._gpu_memory = gpu_memory
        self._places: dict[str, _Place] = {}
        self._kinds: dict[object, _Kind] = {}
        self._queues: dict[str, list[tuple[Rank, int]]] = {}
        self._aside = Counter[str]()
        self._workload_of: dict[str, str] = {}
        self._signs: dict[str, float] = {}
        self._mute: AbstractSet[str] = frozenset()
        self._ends: list[tuple[float, str]] = []
        self.course: Course | None = None
        """The queues in the order of the turns."""
        self.known: AbstractSet[str] = frozenset()
        """Who waited when it was made, in it or not."""
        self.cut: AbstractSet[str] = frozenset()
        """The queues of which not all that waited stand in it."""
        self.come: list[tuple[Rank, str]] = []
        """The pods that have come since and are still to be taken in, as a heap."""

    def __contains__(self, workload: object) -> bool:
        return workload in self._places

    def turns_of(self, queue: str) -> int:
        """For how many of this queue it was a turn when the line was made."""
        return len(self._queues.get(queue, ())) + self._aside[queue]

    @property
    def pods(self) -> Iterator[str]:
        """The pods with which the turns stand and fall."""
        return iter(self._workload_of)

    def workload_of(self, pod: str) -> str:
        """The workload whose place stands and falls with this pod; empty: none."""
        return self._workload_of.get(pod, "")

    def add(self, workload: Workload, pods: tuple[Pod, ...]) -> int:
        """The next turn, when the line is made; those of one queue come in their order."""
        at = 2 * len(self._places) + 1
        self._put(workload, pods, at)
        self._queues.setdefault(workload.queue or "", []).append((rank(workload), at))
        return at

    def set_aside(self, workload: Workload) -> None:
        """It would be the turn of somebody for whom room is kept."""
        self._aside[workload.queue or ""] += 1

    def join(self, workload: Workload, pod: Pod, place: int) -> None:
        """Somebody has come who starts alone."""
        self._put(workload, (pod,), place)

    def leave(self, workload: str) -> None:
        """Somebody does not wait any more."""
        place = self._places.pop(workload, None)
        if place is not None:
            self._count(place, -1)
            del self._workload_of[place.first]
            self._signs.pop(place.first, None)

    def pass_over(self, pods: AbstractSet[str]) -> None:
        """These pods hold nobody back, and no others."""
        changed = [key for key in pods ^ self._mute if key in self._workload_of]
        for key in changed:
            self._count(self._places[self._workload_of[key]], -1)
        self._mute = pods
        for key in changed:
            self._count(self._places[self._workload_of[key]], 1)

    def place_of(self, workload: Workload, *, above: bool = False) -> int | None:
        """Its place, or where it would go: before the first of its queue whom it goes before; None: there is none."""
        place = self._places.get(workload.key)
        if place is not None:
            return place.at
        others = self._queues.get(workload.queue or "", [])
        at = bisect_left(others, (rank(workload, above=above), 0))
        return others[at][1] - 1 if at < len(others) else None

    def earliest(self, workload: Workload) -> int:
        """A place before which one that has come will not stand, whatever the turns of other queues are."""
        place = self.place_of(workload)
        if place is not None:
            return place
        others = self._queues.get(workload.queue or "")
        return others[-1][1] + 1 if others else 0

    @property
    def end(self) -> int:
        """The place behind all turns."""
        return self._size - 1

    def sign_of_life(self, pod: str, at: float) -> None:
        """kube-scheduler has just offered nodes to this pod, or it is new."""
        workload = self._workload_of.get(pod)
        known = self._signs.get(pod)
        if workload is None or (known is not None and known >= at):
            return
        self._signs[pod] = at
        heapq.heappush(self._ends, (at, pod))
        if known is None:
            self._count_alive(self._places[workload], 1)

    def bury(self, before: float) -> None:
        """Those who have given no sign of life since then are taken for dead; of too many some are a little later."""
        for _ in range(AT_ONCE):
            if not self._ends or self._ends[0][0] >= before:
                return
            at, pod = heapq.heappop(self._ends)
            if self._signs.get(pod) == at:
                self._count_alive(self._places[self._workload_of[pod]], -1)
                del self._signs[pod]

    def ahead(self, place: int, *, alive_only: bool) -> list[Ahead]:
        """What those before this place ask for, by kind of request."""
        found = []
        for kind in self._kinds.values():
            whole, parts = kind.alive if alive_only else kind.everybody
            asked = Demand(whole.before(place), parts.before(place))
            if any(asked):
                found.append(Ahead(kind.shape, kind.each, asked))
        return found

    def _put(self, workload: Workload, pods: tuple[Pod, ...], at: int) -> None:
        shape, each = pods[0].shape, demand(pods, self._gpu_memory)
        name = (each, shape.gpus, shape.selector, shape.affinity, shape.tolerations)
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _Kind(shape, each, self._size)
        place = _Place(at, kind, pods[0].key)
        self._places[workload.key] = place
        self._workload_of[place.first] = workload.key
        self._count(place, 1)

    def _count(self, place: _Place, sign: int) -> None:
        """Count what is asked for at a place, or no longer."""
        if place.first not in self._mute:
            _add(place.kind.everybody, place, sign)
        if place.first in self._signs:
            self._count_alive(place, sign)

    def _count_alive(self, place: _Place, sign: int) -> None:
        if place.first not in self._mute:
            _add(place.kind.alive, place, sign)


def _add(sums: tuple[_Sums, _Sums], place: _Place, sign: int) -> None:
    for one, amount in zip(sums, place.kind.each, strict=True):
        if amount:
            one.add(place.at, sign * amount)
