"""The answers to kube-scheduler, from memory: a decision and its reservation are one step, with no call in between."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from gpuyard.engine.result import Reason, Waiting
from gpuyard.engine.rooms import Rooms
from gpuyard.engine.sentences import sentence
from gpuyard.engine.snapshot import Snapshot
from gpuyard.extender.config import ExtenderConfig
from gpuyard.extender.gangs import Asked, Gangs, stands
from gpuyard.extender.gatekeeper import Gatekeeper
from gpuyard.extender.ledger import Ledger, Sighting
from gpuyard.extender.objects import Pod
from gpuyard.extender.preempting import choose
from gpuyard.extender.ranking import best, points
from gpuyard.extender.server import Unavailable
from gpuyard.extender.translate import Translator
from gpuyard.extender.wire import (
    Candidates,
    FilterAnswer,
    HostPriority,
    MetaPod,
    MetaVictims,
    PreemptAnswer,
    Preemption,
    WireError,
    refusal,
    survivors,
)

NOMINATION = 5.0
"""Seconds from a granted preemption until the watch shows the pod's nomination, which then counts."""

UNREADABLE = "Unreadable"
"""The reason in metrics of a pod that says what cannot be read."""


class Nodes(NamedTuple):
    """The nodes for a pod; `kept` is the one that was reserved for it alone, if that is so."""

    names: list[str]
    kept: str = ""


class Verbs:
    """`filter`, `prioritize` and `preempt`, over one ledger.

    `unavailable` says why nothing can be decided now, if so; `count` is told the reason of each refusal.
    `clock` never jumps and says how long something lasts; `today` says what time it is.
    """

    def __init__(  # noqa: PLR0913 - what a decision depends on
        self,
        ledger: Ledger,
        translator: Translator,
        config: Callable[[], ExtenderConfig],
        *,
        unavailable: Callable[[], Unavailable | None],
        clock: Callable[[], float],
        today: Callable[[], float],
        count: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._translator = translator
        self._config = config
        self._unavailable = unavailable
        self._clock = clock
        self._today = today
        self._count = count
        self._gatekeeper = Gatekeeper()
        self._gangs = Gangs(ledger)

    def filter(self, request: Candidates) -> FilterAnswer:
        """Which of the nodes the pod may have; with a yes its share of the queue is reserved."""
        seen = self._sighting(request.pod)
        offered = request.by_name()
        if seen.workload is None:
            return survivors(request, offered, offered)
        now = self._clock()
        self._ledger.expire(now)
        snapshot = self._ledger.waiting(seen)
        until = now + self._config().ttl(claims_volumes=seen.claims_volumes)
        found = self._refusal(snapshot, seen) or self._nodes(Asked(snapshot, seen, offered, now, until))
        if isinstance(found, str):
            self._ledger.refuse(seen)
            return refusal(request, offered, found)
        if found.names and seen.workload.governed:
            self._ledger.reserve(seen, now=now, until=until, node=found.kept)
        return survivors(request, offered, found.names)

    def _nodes(self, asked: Asked) -> Nodes | str:
        """The nodes for a pod that its gates let through, or why there is none for it."""
        placed = self._gangs.nodes_for(asked, self._gatekeeper.accounts(asked.snapshot))
        if isinstance(placed, Waiting):
            return self._counted(placed)
        if placed is not None:
            return Nodes(placed, kept=placed[0])
        free = self._not_kept(asked)
        if asked.offered and not free:
            return self._counted(Waiting(Reason.PROMISED_TO_OTHER))
        return Nodes(best(asked.snapshot, free, self._config().filter.max_nodes))

    def _not_kept(self, asked: Asked) -> Collection[str]:
        """The offered nodes, less those where what is kept for others leaves no room."""
        pod, rooms = asked.seen.pod, asked.snapshot.room
        kept = {node for key, node in self._ledger.kept.items() if key != pod.key and node in rooms}
        if kept.isdisjoint(asked.offered):
            return asked.offered
        found = Rooms(asked.snapshot)
        return {name for name in asked.offered if name not in kept or found[name].fits_now(pod.shape)}

    def prioritize(self, request: Candidates) -> list[HostPriority]:
        """Points for each node: the fuller the better."""
        self._sighting(request.pod)
        found: Mapping[str, int] = points(self._ledger.snapshot, request.by_name())
        return [HostPriority(host, score) for host, score in found.items()]

    def preempt(self, request: Preemption) -> PreemptAnswer:
        """Whom kube-scheduler may evict for the pod; nobody where the pod's own gates are shut.

        This may be the first verb that hears of a pod: on a full cluster filter is not called.
        """
        seen = self._sighting(request.pod)
        now = self._clock()
        self._ledger.expire(now)
        snapshot = self._ledger.waiting(seen)
        workload = seen.workload
        if workload is None or not workload.governed or self._refusal(snapshot, seen) or not stands(snapshot, workload):
            return PreemptAnswer()
        proposal = request.victims()
        budgets = self._translator.budgets_of(pod for node in proposal for pod in snapshot.on_node.get(node, ()))
        view = snapshot.at(int(self._today())).with_budgets(budgets)
        chosen = choose(view, self._config().engine, workload, seen.pod, proposal)
        if chosen:
            self._ledger.reserve(seen, now=now, until=now + NOMINATION)
        return PreemptAnswer(
            {node: MetaVictims(pods=[MetaPod(victim.uid) for victim in pods]) for node, pods in chosen.items()}
        )

    def _sighting(self, pod: Pod) -> Sighting:
        """The newest that is known of the pod of a call."""
        if problem := self._unavailable():
            raise problem
        if not pod.metadata.name:
            raise WireError("Pod.metadata.name is missing")
        known = self._ledger.known(pod.metadata.key, pod.metadata.uid, pod.metadata.version)
        return known or self._ledger.latest(self._translator.sight(pod))

    def _refusal(self, snapshot: Snapshot, seen: Sighting) -> str:
        """The sentence that says why the pod may not start; empty when it may."""
        settings, workload = self._config().engine, seen.workload
        if seen.fault:
            self._count(UNREADABLE)
            return f"gpuyard cannot read the pod: {seen.fault}"
        if workload is None or (workload.queue is None and settings.pods_without_queue == "pass"):
            return ""
        waiting = self._gatekeeper.refusal(snapshot, settings, workload, seen.pod)
        if waiting is None:
            return ""
        return self._counted(waiting)

    def _counted(self, waiting: Waiting) -> str:
        self._count(waiting.reason)
        return sentence(waiting)
