"""Which of the nodes that kube-scheduler offers are the best for a pod: the fullest ones in which it still fits."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop

from gpuyard.engine.model import Shape
from gpuyard.engine.snapshot import Snapshot

MOST_POINTS = 9
"""For the fullest node; kube-scheduler expects 10 at most."""


def best(
    snapshot: Snapshot, shape: Shape, offered: Collection[str], most: int, fits: Callable[[str], bool]
) -> list[str]:
    """At most so many of the offered nodes that fit: shared GPUs in use first, the fullest first, equals by name."""
    found: dict[str, None] = {}
    for name in _in_order(snapshot, shape, offered):
        if name in offered and name not in found and fits(name):
            found[name] = None
            if len(found) == most:
                break
    return list(found)


def points(snapshot: Snapshot, offered: Iterable[str]) -> Mapping[str, int]:
    """Points of each node, by how full it is among those offered; nodes that nobody knows get none."""
    free = {name: room.idle + room.releasing if (room := snapshot.room.get(name)) else None for name in offered}
    known = [count for count in free.values() if count is not None]
    least, span = min(known, default=0), max(known, default=0) - min(known, default=0)
    return {
        name: 0 if count is None else MOST_POINTS - MOST_POINTS * (count - least) // (span or 1)
        for name, count in free.items()
    }


def _in_order(snapshot: Snapshot, shape: Shape, offered: Collection[str]) -> Iterator[str]:
    if shape.shared:
        yield from sorted(snapshot.sharing)
        yield from _by_fullness(snapshot, 1)
        return
    if len(offered) > 1:
        yield from _by_fullness(snapshot, shape.gpus)
    # Full or closed for all we know, or not shown by any watch yet: kube-scheduler knows why it offers them.
    yield from sorted(offered)


def _by_fullness(snapshot: Snapshot, gpus: int) -> Iterator[str]:
    """The open nodes with so many free GPUs, those first that have the fewest, counting those on their way out."""
    for idle, releasing in sorted(snapshot.slots, key=lambda slot: (sum(slot), slot)):
        if idle >= gpus:
            names = list(snapshot.slots[idle, releasing])
            # Only the first few are mostly wanted: not worth sorting thousands.
            heapify(names)
            while names:
                yield heappop(names)
