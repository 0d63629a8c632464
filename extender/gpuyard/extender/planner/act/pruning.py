"""Plan objects that have ended go after a while: those that are too old, and the oldest of too many."""

from collections.abc import Callable, Mapping

from gpuyard.common.extender_config import Keep
from gpuyard.common.plans.plan import Plan
from gpuyard.common.plans.store import Store
from gpuyard.engine.kube.faults import ignore
from gpuyard.engine.kube.meta import read
from gpuyard.engine.kube.times import moment

INTERVAL = 60.0
"""Seconds between two looks for plans that have to go."""

AT_ONCE = 5
"""So many go at one look of the planner: it has other things to do."""


class Pruner:
    """Deletes them, a few at a time."""

    def __init__(self, store: Store, plans: Callable[[], Mapping[str, Plan]]) -> None:
        self._store = store
        self._plans = plans
        self._due: list[Plan] = []
        self._again = float("-inf")

    async def look(self, keep: Keep, now: float, today: float) -> None:
        """Find what has to go, at most once a minute, and delete some of it."""
        if not self._due and now >= self._again:
            self._due, self._again = surplus(self._plans(), keep, today), now + INTERVAL
        for _ in range(min(AT_ONCE, len(self._due))):
            await self._store.delete(self._due[-1])
            self._due.pop()


def surplus(plans: Mapping[str, Plan], keep: Keep, today: float) -> list[Plan]:
    """The plans that have ended and are not kept, the oldest last."""
    due: list[Plan] = []
    for elastic in (False, True):
        # Other writers may have theirs refused again and again; what moved pods are made of is kept for `uninstall`.
        ended = [one for one in plans.values() if one.elastic is elastic and not (one.runs or one.status.kept)]
        ended.sort(key=_end, reverse=True)
        due += [plan for place, plan in enumerate(ended) if place >= keep.count or today - _end(plan) > keep.age]
    return sorted(due, key=_end, reverse=True)


def _end(plan: Plan) -> int:
    """When a plan ended; one that does not say, or not so that it can be read, counts as old."""
    return read(moment, plan.status.finished or None, "status.finished", ignore, 0)
