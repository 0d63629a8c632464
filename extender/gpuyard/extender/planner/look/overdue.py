"""Who should have left long ago: by the clock on the wall, and by how long it has been watched leaving.

The clock on the wall may jump, and then somebody who has just been told to go looks as if it were stuck.
"""

from collections.abc import Iterable, Iterator

from gpuyard.engine.model import STUCK_AFTER, Pod
from gpuyard.engine.placing.scratch import is_stuck
from msgspec.structs import replace


class OverduePods:
    """Remembers since when pods have been on their way out, by a clock that never jumps."""

    def __init__(self) -> None:
        self._since: dict[str, float] | None = None

    def look(self, terminating: Iterable[Pod], now: float) -> None:
        """These are on their way out. Since when those are that were so at first, only the clock on the wall tells."""
        known, new = (self._since, now) if self._since is not None else ({}, float("-inf"))
        self._since = {pod.uid: known.get(pod.uid, new) for pod in terminating}

    def is_stuck(self, pod: Pod, now: float, today: float) -> bool:
        """Whether nobody may count on the place of a pod."""
        since = (self._since or {}).get(pod.uid, now)
        return is_stuck(pod, int(today)) and now - since > STUCK_AFTER

    def in_time(self, terminating: Iterable[Pod], now: float, today: int) -> Iterator[Pod]:
        """Those who only look stuck, as if they were due to leave by now."""
        for pod in terminating:
            if is_stuck(pod, today) and not self.is_stuck(pod, now, today):
                yield replace(pod, deleted_at=today)
