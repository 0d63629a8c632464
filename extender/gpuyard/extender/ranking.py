"""Which of the nodes that kube-scheduler offers are the best for a pod: the fullest ones in which it still fits."""

from collections.abc import Collection, Iterable, Mapping

from gpuyard.engine.rooms import Rooms
from gpuyard.engine.snapshot import Snapshot

MOST_POINTS = 9
"""For the fullest node; kube-scheduler expects 10 at most."""


def best(snapshot: Snapshot, offered: Collection[str], most: int) -> list[str]:
    """At most so many of the offered nodes, the fullest first; the order of equals is by name."""
    if len(offered) <= 1:
        return list(offered)
    found: list[str] = []
    for name in _by_fullness(snapshot):
        if name in offered:
            found.append(name)
            if len(found) == most:
                return found
    # Nodes that are closed, or that no watch has shown yet: kube-scheduler knows why it offers them.
    known = set(found)
    return (found + sorted(name for name in offered if name not in known))[:most]


def points(snapshot: Snapshot, offered: Iterable[str]) -> Mapping[str, int]:
    """Points of each node, by how full it is among those offered; nodes that nobody knows get none."""
    free = {name: room.idle + room.releasing if (room := snapshot.room.get(name)) else None for name in offered}
    known = [count for count in free.values() if count is not None]
    least, span = min(known, default=0), max(known, default=0) - min(known, default=0)
    return {
        name: 0 if count is None else MOST_POINTS - MOST_POINTS * (count - least) // (span or 1)
        for name, count in free.items()
    }


def _by_fullness(snapshot: Snapshot) -> Iterable[str]:
    rooms = Rooms(snapshot)
    for slot in sorted(rooms.slots(), key=lambda slot: slot[::-1]):
        yield from rooms.shelf(slot)
