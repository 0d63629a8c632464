"""The planner: looks at the cluster once per interval, goes on with its plans, and makes new ones if something changed.

    look ──▶ advance each plan under way ──▶ nothing changed, nobody waits? ──▶ done
                                                      │ else
             write, carry out ◀── still so? ◀── the engine's cycle, stepped beside the verbs

What it decides is checked against the ledger before it acts: the verbs do not stand still meanwhile. A plan is known to
the ledger before it is written, so no verb gives away what it keeps, and kube-scheduler gets no second set of victims.

Plans of other writers are answered beside that, once per interval as well, however long a cycle takes.

Decided in docs/decisions.md: "A burst that has room is left to kube-scheduler".
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import NoReturn

from gpuyard.common.cluster.sighting import Sighting
from gpuyard.common.cluster.translate import Translator
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import ApiError, KubeError
from gpuyard.common.kube.events import Recorder
from gpuyard.common.logs import get_logger
from gpuyard.common.plans.plan import Place, Plan, promise
from gpuyard.common.plans.store import Store
from gpuyard.engine.kube.times import moment
from gpuyard.engine.kube.verdicts import evictions_may_help
from gpuyard.engine.model import GPU, Pod, Promise
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.strategies import STRATEGIES
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.search.cycle import Cycle
from gpuyard.extender.ledger import Ledger, Phase
from gpuyard.extender.planner.act.claimants import Claimants
from gpuyard.extender.planner.act.elastic_plans import ElasticPlans
from gpuyard.extender.planner.act.execution import Executor, Run, Terms, World
from gpuyard.extender.planner.act.pruning import Pruner
from gpuyard.extender.planner.decide.new_plans import decided
from gpuyard.extender.planner.decide.recheck import has_room, moves_all, still_holds
from gpuyard.extender.planner.decide.refusals import recall
from gpuyard.extender.planner.decide.stepping import computed, drain, give_way
from gpuyard.extender.planner.look.capacity import Capacity
from gpuyard.extender.planner.look.elastic_room import leaving, refusal
from gpuyard.extender.planner.look.observer import Observer
from gpuyard.extender.planner.look.progress import SeenPods
from gpuyard.extender.planner.metrics import PlannerMetrics
from gpuyard.extender.planner.tell.pod_events import Teller
from gpuyard.extender.planner.tell.queue_status import QueueWriter, statuses
from gpuyard.extender.planner.tell.wait_reasons import WaitingRoom
from gpuyard.extender.precedence.free_room import is_scarce
from gpuyard.extender.precedence.precedence import Precedence

log = get_logger()

WAKE_AGAIN = 10.0
"""Seconds in which no pod is woken twice because the engine has room for it."""


IN_LINE = 30
"""Seconds for which a pod of which kube-scheduler has said nothing is taken to stand in its queue."""

QUEUES_PAUSE = 5.0
"""Seconds between two writes to more than a handful of Queue objects."""

A_HANDFUL = 5

_UNFIT = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)

A_FEW = 500
"""So many pods are looked at before the verbs have their turn."""


class Planner:
    """Carries out what the engine decides, until cancelled."""

    def __init__(  # noqa: PLR0913 - what it reads, what it writes to, and two clocks
        self,
        client: Client,
        ledger: Ledger,
        translator: Translator,
        config: Callable[[], ExtenderConfig],
        precedence: Precedence,
        *,
        recorder: Recorder,
        capacity: Capacity,
        metrics: PlannerMetrics,
        calls: Callable[[], int],
        clock: Callable[[], float],
        today: Callable[[], float],
        plans: Callable[[], Mapping[str, Plan]] = dict,
        queue_uids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._precedence = precedence
        self._metrics = metrics
        self._calls = calls
        self._clock = clock
        self._today = today
        self._store = Store(client)
        self._pruner = Pruner(self._store, plans)
        self.elastic = ElasticPlans(
            self._store,
            ledger,
            plans,
            self._why_not,
            keep=self._keep_places,
            ttl=lambda: config().promise.ttl,
            metrics=metrics,
            clock=clock,
            today=today,
        )
        """Answers the plans of other writers."""
        self._teller = teller = Teller(recorder, queue_uids, self._queue_of)
        self._waiting = WaitingRoom(teller, clock)
        self._executor = Executor(client, self._store, teller, metrics)
        self._queues = QueueWriter(client)
        self._observer = Observer(ledger, translator, config, capacity)
        self._claimants = Claimants(ledger, self._observer.refusals, lambda: config().engine)
        self._runs: dict[str, Run] = {}
        self._mine: dict[str, Plan] | None = None
        """The plans of whoever led before, and those that this one has written; None: it has not looked yet."""
        self._starting: Mapping[str, str] = {}
        """The nodes of those who can start by the last cycle, by key."""
        self._kept: tuple[Mapping[str, tuple[Place, ...]], tuple[Promise, ...]] | None = None
        self._loaded = False
        self._fresh = True
        self._woken: dict[str, float] = {}
        self._unwritten: Mapping[str, Json] | None = None
        self._written_at = float("-inf")

    async def run(self) -> NoReturn:
        """Look once per interval."""
        while True:
            try:
                await self.look()
            except KubeError as error:
                self._interrupted(error)
            except Exception:
                # Whatever is wrong with deciding, the verbs go on answering.
                log.exception("planner-failed")
            await asyncio.sleep(self._config().planner.interval)

    async def look(self) -> None:
        """Go on with the plans under way, and make new ones if anything has changed."""
        if not self._loaded:
            await self.resume()
        for run in list(self._runs.values()):
            try:
                await self._advance(run)
            except KubeError as error:
                # The others are none the worse for it.
                self._interrupted(error)
            except Exception:
                log.exception("plan-failed", plan=run.plan.name)
            await give_way(self._calls)
        if self._observer.has_changed(self._clock(), int(self._today())) or self._waiting.is_due():
            await self._decide()
        await self._write_queues()
        await self._pruner.look(self._config().plans.keep, self._clock(), self._today())

    def _interrupted(self, error: KubeError) -> None:
        """What was written and what was not is known only after reading it again."""
        self._loaded = False
        self._observer.look_again()
        log.warning("planner-interrupted", reason=str(error))

    # --- plans under way ---

    async def resume(self) -> None:
        """Go on from the Plan objects: what they keep is kept from now on."""
        found = await self._store.load()
        if self._mine is None:
            self._mine = {plan.name: plan for plan in found}
        # Of what somebody else has written meanwhile nothing is carried out.
        plans = [plan for plan in found if _is_same(self._mine.get(plan.name), plan)]
        self._runs = {
            plan.name: self._runs.get(plan.name) or Run(plan, _made(plan, 0), plan.spec.promises) for plan in plans
        }
        if self._fresh:
            recall(self._observer.refusals, self._store.refused, self._ledger.entries, self._clock(), self._today())
            self._fresh = False
        self._loaded = True
        self.elastic.resume()
        self._keep_places()

    async def _advance(self, run: Run) -> None:
        config = self._config()
        terms = Terms(config.promise.ttl, config.honor_disruption_budgets, config.move_bare_pods)
        await self._executor.advance(run, self._world(), terms)
        if run.stubborn is not None:
            self._observer.refusals.spare(run.stubborn.pod, run.stubborn.uid, self._clock())
            run.stubborn = None
        if not run.plan.runs:
            del self._runs[run.plan.name]
            if self._mine is not None:
                self._mine.pop(run.plan.name, None)
        elif run.freed is not None:
            self._claimants.call(run, run.freed, self._clock())
        self._keep_places()

    def _world(self) -> World:
        now, today = self._clock(), self._today()
        is_stuck = partial(self._observer.overdue.is_stuck, now=now, today=today)
        pods, at = SeenPods(self._ledger.entries), self._ledger.snapshot.on_node
        return World(pods, at, now, today, is_stuck, lambda pod: self._queue_of(pod.key))

    def _waits(self, pod: str) -> bool:
        entry = self._ledger.entries.get(pod)
        return entry is not None and entry.phase is Phase.PENDING

    def _queue_of(self, pod: str) -> str:
        entry = self._ledger.entries.get(pod)
        return (entry.seen.workload.queue if entry and entry.seen.workload else "") or ""

    def _keep_places(self) -> None:
        kept = {name: run.open for name, run in self._runs.items()}, self.elastic.promises
        if kept != self._kept:
            # Of many plans hardly one has changed: what all of them promise is not made anew for each.
            own = (promise(run.plan, one) for run in self._runs.values() for one in run.open)
            self._ledger.put_promises((*own, *self.elastic.promises))
            # Last: what could not be put is tried again.
            self._kept = kept
        self._metrics.running.set(len(self._runs))

    # --- new plans ---

    async def _decide(self) -> None:
        now, settings = self._clock(), self._config().engine
        asked = self._asked_about()
        leaving = [*self._victims(), *self.elastic.leaving(self._ledger.snapshot)]
        await drain(self._observer.prepare(), self._clock, self._calls)
        snapshot = self._observer.snapshot(self._open_promises(), leaving, now, int(self._today()))
        await give_way(self._calls)
        await drain(self._waiting.turn_away(snapshot, settings), self._clock, self._calls)
        if not (any(snapshot.waiting.values()) or snapshot.torn):
            self._metrics.blocked.set(0)
            await self._publish(Accounts.of(snapshot, settings.fairshare_k))
            return
        await drain(self._precedence.line_up(snapshot, settings), self._clock, self._calls)
        if await self._are_in_line(snapshot):
            await self._publish(Accounts.of(snapshot, settings.fairshare_k))
            return
        spared = self._ledger.granted | self._observer.refusals.spared(now)
        cycle = Cycle(snapshot, settings, spared=spared)
        async with computed(cycle, self._clock, self._calls):
            self._metrics.cycles.observe(self._clock() - now)
            self._starting = cycle.record.starting()
            await self._carry_out(cycle)
            await give_way(self._calls)
            self._count_on(cycle, asked)
            await give_way(self._calls)
            self._observer.come_back(cycle, self._clock())
            self._observer.come_back_by(self._wakes_again(cycle, now))
            await self._publish(cycle.accounts)
            if not await self._waiting.tell(cycle):
                self._observer.look_again()

    async def _are_in_line(self, snapshot: Snapshot) -> bool:
        """Whether there is room for all who wait, and kube-scheduler has only not come to them yet: a burst.

        Then there is nothing to decide, and what a cycle costs is missing where kube-scheduler is answered.
        """
        if self._runs or self.elastic.promises or snapshot.torn or is_scarce(snapshot):
            return False
        oldest = snapshot.now
        for count, pod in enumerate(_waiting(snapshot), 1):
            is_new = abs(snapshot.now - pod.created) < IN_LINE
            if self._was_heard_of(pod.key) or not is_new:
                return False
            oldest = min(oldest, pod.created)
            if count % A_FEW == 0:
                await asyncio.sleep(0)
        self._observer.come_back_at(oldest + IN_LINE)
        return True

    def _victims(self) -> Iterator[str]:
        """The UIDs of those whom the plans under way evict."""
        return (uid for run in self._runs.values() if not run.why_not for uid in run.plan.victims)

    def _why_not(self, plan: Plan) -> str:
        """Why the room that another writer's plan asks for cannot be kept; empty: it can."""
        gone = (pod.uid for pod in leaving(plan, self._ledger.snapshot))
        others = (*self._victims(), *self.elastic.leaving(self._ledger.snapshot))
        view = self._observer.glance((*others, *gone), self._clock())
        strategy = STRATEGIES[self._config().placement]
        return refusal(plan, view, self._ledger.promises.open_ones(), self._starting, strategy)

    def _open_promises(self) -> list[Promise]:
        """The promises whose heirs have not been let through: those count where they go."""
        return [one for one in self._ledger.promises.all if not self._ledger.promises.is_taken(one)]

    async def _carry_out(self, cycle: Cycle) -> None:
        plans = decided(cycle)
        for plan in plans:
            if not moves_all(plan):
                # A bare pod would be lost. What follows builds on it: the next look decides anew.
                log.error("consolidation-without-a-place", plan=plan.name, workload=plan.spec.workload)
                self._observer.look_again()
                return
            counted, others = self._ledger.snapshot, list(self._ledger.promises.open_ones())
            fits = still_holds(plan, self._ledger.entries, cycle.snapshot.pods, self._ledger.doomed)
            if self._is_in_vain(plan):
                # Many may wait for the same thing: one look for each would hold up the rightful ones behind them.
                await self._bar_hopeless(cycle.snapshot, plans)
                self._observer.look_again()
                return
            if not fits or not has_room(plan, counted, others, STRATEGIES[cycle.settings.placement]):
                # What follows builds on it: the next look decides anew.
                log.info("plan-overtaken", plan=plan.name)
                return
            if not await self._begin(plan):
                self._observer.look_again()
                return

    def _is_in_vain(self, plan: Plan) -> bool:
        """Whether somebody would be evicted for a pod that evictions do not help: then it is counted on no longer."""
        if not plan.spec.evictions:
            return False
        claims = [place.pod for place in plan.spec.promises if not plan.is_moved(place)]
        entries = [entry for pod in claims if (entry := self._ledger.entries.get(pod))]
        barred = [entry.seen for entry in entries if not self._helps(entry.seen)]
        for seen in barred:
            log.info("eviction-would-not-help", pod=seen.pod.key, verdict=seen.verdict)
            self._bar(seen)
        return bool(barred)

    async def _bar_hopeless(self, snapshot: Snapshot, plans: Iterable[Plan]) -> None:
        """Count on none of those whom evictions do not help: of these plans, and by kube-scheduler's word."""
        for plan in plans:
            self._is_in_vain(plan)
        for count, pod in enumerate(_waiting(snapshot), 1):
            entry = self._ledger.entries.get(pod.key)
            heard = entry is not None and entry.phase is Phase.PENDING and entry.seen.verdict is not None
            if entry is not None and heard and not self._helps(entry.seen):
                self._bar(entry.seen)
            if count % A_FEW == 0:
                await asyncio.sleep(0)

    def _bar(self, seen: Sighting) -> None:
        self._observer.refusals.bar(seen.pod.key, seen.pod.uid, seen.verdict)

    def _helps(self, seen: Sighting) -> bool:
        """Whether evictions may help a pod, by kube-scheduler's word; of one with volumes it has to be heard first."""
        if seen.verdict is not None:
            return evictions_may_help(seen.verdict)
        return not seen.claims_volumes or self._ledger.heeded(seen.pod, float("-inf")) is not None

    async def _begin(self, plan: Plan) -> bool:
        """Write a plan and begin with it; False: the API server will never take it."""
        run = self._runs[plan.name] = Run(plan, int(self._today()), plan.spec.promises)
        self._keep_places()
        if self._mine is not None:
            # Also where nobody knows whether it was stored: then it is gone on with once it has been read.
            self._mine[plan.name] = plan
        try:
            run.plan = await self._store.create(plan)
            if self._mine is not None:
                self._mine[plan.name] = run.plan
            # Who inherits is told by creation times: those are of the API server's clock, not of ours.
            run.since = _made(run.plan, run.since)
        except KubeError as error:
            del self._runs[plan.name]
            self._keep_places()
            if not _is_unfit(error):
                raise
            self._pass_over(plan, error)
            return False
        self._teller.begun(run.plan)
        log.info("planned", plan=plan.name, workload=plan.spec.workload, evictions=len(plan.spec.evictions))
        await self._advance(run)
        return True

    def _pass_over(self, plan: Plan, error: KubeError) -> None:
        """Plan for its claimants no more: users write what a plan repeats, and others wait behind them."""
        log.warning("plan-not-stored", plan=plan.name, workload=plan.spec.workload, reason=str(error))
        for place in plan.spec.promises:
            if (entry := self._ledger.entries.get(place.pod)) and not plan.is_moved(place):
                self._bar(entry.seen)

    def _asked_about(self) -> set[str]:
        """The pods that were counted on and that kube-scheduler has asked about since; from now on they are not idle.

        Where anybody may call, no pod is blocked because no call names it: whoever calls must not decide that.
        """
        refusals, pods = self._observer.refusals, self._ledger.snapshot.pods
        asked = {
            key
            for key, since in refusals.idle.items()
            if key in pods
            and (not self._ledger.callers_are_known or self._ledger.offered(pods[key], since) is not None)
        }
        refusals.forget_idle(asked)
        return asked

    def _count_on(self, cycle: Cycle, asked: Collection[str]) -> None:
        """Remember who could start at once, to see whether kube-scheduler ever asks about them."""
        pods = {key: cycle.snapshot.pods[key] for key in cycle.record.starts() if self._waits(key)}
        refusals, now, grace = self._observer.refusals, self._clock(), self._config().outrank.grace
        heard = {key: pod.uid for key, pod in pods.items() if self._was_heard_of(key)}
        refusals.count_on(heard, asked, now, grace)
        self._precedence.blocked = refusals.blocked(now, grace)
        self._metrics.blocked.set(len(self._precedence.blocked))
        self._wake(pods, now)

    def _was_heard_of(self, pod: str) -> bool:
        """Whether kube-scheduler has come to a pod that waits; in a burst many only stand in its queue."""
        entry = self._ledger.entries.get(pod)
        if entry is None:
            return False
        return entry.seen.verdict is not None or self._ledger.heeded(entry.seen.pod, float("-inf")) is not None

    def _wake(self, pods: Mapping[str, Pod], now: float) -> None:
        """Wake those who sleep and could go: kube-scheduler does not see why. No pod again and again."""
        self._woken = {uid: at for uid, at in self._woken.items() if now - at < WAKE_AGAIN}
        for key, pod in pods.items():
            if key in self._ledger.asleep and pod.uid not in self._woken:
                self._woken[pod.uid] = now
                self._ledger.wake(key)

    def _wakes_again(self, cycle: Cycle, now: float) -> float:
        """When the next of those who sleep and could go may be woken once more.

        They may be refused again, for the sake of others who cannot come: then nothing else wakes them.
        """
        sleepers = (cycle.snapshot.pods[key].uid for key in cycle.record.starts() if key in self._ledger.asleep)
        return min((self._woken.get(uid, now) + WAKE_AGAIN for uid in sleepers), default=float("inf"))

    # --- what others see of it ---

    async def _publish(self, accounts: Accounts) -> None:
        self._metrics.fair_share.clear()
        for name, account in accounts.by_name.items():
            self._metrics.fair_share.labels(name).set(account.fair_share.gpu / GPU)
        self._unwritten = statuses(self._ledger.snapshot, accounts, self._ledger.queue_faults)

    async def _write_queues(self) -> None:
        """Let the Queue objects say what is new, many not at each look: in a burst all of them change all the time."""
        if self._unwritten is None:
            return
        if self._clock() - self._written_at >= QUEUES_PAUSE or self._queues.news(self._unwritten) <= A_HANDFUL:
            await self._queues.write(self._unwritten)
            self._unwritten, self._written_at = None, self._clock()


def _waiting(snapshot: Snapshot) -> Iterator[Pod]:
    """The governed pods that wait."""
    for workloads in snapshot.waiting.values():
        for key in workloads:
            yield from (pod for pod in snapshot.members[key] if pod.waits)


def _is_unfit(error: KubeError) -> bool:
    """Whether the API server will not store an object however often it is asked: too large, or against its schema."""
    return isinstance(error, ApiError) and error.status in _UNFIT


def _made(plan: Plan, otherwise: int) -> int:
    """When a plan was written, by the API server's clock."""
    written = plan.metadata.creation_timestamp
    return moment(written) if written else otherwise


def _is_same(ours: Plan | None, found: Plan) -> bool:
    """Whether a Plan object is the one that we have written; of one whose creation was not answered by what it says."""
    if ours is None:
        return False
    return ours.metadata.uid == found.metadata.uid if ours.metadata.uid else ours.spec == found.spec
