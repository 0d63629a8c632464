"""The answers to kube-scheduler, from memory: a decision and its reservation are one step, with no call in between.

A call only asks. Of its pod it gives the name and the nodes that kube-scheduler offers; all else that is known of the
pod came by the watch. Where kube-scheduler knows of a pod before the watch shows it, the call waits a moment.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from gpuyard.common.cluster.sighting import Sighting
from gpuyard.common.cluster.translate import Translator
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.engine.explain.sentences import sentence
from gpuyard.engine.model import Pod, Promise, Workload
from gpuyard.engine.model.constraints import avoided
from gpuyard.engine.model.results import Clearing, Reason, Waiting
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.strategies import STRATEGIES, Strategy
from gpuyard.engine.rules import gates
from gpuyard.engine.rules.gates import governs
from gpuyard.extender.http.server import Unavailable
from gpuyard.extender.http.wire import (
    AskedPod,
    Candidates,
    FilterAnswer,
    HostPriority,
    MetaPod,
    MetaVictims,
    Offered,
    PreemptAnswer,
    Preemption,
    WireError,
    refusal,
    survivors,
)
from gpuyard.extender.ledger import NOT_SEEN_SENTENCE, NOT_SEEN_YET, Grant, Ledger
from gpuyard.extender.ledger.gate_check import Gatekeeper, starts_with
from gpuyard.extender.precedence.precedence import Contender, Precedence
from gpuyard.extender.verbs.gangs import Asked, Gangs, stands
from gpuyard.extender.verbs.node_room import NodeRoom
from gpuyard.extender.verbs.preempting import Chosen, Claim, Proposal, choose
from gpuyard.extender.verbs.ranking import best, points, ranked

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


DELETED = Refusal(GONE, "the pod is deleted")

A = TypeVar("A")


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
        self.precedence = Precedence(ledger, clock=clock, today=today)
        """Knows who goes first where room is scarce."""

    def strategy(self) -> Strategy:
        """How nodes and GPUs are ranked by the settings in force."""
        return STRATEGIES[self._config().placement]

    def filter(self, request: Candidates) -> FilterAnswer | Awaitable[FilterAnswer]:
        """Which of the nodes the pod may have; with a yes its share of the queue is reserved."""
        return self._once_seen(request.pod, partial(self._filter, request))

    def _filter(self, request: Candidates, seen: Sighting | None) -> FilterAnswer:
        offered = request.by_name()
        if seen is None:
            return self._refuse_unseen(request, offered)
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

    def _refuse_unseen(self, request: Candidates, offered: Offered) -> FilterAnswer:
        """Nothing is noted: the watch finds by the refusal itself whom to wake, once it shows the pod."""
        known = self._ledger.is_deleted(request.pod.metadata.uid)
        refused = DELETED if known else Refusal(NOT_SEEN_YET, NOT_SEEN_SENTENCE)
        self._count(refused.reason)
        return refusal(request, offered, refused.sentence)

    def _asked(self, seen: Sighting, offered: Collection[str]) -> Asked:
        now, config = self._clock(), self._config()
        until = now + config.ttl(claims_volumes=seen.claims_volumes)
        return Asked(self._ledger.waiting(seen), seen, offered, now, until, now - config.verdict.ttl, self.strategy())

    def _place(self, asked: Asked) -> Grant | Refusal:
        """Where a pod that its gates let through may go, or why nowhere."""
        promise = self._promise(asked)
        if promise is not None and not promise.elastic:
            return self._inherit(asked, promise)
        if not (promise and self._covers(asked)) and (why := self._outranked(asked)):
            return _because(why)
        placed = self._gangs.place_for(asked, self._gatekeeper.accounts(asked.snapshot))
        if isinstance(placed, Waiting):
            return _because(placed)
        return placed or (self._share(asked, promise) if promise else self._choose(asked))

    def _promise(self, asked: Asked) -> Promise | None:
        """What is kept for a pod; of what is kept for its workload only what is on a node that it is offered."""
        promises = self._ledger.promises
        found = promises.of(asked.seen.pod, asked.offered) if promises.all else None
        if found is not None:
            asked.read()
        return found

    def _covers(self, asked: Asked) -> bool:
        """Whether elastic plans keep as much for a workload as all its pods ask for that start with this one."""
        workload, pod = asked.seen.workload, asked.seen.pod
        starting = starts_with(asked.snapshot, workload, pod) if workload else [pod]
        return sum(one.shape.gpus for one in starting) <= self._ledger.promises.left_for(pod.workload)

    def _share(self, asked: Asked, promise: Promise) -> Grant | Refusal:
        """The node on which room is kept for the workload, if there is as much as the pod asks for; else any other."""
        pod = asked.seen.pod
        if not pod.shape.shared and NodeRoom(asked.snapshot, self._ledger, pod, asked.strategy).has_room(promise.node):
            return Grant(promise.node)
        why = self._outranked(asked)
        return _because(why) if why else self._choose(asked)

    def _outranked(self, asked: Asked) -> Waiting | None:
        """Why a pod for which no place is kept, and nobody was evicted, has to let others go first, if it has to."""
        config, contender = self._config(), self._contender(asked)
        return self.precedence.outranked(contender, config.engine, config.outrank.grace) if contender else None

    def _contender(self, asked: Asked) -> Contender | None:
        """The pod that is asked about, if others may go first."""
        config, seen = self._config(), asked.seen
        if not config.outrank.grace or seen.workload is None or not seen.workload.governed:
            return None
        if seen.pod.nominated or self._ledger.place_kept(seen.pod):
            return None
        return Contender(asked.snapshot, seen.workload, seen.pod, asked.offered)

    def _inherit(self, asked: Asked, promise: Promise) -> Grant | Refusal:
        """The promised node, once kube-scheduler offers it: it sees before us that the victims are gone."""
        if promise.node in asked.offered and self._gangs.inherits_whole(asked):
            return Grant(promise.node, groups=promise.gpu_groups)
        return _because(Waiting(Reason.RECLAIM_IN_PROGRESS, Clearing(node=promise.node, left=0, plan=promise.plan)))

    def _choose(self, asked: Asked) -> Grant | Refusal:
        """The best of the offered nodes that have room in truth."""
        room = NodeRoom(asked.snapshot, self._ledger, asked.seen.pod, asked.strategy)
        roomy = self._best(asked, self._suits(asked, room))
        if asked.offered and not roomy:
            return _because(self._crowded(asked, room))
        if not self._keeps_empty(asked.seen):
            return Grant(nodes=roomy)
        used = self._best(asked, lambda node: room.is_in_use(node) and room.fits(node))
        # The planner rather moves others than that an empty node is opened.
        return Grant(nodes=used) if used else _because(Waiting(Reason.RECLAIM_IN_PROGRESS))

    def _suits(self, asked: Asked, room: NodeRoom) -> Callable[[str], bool] | None:
        """Which nodes may be answered, if not all that are offered."""
        question = self._question(asked)
        if question is None:
            return None if room.sees_all else room.fits
        return lambda node: room.fits(node) and gates.bound_on(question, asked.seen.pod, node) is None

    def _question(self, asked: Asked) -> gates.Question | None:
        """What the gates are asked once more on each node: about a governed pod that asks for GPU memory."""
        workload, pod = asked.seen.workload, asked.seen.pod
        if workload is None or not workload.governed or not pod.shape.gpu_memory:
            return None
        return self._gatekeeper.question(asked.snapshot, self._config().engine, workload, pod)

    def _crowded(self, asked: Asked, room: NodeRoom) -> Waiting:
        """Why none of the offered nodes may be answered."""
        if (question := self._question(asked)) and (roomy := self._best(asked, room.fits)):
            bound = gates.bound_on(question, asked.seen.pod, roomy[0])
            if bound is not None:
                return bound
        return Waiting(Reason.PROMISED_TO_OTHER if room.is_kept(asked.offered) else Reason.NO_NODE_FITS)

    def _best(self, asked: Asked, suits: Callable[[str], bool] | None) -> tuple[str, ...]:
        """The best of the offered nodes; all that suit where kube-scheduler knows better which are the best."""
        has_say = _has_say(asked.snapshot, asked.seen.pod, asked.offered)
        most = len(asked.offered) if has_say else self._config().filter.max_nodes
        return tuple(best(asked.snapshot, asked.seen.pod.shape, asked.offered, most, suits, strategy=asked.strategy))

    def _keeps_empty(self, seen: Sighting) -> bool:
        """Whether nodes of which no GPU is in use are not for this pod."""
        governed = seen.workload is not None and seen.workload.governed
        claims = governed and seen.pod.shape.wants_gpu and not seen.pod.nominated
        return claims and self._config().engine.keep_nodes_empty

    def prioritize(self, request: Candidates) -> list[HostPriority]:
        """Points for each node, by the strategy of placing. What has landed since filter was asked counts already.

        None for any where the pod, or a node by a taint, says itself what is better: our points would outweigh that.
        """
        self._check()
        offered, seen = request.by_name(), self._ledger.seen(request.pod.key, request.pod.metadata.uid)
        if seen is not None and _has_say(self._ledger.snapshot, seen.pod, offered):
            return [HostPriority(host, 0) for host in offered]
        if seen is not None and seen.pod.shape.shared:
            room = NodeRoom(self._ledger.waiting(seen), self._ledger, seen.pod, self.strategy())
            found: Mapping[str, int] = ranked({node: room.order_of_part(node) for node in offered})
        else:
            found = points(self._ledger.room(offered), self.strategy())
        return [HostPriority(host, score) for host, score in found.items()]

    def preempt(self, request: Preemption) -> PreemptAnswer | Awaitable[PreemptAnswer]:
        """Whom kube-scheduler may evict for the pod; nobody where its gates are shut, or others would have the room.

        This may be the first verb that hears of a pod: on a full cluster filter is not called.
        """
        return self._once_seen(request.pod, partial(self._preempt, request), patient=True)

    def _preempt(self, request: Preemption, seen: Sighting | None) -> PreemptAnswer:
        if seen is None:
            return PreemptAnswer()
        asked = self._asked(seen, ())
        workload = seen.workload or Workload(key=seen.pod.key)
        if not self._may_preempt(asked.snapshot, seen, workload):
            return PreemptAnswer()
        claim = self._claim(asked, workload, proposal := request.victims())
        chosen = self._nodes_it_gets(asked, choose(claim, proposal), claim.room)
        if chosen and workload.governed:
            victims = tuple(victim.uid for pods in chosen.values() for victim in pods)
            self._ledger.reserve(seen, Grant(victims=victims), now=asked.now, until=asked.now + NOMINATION)
        return PreemptAnswer(
            {node: MetaVictims(pods=[MetaPod(victim.uid) for victim in pods]) for node, pods in chosen.items()}
        )

    def _claim(self, asked: Asked, workload: Workload, proposal: Proposal) -> Claim:
        """For whom room is asked, on the cluster as it is now; budgets are read only for the nodes in question."""
        snapshot = asked.snapshot.at(int(self._today()))
        honor_budgets = workload.governed and self._config().engine.honor_disruption_budgets
        if honor_budgets:
            pods = (pod for node in proposal for pod in snapshot.on_node.get(node, ()))
            snapshot = snapshot.with_budgets(self._translator.budgets_of(pods))
        room = NodeRoom(snapshot, self._ledger, asked.seen.pod, asked.strategy)
        return Claim(snapshot, workload, asked.seen.pod, room, honor_budgets, self._ledger.kept)

    def _nodes_it_gets(self, asked: Asked, chosen: Chosen, room: NodeRoom) -> Chosen:
        """Of nodes that could be cleared those whose room the pod would have; the planner makes room for the others."""
        config, contender = self._config(), self._contender(asked)
        if not chosen or contender is None:
            return chosen
        cleared = {node: left for node, pods in chosen.items() if (left := room.cleared(node, pods))}
        nodes = self.precedence.nodes_for(contender, config.engine, config.outrank.grace, cleared)
        return {node: chosen[node] for node in nodes}

    def may_bind(self, seen: Sighting, node: str) -> str:
        """Why a waiting pod that holds no grant for this node may not be bound to it; empty: it may."""
        asked = self._asked(seen, (node,))
        if refused := self._refusal(asked.snapshot, seen):
            return refused.sentence
        room = NodeRoom(asked.snapshot, self._ledger, seen.pod, asked.strategy)
        governed = seen.workload and seen.workload.governed
        has_room = room.has_room(node) if governed else room.fits(node)
        return "" if has_room else f"node {node} has no room for it any more"

    def _once_seen(
        self, pod: AskedPod, answer: Callable[[Sighting | None], A], *, patient: bool = False
    ) -> A | Awaitable[A]:
        """Answer by what the watch shows of a pod: at once, or after a moment where the caller knows more."""
        self._check(pod.key)
        if not pod.metadata.name:
            raise WireError("Pod.metadata.name is missing")
        seen = self._ledger.seen(pod.key, pod.metadata.uid)
        if seen.version >= pod.version if seen else self._ledger.is_deleted(pod.metadata.uid):
            return answer(seen)
        if longest := self._ledger.arrivals.longest_wait(self._clock(), patient=patient):
            return self._later(pod, answer, longest)
        return answer(self._overtaken(pod))

    async def _later(self, pod: AskedPod, answer: Callable[[Sighting | None], A], longest: float) -> A:
        shown = await self._ledger.arrivals.wait(pod.metadata.uid, pod.version, self._clock(), longest)
        self._check(pod.key)
        return answer(self._ledger.seen(pod.key, pod.metadata.uid) if shown else self._overtaken(pod))

    def _overtaken(self, pod: AskedPod) -> Sighting | None:
        """What the watch shows of a pod of which the caller knows more: its next version wakes it."""
        seen = self._ledger.seen(pod.key, pod.metadata.uid)
        if seen is not None:
            self._ledger.overtaken(pod.key)
        return seen

    def _check(self, asked: str = "") -> None:
        """Raise why nothing can be decided at this moment, if so; else let what is over be over, first of all asked."""
        if problem := self._unavailable():
            raise problem
        self._ledger.expire(self._clock(), asked)

    def _may_preempt(self, snapshot: Snapshot, seen: Sighting, workload: Workload) -> bool:
        """Whether kube-scheduler may make room for the pod: its gates are open, and no plan does it already."""
        if self._ledger.has_ended(seen) or self._refusal(snapshot, seen) or self._ledger.promises.of(seen.pod):
            return False
        # What is freed outside the domain of a gang with a topology would not help: that room the planner makes.
        return not workload.governed or (stands(snapshot, workload) and not workload.gang.has_topology)

    def _refusal(self, snapshot: Snapshot, seen: Sighting) -> Refusal | None:
        """Why the pod may not start at all; None when it may."""
        settings, workload = self._config().engine, seen.workload
        if workload is None or not governs(settings, workload):
            return None
        if self._ledger.has_ended(seen):
            return DELETED
        if seen.awaits:
            return Refusal(AWAITED, f"gpuyard has not seen its owner yet: {seen.awaits}")
        if seen.fault:
            return Refusal(UNREADABLE, f"gpuyard cannot read the pod: {seen.fault}")
        waiting = self._gatekeeper.refusal(snapshot, settings, workload, seen.pod)
        return _because(waiting) if waiting else None


def _has_say(snapshot: Snapshot, pod: Pod, offered: Collection[str]) -> bool:
    """Whether the pod prefers some nodes, or one of these would rather not have it: kube-scheduler weighs that."""
    return pod.prefers or any(node in offered for node in avoided(snapshot.fleet, pod.shape))


def _because(waiting: Waiting) -> Refusal:
    return Refusal(waiting.reason, sentence(waiting))
