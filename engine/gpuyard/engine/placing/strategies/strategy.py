"""What a strategy decides: of the nodes, and of the GPUs of a node, that have room for a request, which comes first.

The cycle, the planner's checks and the verbs ask the same object, so that pods get in the cluster what `plan` says.
"""

from collections.abc import Iterable, Mapping

import msgspec

MOST_POINTS = 9
"""For the best node; kube-scheduler expects 10 at most."""

Slot = tuple[int, int]
"""Whole GPUs of a node: free now, and free once those on their way out have left."""


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks nodes and GPUs by what they have free."""

    fullest_first: bool
    """Whether the one with the least free comes first; else the one with the most."""
    joins_first: bool
    """Whether a part of a GPU goes first to a node with a shared GPU that it can join, however full others are."""

    def rank(self, free: int) -> int:
        """Where a node or a GPU stands that has so much free, the lowest first; all amounts are of one unit."""
        return free if self.fullest_first else -free

    def fitting(self, slots: Iterable[Slot], gpus: int) -> list[Slot]:
        """The slots in which so many GPUs will be free, the best first."""
        return sorted((slot for slot in slots if slot[1] >= gpus), key=lambda slot: (self.rank(slot[1]), slot))

    def points(self, free: Mapping[str, int | None]) -> Mapping[str, int]:
        """The points of each node by its free GPUs, among those given: 9 for the best, 0 for the last.

        The others get points in proportion; all equal: 9. None: nobody knows the GPUs, no points.
        """
        known = {count for count in free.values() if count is not None}
        best, span = min(known, key=self.rank, default=0), max(known, default=0) - min(known, default=0)
        return {
            name: 0 if count is None else MOST_POINTS - MOST_POINTS * abs(count - best) // (span or 1)
            for name, count in free.items()
        }
