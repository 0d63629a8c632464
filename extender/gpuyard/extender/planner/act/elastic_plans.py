"""Plans of other writers, of phase elastic: they ask for room before it is freed, and the extender answers.

    asked ──there will be room──▶ accepted ──pods of the workloads have taken all of it──▶ Kept
      └──there will be none──▶ Impossible     ├──a node is gone, or the plan was changed──▶ Impossible
                                              └──nothing happens for `promise.ttl`──▶ Expired

A plan that is deleted keeps nothing from then on. Nobody is evicted for such a plan: its writer frees the room. What
is answered stands in `status.accepted`, which a restart goes on from, and in the state; each is written once.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from gpuyard.common.kube.errors import KubeError
from gpuyard.common.logs import get_logger
from gpuyard.common.plans.plan import Event, Plan, Status, promise
from gpuyard.common.plans.store import Store
from gpuyard.engine.kube.times import written
from gpuyard.engine.model import Pod, Promise
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.rules.promises import untaken
from gpuyard.extender.ledger import Ledger, Phase
from gpuyard.extender.planner.look.elastic_room import leaving
from gpuyard.extender.planner.metrics import PlannerMetrics

AT_LEAST = 60.0
"""Seconds for which room is kept though no pod comes, however short `promise.ttl` is: the next pods are to be made."""

KEPT = "room is kept until its pods have taken it"

log = get_logger()


@dataclass(slots=True)
class _Held:
    """A plan that has been answered."""

    plan: Plan
    told: Status
    """Its status as it was written last."""
    open: tuple[Promise, ...]
    """What is promised and was not taken as a whole yet."""
    since: float
    """When something happened last: a pod left the room or came into it."""
    mark: object = None
    """By what that is seen."""


class ElasticPlans:
    """Answers them and keeps their room; `keep` is called when what is kept has changed."""

    def __init__(  # noqa: PLR0913 - what it reads, what it writes to, and two clocks
        self,
        store: Store,
        ledger: Ledger,
        plans: Callable[[], Mapping[str, Plan]],
        refusal: Callable[[Plan], str],
        *,
        keep: Callable[[], None],
        ttl: Callable[[], float],
        metrics: PlannerMetrics,
        clock: Callable[[], float],
        today: Callable[[], float],
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._plans = plans
        self._refusal = refusal
        self._keep = keep
        self._ttl = ttl
        self._metrics = metrics
        self._clock = clock
        self._today = today
        self._held: dict[str, _Held] = {}

    @property
    def promises(self) -> tuple[Promise, ...]:
        """What they keep."""
        return tuple(one for held in self._held.values() for one in held.open)

    def leaving(self, snapshot: Snapshot) -> Iterator[str]:
        """The UIDs of the pods that leave for them."""
        for held in self._held.values():
            if held.open:
                yield from (pod.uid for pod in leaving(held.plan, snapshot))

    def resume(self) -> None:
        """Go on from what whoever led before has accepted."""
        for plan in self._under_way():
            if plan.status.accepted and plan.metadata.uid not in self._held:
                self._take_on(plan)

    async def run(self, interval: Callable[[], float]) -> NoReturn:
        """Look once per interval, beside the planner: however long a cycle takes, a writer is answered."""
        while True:
            try:
                await self.look()
            except Exception:
                # Whatever is wrong with one of them, the verbs go on answering.
                log.exception("elastic-plans-failed")
            await asyncio.sleep(interval())

    async def look(self) -> None:
        """Answer the new ones, see how far the others have come, and write down what is new."""
        self.resume()
        self._forget()
        for plan in self._under_way():
            try:
                self._go_on(plan)
            except Exception:
                # Whatever is wrong with one of them, the others are answered.
                log.exception("elastic-plan-failed", plan=plan.name)
            # There may be many, and the verbs are to be answered.
            await asyncio.sleep(0)
        self._keep()
        for held in list(self._held.values()):
            await self._tell(held)

    def _go_on(self, plan: Plan) -> None:
        held = self._held.get(plan.metadata.uid)
        if held is None:
            self._answer(plan)
        else:
            self._advance(held, plan)

    def _under_way(self) -> list[Plan]:
        """The plans by others that have not ended, the oldest first."""
        plans = self._plans().values()
        found = [one for one in plans if one.elastic and one.runs and not one.metadata.deletion_timestamp]
        return sorted(found, key=lambda plan: (plan.written, plan.name))

    def _forget(self) -> None:
        """Keep nothing for plans that are gone or have ended."""
        there = {plan.metadata.uid for plan in self._under_way()}
        self._held = {uid: held for uid, held in self._held.items() if uid in there}

    def _take_on(self, plan: Plan) -> _Held:
        kept = tuple(promise(plan, place) for place in plan.spec.promises)
        held = self._held[plan.metadata.uid] = _Held(plan, plan.status, kept, self._clock())
        return held

    def _answer(self, plan: Plan) -> None:
        # What was accepted a moment ago is kept from now on: the next one is asked about beside it.
        self._keep()
        why = self._refusal(plan)
        held = self._take_on(plan)
        if why:
            held.plan = plan.with_status(accepted=False)
            self._end(held, Event.HOPELESS, why)
        else:
            held.plan = plan.with_status(accepted=True, message=KEPT)
        log.info("elastic-plan", plan=plan.name, accepted=not why, reason=why)

    def _advance(self, held: _Held, plan: Plan) -> None:
        if not held.plan.runs:
            return
        snapshot, now = self._ledger.snapshot, self._clock()
        held.open, left = self._untaken(held)
        mark = (left, tuple(pod.uid for pod in leaving(held.plan, snapshot)))
        if mark != held.mark:
            held.mark, held.since = mark, now
        gone = next((one.node for one in held.open if one.node not in snapshot.fleet.nodes), "")
        if not held.open:
            self._end(held, Event.SETTLED, "pods of the workloads have taken all of the room")
        elif gone:
            self._end(held, Event.HOPELESS, f"there is no node {gone} any more")
        elif plan.spec != held.plan.spec:
            self._end(held, Event.HOPELESS, "it was changed after it had been accepted")
        elif now - held.since >= max(self._ttl(), AT_LEAST):
            self._end(held, Event.OVERDUE, f"no pod of {held.open[0].workload} took the room on {held.open[0].node}")

    def _untaken(self, held: _Held) -> tuple[tuple[Promise, ...], tuple[int, ...]]:
        """The promises that were never taken as a whole, and how many GPUs are left of each."""
        pairs = [(one, untaken(one, self._bound(one.workload))) for one in held.open]
        still = [(one, left.shape.gpus) for one, left in pairs if left is not None]
        return tuple(one for one, _ in still), tuple(gpus for _, gpus in still)

    def _bound(self, workload: str) -> Iterator[Pod]:
        """The pods of a workload that the watch shows in their places."""
        for pod in self._ledger.snapshot.members.get(workload, ()):
            entry = self._ledger.entries.get(pod.key)
            if entry is not None and entry.phase is Phase.BOUND:
                yield entry.seen.pod

    def _end(self, held: _Held, event: Event, message: str) -> None:
        held.plan = held.plan.ended(event, message, written(int(self._today())))
        held.open = ()
        self._metrics.ended.labels(held.plan.spec.phase, held.plan.status.state.value).inc()
        log.info("plan-ended", plan=held.plan.name, state=held.plan.status.state, message=message)

    async def _tell(self, held: _Held) -> None:
        """Write the status where it is another one than before; what fails is tried again at the next look."""
        if held.plan.status != held.told:
            try:
                await self._store.write_status(held.plan)
            except KubeError as error:
                log.warning("elastic-plan-not-answered", plan=held.plan.name, reason=str(error))
            else:
                held.told = held.plan.status
