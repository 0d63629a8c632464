"""The answers to kube-scheduler, from memory: a decision and its reservation are one step, with no call in between."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from gpuyard.engine.model import Promise, Workload
from gpuyard.engine.result import Clearing, Reason, Waiting
from gpuyard.engine.sentences import sentence
from gpuyard.engine.snapshot import Snapshot
from gpuyard.extender.config import ExtenderConfig
from gpuyard.extender.gangs import Asked, Gangs, stands
from gpuyard.extender.gatekeeper import Gatekeeper, governs
from gpuyard.extender.ledger import Grant, Ledger, Sighting
from gpuyard.extender.objects import Pod
from gpuyard.extender.outrank import Asker, Outrank
from gpuyard.extender.preempting import Chosen, Claim, choose
from gpuyard.extender.ranking import best, points
from gpuyard.extender.server import Unavailable
from gpuyard.extender.space import Space
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


GONE = "Gone"
"""The reason in metrics of a pod that is deleted, which kube-scheduler does not know yet."""


AWAITED = "OwnerAwaited"
"""The reason in metrics of a pod that was seen before its owner."""


class Refusal(NamedTuple):
    """Why a pod gets no node: by name for us, and in one sentence that never changes for the same cause."""

    reason: str
    sentence: str


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
        self._gatekeeper = Gatekeeper(ledger.promises)
        self._gangs = Gangs(ledger)
        self.outrank = Outrank(ledger, clock=clock, today=today)
        """Knows who goes first where room is scarce."""

    def filter(self, request: Candidates) -> FilterAnswer:
        """Which of the nodes the pod may have; with a yes its share of the queue is reserved."""
        seen = self._sighting(request.pod)
        offered = request.by_name()
        if seen.workload is None:
            return survivors(request, offered, offered)
        asked = self._asked(seen, offered)
        found = self._refusal(asked.snapshot, seen) or self._place(asked)
        if isinstance(found, Refusal):
            self._ledger.offer(seen.pod, offered, asked.now)
            self._ledger.refuse(seen, found.reason)
            self._count(found.reason)
            return refusal(request, offered, found.sentence)
        if found.names:
            self._ledger.reserve(seen, found, now=asked.now, until=asked.until)
        return survivors(request, offered, found.names)

    def _asked(self, seen: Sighting, offered: Collection[str]) -> Asked:
        now, config = self._clock(), self._config()
        self._ledger.expire(now)
        until = now + config.ttl(claims_volumes=seen.claims_volumes)
        return Asked(self._ledger.waiting(seen), seen, offered, now, until, now - config.verdict.ttl)

    def _place(self, asked: Asked) -> Grant | Refusal:
        """Where a pod that its gates let through may go, or why nowhere."""
        if self._ledger.promises.may_have(asked.seen.pod):
            asked.read()
        promise = self._ledger.promises.of(asked.seen.pod)
        if promise is not None:
            return self._inherit(asked, promise)
        if why := self._outranked(asked):
            return _because(why)
        placed = self._gangs.place_for(asked, self._gatekeeper.accounts(asked.snapshot))
        if isinstance(placed, Waiting):
            return _because(placed)
        return placed or self._choose(asked)

    def _outranked(self, asked: Asked) -> Waiting | None:
        """Why a pod for which no place is kept, and nobody was evicted, has to let others go first, if it has to."""
        config, asker = self._config(), self._asker(asked)
        return self.outrank.outranked(asker, config.engine, config.outrank.grace) if asker else None

    def _asker(self, asked: Asked) -> Asker | None:
        """The pod that is asked about, if others may go first."""
        config, seen = self._config(), asked.seen
        if not config.outrank.grace or seen.workload is None or not seen.workload.governed:
            return None
        if seen.pod.nominated or self._ledger.place_kept(seen.pod):
            return None
        return Asker(asked.snapshot, seen.workload, seen.pod, asked.offered)

    def _inherit(self, asked: Asked, promise: Promise) -> Grant | Refusal:
        """The promised node, once kube-scheduler offers it: it sees before us that the victims are gone."""
        if promise.node in asked.offered and self._gangs.inherits_whole(asked):
            return Grant(promise.node, groups=promise.gpu_groups)
        return _because(Waiting(Reason.RECLAIM_IN_PROGRESS, Clearing(node=promise.node, left=0, plan=promise.plan)))

    def _choose(self, asked: Asked) -> Grant | Refusal:
        """The best of the offered nodes that have room in truth."""
        space = Space(asked.snapshot, self._ledger, asked.seen.pod)
        roomy = self._best(asked, None if space.sees_all else space.fits)
        if asked.offered and not roomy:
            return _because(Waiting(Reason.PROMISED_TO_OTHER if space.is_kept(asked.offered) else Reason.NO_NODE_FITS))
        if not self._keeps_empty(asked.seen):
            return Grant(nodes=roomy)
        used = self._best(asked, lambda node: space.is_in_use(node) and space.fits(node))
        # The planner rather moves others than that an empty node is opened.
        return Grant(nodes=used) if used else _because(Waiting(Reason.RECLAIM_IN_PROGRESS))

    def _best(self, asked: Asked, suits: Callable[[str], bool] | None) -> tuple[str, ...]:
        most = self._config().filter.max_nodes
        return tuple(best(asked.snapshot, asked.seen.pod.shape, asked.offered, most, suits))

    def _keeps_empty(self, seen: Sighting) -> bool:
        """Whether nodes of which no GPU is in use are not for this pod."""
        governed = seen.workload is not None and seen.workload.governed
        claims = governed and seen.pod.shape.wants_gpu and not seen.pod.nominated
        return claims and self._config().engine.keep_nodes_empty

    def prioritize(self, request: Candidates) -> list[HostPriority]:
        """Points for each node: the fuller the better. What has landed since filter was asked counts already."""
        self._sighting(request.pod)
        found: Mapping[str, int] = points(self._ledger.room(request.by_name()))
        return [HostPriority(host, score) for host, score in found.items()]

    def preempt(self, request: Preemption) -> PreemptAnswer:
        """Whom kube-scheduler may evict for the pod; nobody where its gates are shut, or others would have the room.

        This may be the first verb that hears of a pod: on a full cluster filter is not called.
        """
        seen = self._sighting(request.pod)
        asked = self._asked(seen, ())
        snapshot, workload = asked.snapshot, seen.workload
        if workload is None or not workload.governed or not self._may_preempt(snapshot, seen, workload):
            return PreemptAnswer()
        proposal = request.victims()
        budgets = self._translator.budgets_of(pod for node in proposal for pod in snapshot.on_node.get(node, ()))
        view = snapshot.at(int(self._today())).with_budgets(budgets)
        space = Space(view, self._ledger, seen.pod)
        claim = Claim(view, self._config().engine, workload, seen.pod, space, unbound=self._ledger.kept)
        chosen = self._rightful(asked, choose(claim, proposal), space)
        if chosen:
            victims = tuple(victim.uid for pods in chosen.values() for victim in pods)
            self._ledger.reserve(seen, Grant(victims=victims), now=asked.now, until=asked.now + NOMINATION)
        return PreemptAnswer(
            {node: MetaVictims(pods=[MetaPod(victim.uid) for victim in pods]) for node, pods in chosen.items()}
        )

    def _rightful(self, asked: Asked, chosen: Chosen, space: Space) -> Chosen:
        """Of nodes that could be cleared those whose room the pod would have; the planner makes room for the others."""
        config, asker = self._config(), self._asker(asked)
        if not chosen or asker is None:
            return chosen
        cleared = {node: room for node, pods in chosen.items() if (room := space.cleared(node, pods))}
        nodes = self.outrank.rightful(asker, config.engine, config.outrank.grace, cleared)
        return {node: chosen[node] for node in nodes}

    def _sighting(self, pod: Pod) -> Sighting:
        """The newest that is known of the pod of a call."""
        if problem := self._unavailable():
            raise problem
        if not pod.metadata.name:
            raise WireError("Pod.metadata.name is missing")
        known = self._ledger.known(pod.metadata.key, pod.metadata.uid, pod.metadata.version)
        return known or self._ledger.latest(self._translator.sight(pod))

    def _may_preempt(self, snapshot: Snapshot, seen: Sighting, workload: Workload) -> bool:
        """Whether kube-scheduler may make room for the pod: its gates are open, and no plan does it already."""
        return not (self._refusal(snapshot, seen) or self._ledger.promises.of(seen.pod)) and stands(snapshot, workload)

    def _refusal(self, snapshot: Snapshot, seen: Sighting) -> Refusal | None:
        """Why the pod may not start at all; None when it may."""
        settings, workload = self._config().engine, seen.workload
        if workload is None or not governs(settings, workload):
            return None
        if self._ledger.is_gone(seen):
            return Refusal(GONE, "the pod is deleted")
        if seen.awaits:
            return Refusal(AWAITED, f"gpuyard has not seen its owner yet: {seen.awaits}")
        if seen.fault:
            return Refusal(UNREADABLE, f"gpuyard cannot read the pod: {seen.fault}")
        waiting = self._gatekeeper.refusal(snapshot, settings, workload, seen.pod)
        return _because(waiting) if waiting else None


def _because(waiting: Waiting) -> Refusal:
    return Refusal(waiting.reason, sentence(waiting))
