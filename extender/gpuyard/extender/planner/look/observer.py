"""What the planner looks at, and when: the ledger, disruption budgets, the settings, and what it remembers itself."""

from collections.abc import Callable, Iterable, Iterator

from gpuyard.common.cluster.translate import Translator
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.logs import get_logger
from gpuyard.engine.model import SCALE, Promise
from gpuyard.engine.model.results import Until
from gpuyard.engine.model.settings import NO_HISTORY
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.cycle import Cycle
from gpuyard.extender.ledger import Ledger
from gpuyard.extender.planner.decide.refusals import Refusals
from gpuyard.extender.planner.look.capacity import Capacity
from gpuyard.extender.planner.look.covered_pods import CoveredPods
from gpuyard.extender.planner.look.overdue import OverduePods
from gpuyard.extender.planner.look.view import UnderWay, view

log = get_logger()

A_BIT = 0.001
"""Seconds that differences of moments may be wrong by: who looks when a grace ends shall find that it is over."""


class Observer:
    """Gives the snapshot to decide on, and says when to look again."""

    def __init__(
        self, ledger: Ledger, translator: Translator, config: Callable[[], ExtenderConfig], capacity: Capacity
    ) -> None:
        self._ledger = ledger
        self._translator = translator
        self._config = config
        self._capacity = capacity
        self._torn: dict[str, float] = {}
        self._seen: tuple[object, ...] = ()
        self._again = float("inf")
        self._again_today = float("inf")
        self._weighed = SCALE
        """The last `fairshare.k` that was looked at."""
        self._covered = CoveredPods(translator.budget_index)
        self.refusals = Refusals()
        self.overdue = OverduePods()

    def has_changed(self, now: float, today: int) -> bool:
        """Whether anything has changed since `snapshot`, or the time has come that something waited for."""
        due = now >= self._again or today >= self._again_today
        return due or self._state() != self._seen or self.refusals.has_news(self._ledger.entries)

    def look_again(self) -> None:
        """What was decided could not be carried out."""
        self._seen = ()

    def prepare(self) -> Iterator[None]:
        """Bring up to date what would take `snapshot` long at once, in steps."""
        return self._covered.renew(self._ledger.snapshot.pods)

    def snapshot(self, promises: Iterable[Promise], leaving: Iterable[str], now: float, today: int) -> Snapshot:
        """The cluster to decide on, with places kept and the UIDs of those who are to go."""
        counted, config = self._ledger.snapshot, self._config()
        self._seen, self._again_today = self._state(), float("inf")
        self._look_at_history(config.engine.fairshare_k, counted)
        self._torn = {key: self._torn.get(key, now) for key in counted.torn}
        self.refusals.renew(self._ledger.entries, now)
        self.overdue.look(counted.terminating.values(), now)
        dips = tuple(self._capacity.dipping(counted, now, config.capacity.grace))
        # Also where nobody waits: what queues are due changes with it.
        self._again = self._capacity.next_end(config.capacity.grace)
        under_way = UnderWay(
            granted=self._granted(),
            leaving=frozenset(leaving) | self._ledger.doomed,
            promises=tuple(promises),
            budgets=self._covered.now(counted.pods),
            dips=dips,
            late=tuple(self.overdue.in_time(counted.terminating.values(), now, today)),
            # The clock on the wall may have jumped meanwhile: what has passed is counted by the other one.
            torn_since={key: today - int(now - since + A_BIT) for key, since in self._torn.items()},
            offers=self.refusals.offers(now, config.outrank.grace, today=today),
        )
        return view(counted, under_way, today)

    def glance(self, leaving: Iterable[str], now: float) -> Snapshot:
        """The cluster for one question beside a cycle: with those let through in their places, these on their way out.

        When to look again does not change by it.
        """
        counted, config = self._ledger.snapshot, self._config()
        dips = tuple(self._capacity.dipping(counted, now, config.capacity.grace))
        return view(counted, UnderWay(granted=self._granted(), leaving=frozenset(leaving), dips=dips), counted.now)

    def come_back_at(self, today: int) -> None:
        """Look again at this time."""
        self._again_today = today

    def come_back_by(self, now: float) -> None:
        """Look again at this moment at the latest."""
        self._again = min(self._again, now)

    def come_back(self, cycle: Cycle, now: float) -> None:
        """Look again when something ends that a cycle had to respect: a run time, a delay, a grace."""
        change = self.refusals.next_change(now, self._config().outrank.grace)
        ends = [self._capacity.next_end(self._config().capacity.grace), *self._ends_of_torn(cycle)]
        self._again = min((end for end in (change, *ends) if end is not None and end > now), default=float("inf"))
        waits = [why.facts.until for why in cycle.hindered.values() if isinstance(why.facts, Until)]
        self._again_today = min((at for at in waits if at > cycle.snapshot.now), default=float("inf"))

    def _ends_of_torn(self, cycle: Cycle) -> Iterator[float]:
        """When those that stand below their minimum have done so for too long."""
        for key, since in self._torn.items():
            workload = cycle.snapshot.workloads.get(key)
            own = workload.staleness_grace if workload else None
            grace = cycle.settings.staleness_grace if own is None else own
            if grace >= 0:
                yield since + grace

    def _state(self) -> tuple[object, ...]:
        return (self._ledger.snapshot, self._translator.budget_news, self._config())

    def _look_at_history(self, weight: int, snapshot: Snapshot) -> None:
        """Warn once of each weight for past use that has nothing to weigh."""
        if weight not in (SCALE, self._weighed) and not snapshot.history:
            log.warning("setting-without-effect", reason=NO_HISTORY)
        self._weighed = weight

    def _granted(self) -> dict[str, str]:
        """The likely nodes of those whom filter let through: the best that each was offered."""
        found = {}
        for key in self._ledger.granted:
            reservation = self._ledger.entries[key].reservation
            names = reservation.grant.names if reservation else ()
            found[key] = names[0] if names else ""
        return found
