"""Those whose places are free: they are told, and given up where they cannot come.

the room is free ──▶ told ──asked, and let through──▶ the place is taken
                      │ └── by its own gates it may not start, for ten seconds ──▶ the plan ends
                      └── kube-scheduler does not offer the place for a minute ──▶ struck out, the plan ends

What filter answered last tells whether a gate is worth a look: nothing is worked out for those who are on their way.
"""

from collections.abc import Callable, Sequence

from gpuyard.common.cluster.sighting import Sighting
from gpuyard.common.plans.plan import Place
from gpuyard.engine.explain.sentences import sentence
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.rules.gates import governs
from gpuyard.extender.ledger import Ledger, Phase
from gpuyard.extender.ledger.gate_check import Gatekeeper
from gpuyard.extender.planner.act.execution import Run
from gpuyard.extender.planner.decide.refusals import Refusals

REFUSED_AFTER = 60.0
"""Seconds after which a free place that kube-scheduler does not offer is given up."""

SHUT_AFTER = 10.0
"""Seconds after which room is no longer kept for a pod that may not start: its queue was edited, say."""

TELL_AGAIN = 20.0
"""Seconds after which those whose places are free are told once more: kube-scheduler may not have had time."""


class Claimants:
    """Looks after those for whom a plan has made room."""

    def __init__(self, ledger: Ledger, refusals: Refusals, settings: Callable[[], Settings]) -> None:
        self._ledger = ledger
        self._refusals = refusals
        self._settings = settings
        self._gatekeeper = Gatekeeper(ledger.promises)

    def call(self, run: Run, freed: float, now: float) -> None:
        """Tell them, and say in `run.why_not` why one of them cannot come; the room is free since `freed`."""
        heirs = [place for place in run.open if self._waits(place)]
        if now - run.woken >= TELL_AGAIN or run.woken < freed:
            run.woken = now
            for place in heirs:
                self._ledger.wake(place.pod)
        run.why_not = run.why_not or self._shut(run, heirs, now)
        if now - freed >= REFUSED_AFTER and not run.why_not and self._ledger.callers_are_known:
            self._strike(run, [place for place in heirs if not self._is_offered(place, freed)], now)

    def _strike(self, run: Run, refused: Sequence[Place], now: float) -> None:
        for place in refused:
            self._refusals.strike(place.pod, self._seen(place).pod.uid, place.node, now)
            run.why_not = f"kube-scheduler does not offer {place.node} to {place.pod}"
        run.refused = tuple(place.pod for place in refused)

    def _shut(self, run: Run, heirs: Sequence[Place], now: float) -> str:
        """Why one of them may not start, if that has been so for a while; a gate may be shut for a moment."""
        refused = (place for place in heirs if place.pod in self._ledger.asleep)
        shut = next((why for place in refused if (why := self._gate(place))), "")
        if not shut:
            run.shut = None
            return ""
        run.shut = now if run.shut is None else run.shut
        return shut if now - run.shut >= SHUT_AFTER else ""

    def _gate(self, place: Place) -> str:
        seen, settings = self._seen(place), self._settings()
        if seen.workload is None or not governs(settings, seen.workload):
            return ""
        waiting = self._gatekeeper.refusal(self._ledger.waiting(seen), settings, seen.workload, seen.pod)
        return f"{place.pod} may not start: {sentence(waiting)}" if waiting else ""

    def _is_offered(self, place: Place, since: float) -> bool:
        """Whether kube-scheduler has offered a pod its place since it is free."""
        return place.node in (self._ledger.offered(self._seen(place).pod, since) or ())

    def _waits(self, place: Place) -> bool:
        entry = self._ledger.entries.get(place.pod)
        return entry is not None and entry.phase is Phase.PENDING

    def _seen(self, place: Place) -> Sighting:
        return self._ledger.entries[place.pod].seen
