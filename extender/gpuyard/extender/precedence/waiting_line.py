"""The line of those who wait for GPUs, and how much is asked for before any place in it.

    places        0 1 2 3 4 5 6 7 8     in the engine's order; who has come since stands behind all
    everybody     0 1 2   4 5   7 8     without those beyond their bounds, those for whom room is kept, those who left
    alive         0       4     7       ... and without those who have given no sign of life for long

Each kind of request has its two lists of places, so that a question costs steps by the number of kinds, not by how many
wait.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from gpuyard.engine.model import Pod, Shape
from gpuyard.engine.model.counting import claim

AT_ONCE = 100
"""So many are taken for dead within an answer; more would take longer than one may."""


class Demand(NamedTuple):
    """Milli-GPUs that are asked for as whole GPUs, and as parts of some."""

    whole: int = 0
    parts: int = 0

    def plus(self, other: "Demand", times: int = 1) -> "Demand":
        """Both together, the other one so many times."""
        return Demand(self.whole + times * other.whole, self.parts + times * other.parts)


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


Stander = tuple[str, bool]
"""A workload, and whether it has its minimum already: what a gang starts above it goes later."""


class _Kind:
    """Requests that fit the same nodes and are equally large, by place."""

    def __init__(self, shape: Shape, each: Demand) -> None:
        self.shape = shape
        """Of the first pod of each."""
        self.each = each
        """What one of them asks for, with all the pods that it starts."""
        self.everybody: list[int] = []
        self.alive: list[int] = []


class _Request(NamedTuple):
    place: int
    kind: _Kind


class Line:
    """Who waits, best first. A request stands and falls with the first of its pods."""

    def __init__(self, gpu_memory: int = 0) -> None:
        """Where the smallest GPU has so many MiB."""
        self._gpu_memory = gpu_memory
        self._passed_over: AbstractSet[str] = frozenset()
        self._places: dict[Stander, int] = {}
        self._requests: dict[str, _Request] = {}
        """By the first of its pods, as long as that waits."""
        self._kinds: dict[object, _Kind] = {}
        self._signs: dict[str, float] = {}
        """When those who are alive gave the last sign of life."""
        self._ends: list[tuple[float, str]] = []
        """All signs of life, as a heap."""

    def add(self, stander: Stander, pods: Sequence[Pod]) -> None:
        """Somebody has the next place, and asks for room for these pods, if for any."""
        place = self._places[stander] = len(self._places)
        if pods:
            first = pods[0]
            self._requests[first.key] = _Request(place, self._kind(first.shape, demand(pods, self._gpu_memory)))
            self._count(first.key)

    def _kind(self, shape: Shape, each: Demand) -> _Kind:
        name = (each, shape.gpus, shape.selector, shape.affinity, shape.tolerations)
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _Kind(shape, each)
        return kind

    @property
    def pods(self) -> Collection[str]:
        """The pods with which the requests stand and fall."""
        return self._requests.keys()

    def place_of(self, stander: Stander) -> int:
        """Its place, also where it asks for nothing any more; behind all if it has none."""
        return self._places.get(stander, len(self._places))

    def leave(self, pod: str) -> None:
        """What stands and falls with this pod is not asked for any more."""
        request = self._requests.pop(pod, None)
        if request is not None:
            self._signs.pop(pod, None)
            _hold(request.kind.everybody, request.place, holds=False)
            _hold(request.kind.alive, request.place, holds=False)

    def pass_over(self, pods: AbstractSet[str]) -> None:
        """These pods hold nobody back, and no others."""
        if pods is not self._passed_over:
            changed, self._passed_over = pods ^ self._passed_over, pods
            for pod in changed & self._requests.keys():
                self._count(pod)

    def sign_of_life(self, pod: str, at: float) -> None:
        """kube-scheduler has offered nodes to this pod, or it is new."""
        if pod in self._requests and at > self._signs.get(pod, float("-inf")):
            self._signs[pod] = at
            heapq.heappush(self._ends, (at, pod))
            self._count(pod)

    def bury(self, before: float) -> None:
        """Those who have given no sign of life since then are taken for dead; of too many some are a little later."""
        for _ in range(AT_ONCE):
            if not self._ends or self._ends[0][0] >= before:
                return
            at, pod = heapq.heappop(self._ends)
            if self._signs.get(pod) == at:
                del self._signs[pod]
                self._count(pod)

    def asked_before(self, place: int, fits: Callable[[Shape, Demand], bool], *, alive_only: bool) -> Demand:
        """What those before a place ask for whose requests fit, each with all that it starts."""
        found = Demand()
        for kind in self._kinds.values():
            count = bisect_left(kind.alive if alive_only else kind.everybody, place)
            if count and fits(kind.shape, kind.each):
                found = found.plus(kind.each, count)
        return found

    def _count(self, pod: str) -> None:
        """Bring its kind's lists up to date."""
        place, kind = self._requests[pod]
        counts = pod not in self._passed_over
        _hold(kind.everybody, place, holds=counts)
        _hold(kind.alive, place, holds=counts and pod in self._signs)


def _hold(places: list[int], place: int, *, holds: bool) -> None:
    """Let a sorted list hold a place, or not. To shift tens of thousands of places takes microseconds."""
    at = bisect_left(places, place)
    is_in = at < len(places) and places[at] == place
    if holds and not is_in:
        places.insert(at, place)
    elif is_in and not holds:
        del places[at]
