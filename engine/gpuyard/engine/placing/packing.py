"""The packing rule, for the cycle and for the verbs: of the nodes in which a request fits, the fullest first.

Points among the nodes given: 9 for the least free, 0 for the most free, the others in proportion; all equal: 9.
"""

from collections.abc import Iterable, Mapping

MOST_POINTS = 9
"""For the fullest node; kube-scheduler expects 10 at most."""

Slot = tuple[int, int]
"""Whole GPUs of a node: free now, and free once those on their way out have left."""


def fitting(slots: Iterable[Slot], gpus: int, *, spread: bool = False) -> list[Slot]:
    """The slots in which so many GPUs will be free, the fullest first; to spread, the emptiest."""
    return sorted((slot for slot in slots if slot[1] >= gpus), key=lambda slot: (-slot[1] if spread else slot[1], slot))


def points(free: Mapping[str, int | None]) -> Mapping[str, int]:
    """The points of each node by its free GPUs, among those given; None: nobody knows them, no points."""
    known = [count for count in free.values() if count is not None]
    least, span = min(known, default=0), max(known, default=0) - min(known, default=0)
    return {
        name: 0 if count is None else MOST_POINTS - MOST_POINTS * (count - least) // (span or 1)
        for name, count in free.items()
    }
