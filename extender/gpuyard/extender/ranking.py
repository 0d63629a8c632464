"""Which of the nodes that kube-scheduler offers are the best for a pod: the fullest ones in which it still fits."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from gpuyard.engine.model import Shape
from gpuyard.engine.snapshot import Snapshot

MOST_POINTS = 9
"""For the fullest node; kube-scheduler expects 10 at most."""


FEW = 32
"""So many equals are sorted; for more that would take longer than all the rest."""


def best(
    snapshot: Snapshot, shape: Shape, offered: Collection[str], most: int, fits: Callable[[str], bool]
) -> list[str]:
    """At most so many of the offered nodes that fit: shared GPUs in use first, the fullest first.

    Equals come by name, or where there are many of them as kube-scheduler offers them: it does so in turn.
    """
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
        yield from _by_fullness(snapshot, 1, offered)
        return
    if len(offered) > 1:
        yield from _by_fullness(snapshot, shape.gpus, offered)
    # Full or closed for all we know, or not shown by any watch yet: kube-scheduler knows why it offers them.
    yield from sorted(offered)


def _by_fullness(snapshot: Snapshot, gpus: int, offered: Collection[str]) -> Iterator[str]:
    """The open nodes with so many free GPUs, those first that have the fewest, counting those on their way out."""
    for slot in sorted(snapshot.slots, key=lambda slot: (sum(slot), slot)):
        if slot[0] >= gpus:
            names = snapshot.slots[slot]
            yield from sorted(names) if len(names) <= FEW else (name for name in offered if name in names)
