"""Carries one plan out, a step at each call: evict who is due, bring back who was moved, see when it is over.

due to leave ──evict──▶ accepted ──gone──▶ (a moved bare pod: made anew) ──▶ out of the way
     │ ▲
     │ └── a disruption budget holds: again after 1, 2, 4, 8, 10 s, for a minute
     └──── nobody may ever evict it, or the budget holds on: the plan is impossible, nobody else has to go

Decided in docs/decisions.md: "Who loses his place is not made anew".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuyard.common.effects import move
from gpuyard.common.effects.evict import Outcome, evict
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.logs import get_logger
from gpuyard.common.plans.plan import Event, Place, Plan, Victim
from gpuyard.common.plans.store import Store
from gpuyard.engine.kube.times import written
from gpuyard.engine.model import Pod
from gpuyard.extender.planner.look.progress import Pods, Progress, Taken, Taker, progress
from gpuyard.extender.planner.metrics import PlannerMetrics
from gpuyard.extender.planner.tell.pod_events import Teller

_WRONG = {
    move.Found.FORGED: "ControllerRevision {} is not what the plan says was kept of it",
    move.Found.LOST: "somebody deleted ControllerRevision {}, in which its spec was kept",
    move.Found.UNRECORDED: (
        "the plan, perhaps of an earlier version, does not say what was kept of it; look at ControllerRevision {}, "
        "then create the pod from it, or delete it"
    ),
    move.Found.UNREADABLE: (
        "the plan, perhaps of an earlier version, does not say what was kept of it, and the extender may not read "
        "ControllerRevisions; if there is ControllerRevision {}, create the pod from it, or delete it"
    ),
}
"""Why a moved pod is not created again."""

_UNTRUSTED = (move.Found.FORGED, move.Found.UNRECORDED)
"""What ends the plan as well."""

DELAYS = (1, 2, 4, 8, 10)
"""Seconds until an eviction that was put off is tried again."""

PATIENCE = 60
"""Seconds for which a disruption budget may hold a plan up."""

log = get_logger()


class Terms(NamedTuple):
    """What the settings say of how plans are carried out."""

    ttl: float
    """For how many seconds a free place is kept."""
    honor_budgets: bool
    move_bare_pods: bool


class World(NamedTuple):
    """The pods as the watches show them, by key and by node."""

    pods: Pods
    at: Mapping[str, tuple[Pod, ...]]
    now: float
    """By a clock that never jumps."""
    today: float
    is_stuck: Callable[[Pod], bool]
    """Whether a pod that was told to go should have been gone long ago."""
    queue_of: Callable[[Pod], str]


@dataclass(slots=True)
class Run:
    """A plan under way, with what need not survive a restart."""

    plan: Plan
    since: int
    open: tuple[Place, ...]
    """The places that are kept and not taken."""
    taken: Taken = field(default_factory=dict)
    """Who has taken which place."""
    why_not: str = ""
    """Why it can no longer come to a good end."""
    refusals: int = 0
    not_before: float = 0
    """When the next eviction may be tried."""
    held_since: float | None = None
    freed: float | None = None
    """Since when everybody has left."""
    woken: float = 0
    """When those whose places are free were last told."""
    shut: float | None = None
    """Since when one for whom the room is free may not start."""
    stubborn: Victim | None = None
    """The one whom the API server does not let go."""
    refused: tuple[str, ...] = ()
    """The pods to which kube-scheduler does not offer their places."""
    back: set[str] = field(default_factory=set)
    """UIDs of the moved who need no more care."""
    missing: dict[str, float] = field(default_factory=dict)
    """Since when moved pods are away of which nothing can be known, by UID: an owner may create them again."""


class Executor:
    """Acts on the cluster for plans."""

    def __init__(self, client: Client, store: Store, teller: Teller, metrics: PlannerMetrics) -> None:
        self._client = client
        self._store = store
        self._teller = teller
        self._metrics = metrics

    async def advance(self, run: Run, world: World, terms: Terms) -> None:
        """Do what is due; a plan that is over says so in `run.plan`."""
        before = {**dict.fromkeys(run.plan.status.deserted, Taker()), **run.taken}
        seen = progress(run.plan, world.pods, world.at, run.since, world.is_stuck, world.queue_of, before)
        await self._note(run, seen)
        run.why_not = run.why_not or _hopeless(seen)
        if not run.why_not and world.now >= run.not_before:
            await self._evict(run, seen.due, world.now, terms)
        await self._bring_back(run, seen, world.now)
        self._look(run, seen, world.now)
        ending = _ending(run, seen, world.now, terms.ttl)
        if ending is not None and await self._all_others_stay(run, seen):
            await self._end(run, *ending, world.today)
            if ending[0] is not Event.SETTLED and seen.claimed:
                self._teller.withdrawn(run.plan)

    async def _note(self, run: Run, seen: Progress) -> None:
        """Write down what pods do not show for long: who is on his way out, who has left his new place again."""
        status, run.taken = run.plan.status, seen.taken
        evicted = dict.fromkeys((*status.evicted, *(victim.uid for victim in seen.going)))
        if len(evicted) > len(status.evicted) or not seen.deserted.issubset(status.deserted):
            run.plan = run.plan.with_status(evicted=tuple(evicted), deserted=tuple(sorted(seen.deserted)))
            run.held_since = None
            await self._store.write_status(run.plan)

    # --- leaving ---

    async def _evict(self, run: Run, due: tuple[Victim, ...], now: float, terms: Terms) -> None:
        told: list[str] = []
        try:
            for victim in due:
                outcome, error = await self._let_go(run, victim, terms)
                self._metrics.evictions.labels(run.plan.spec.phase, outcome.value).inc()
                if error is not None and outcome in (Outcome.LATER, Outcome.NEVER):
                    await self._put_off(run, victim, outcome, error, now)
                    break
                told.append(victim.uid)
                run.refusals, run.held_since = 0, None
                if outcome is Outcome.ACCEPTED:
                    self._teller.evicted(run.plan, victim)
                    log.info("evicted", pod=victim.pod, plan=run.plan.name, why=victim.reason)
        finally:
            # Also where one call failed: who was told before is on his way.
            await self._note_told(run, told)

    async def _note_told(self, run: Run, told: Sequence[str]) -> None:
        if told:
            evicted = (*run.plan.status.evicted, *told)
            message = f"{len(evicted)} of {len(run.plan.spec.evictions)} told to go"
            run.plan = run.plan.with_status(evicted=evicted, message=message)
            await self._store.write_status(run.plan)

    async def _let_go(self, run: Run, victim: Victim, terms: Terms) -> tuple[Outcome, ApiError | None]:
        if _is_moved(run.plan, victim):
            try:
                await self._keep(run, victim, allowed=terms.move_bare_pods)
            except move.MovesAreOffError as error:
                return Outcome.NEVER, error
            except ApiError as error:
                # What cannot be kept must not go.
                return Outcome.LATER, error
        return await evict(self._client, victim, honor_budgets=terms.honor_budgets)

    async def _keep(self, run: Run, victim: Victim, *, allowed: bool) -> None:
        """Keep the spec of a bare pod, and let the Plan say what was kept, so that nobody can replace it unseen."""
        kept = await move.keep(self._client, victim.pod, victim.uid, run.plan.name, allowed=allowed)
        if kept is None:
            run.back.add(victim.uid)
            return
        # It may have lost its owner since an earlier attempt.
        run.back.discard(victim.uid)
        run.plan = run.plan.keeping(kept)
        await self._store.write_kept(run.plan)

    async def _forget(self, run: Run, victim: Victim) -> None:
        """Delete what is kept of a pod that does not have to go."""
        kept = run.plan.kept_of(victim.uid)
        if kept is not None:
            await move.forget(self._client, victim.pod, kept)
            run.plan = run.plan.without_kept(victim.uid)

    async def _put_off(self, run: Run, victim: Victim, outcome: Outcome, error: ApiError, now: float) -> None:
        run.held_since = now if run.held_since is None else run.held_since
        if outcome is Outcome.NEVER or now - run.held_since >= PATIENCE:
            run.why_not = f"{victim.pod} cannot be evicted: {error.message}"
            run.stubborn = victim
        run.not_before = now + max(DELAYS[min(run.refusals, len(DELAYS) - 1)], error.retry_after)
        run.refusals += 1
        log.info("eviction-put-off", pod=victim.pod, plan=run.plan.name, reason=error.message)
        if _is_moved(run.plan, victim) and (outcome is Outcome.NEVER or not error.uncertain):
            # Whoever deletes it meanwhile does not want it back.
            await self._forget(run, victim)

    # --- coming back ---

    async def _bring_back(self, run: Run, seen: Progress, now: float) -> None:
        left = {victim.uid for victim in seen.left}
        for victim in run.plan.spec.evictions:
            if victim.uid in left or victim.uid in run.back or not _is_moved(run.plan, victim):
                continue
            try:
                found = await self._made_anew(run, victim, seen)
            except ApiError as error:
                self._give_up_on(run, victim, error, now)
                continue
            if found is move.Found.UNREADABLE and now - run.missing.setdefault(victim.uid, now) < PATIENCE:
                continue
            if found is not move.Found.LEAVING:
                run.back.add(victim.uid)
            if found is move.Found.MADE:
                self._greet(run.plan, victim)
            if found in _WRONG:
                self._refuse(run, victim, found)

    async def _made_anew(self, run: Run, victim: Victim, seen: Progress) -> move.Found:
        if victim.pod in seen.taken:
            # It is back, or was; before a restart, perhaps.
            await self._forget(run, victim)
            return move.Found.NOTHING
        kept = run.plan.kept_of(victim.uid)
        if kept is not None:
            return await move.bring_back(self._client, victim.pod, kept)
        if _place_of(run.plan, victim).owner:
            return move.Found.NOTHING
        # Another extender let it go. It is bare, or its owner keeps names, as a StatefulSet does.
        return await move.left_over(self._client, victim.pod, victim.uid)

    def _refuse(self, run: Run, victim: Victim, found: move.Found) -> None:
        """Create nothing from what others have written; people have to see to the pod."""
        why = f"{victim.pod} is not created again: {_WRONG[found].format(move.kept_as(victim.pod))}"
        if found in _UNTRUSTED:
            run.why_not = why
        self._teller.move_refused(run.plan, victim, why)
        log.warning("move-refused", pod=victim.pod, plan=run.plan.name, reason=why)

    def _give_up_on(self, run: Run, victim: Victim, error: ApiError, now: float) -> None:
        """A pod that cannot be made anew is tried for a while; then people have to see to it."""
        log.warning("not-made-anew", pod=victim.pod, plan=run.plan.name, reason=error.message)
        run.held_since = now if run.held_since is None else run.held_since
        if now - run.held_since >= PATIENCE:
            run.back.add(victim.uid)
            kept = f"its spec is kept in ControllerRevision {move.kept_as(victim.pod)}"
            run.why_not = f"{victim.pod} could not be made anew: {error.message}; {kept}"

    def _greet(self, plan: Plan, victim: Victim) -> None:
        node = _place_of(plan, victim).node
        self._metrics.moves.inc()
        self._teller.moved(plan, victim, node)
        log.info("moved", pod=victim.pod, plan=plan.name, node=node)

    async def _all_others_stay(self, run: Run, seen: Progress) -> bool:
        """Whether who was not told stays, by the API server's word: nobody may know how the last eviction went.

        Nothing is kept of them any more; who does not stay counts as told, and is waited for.
        """
        going = []
        for victim in seen.left:
            if victim.uid in run.plan.status.evicted or not _is_moved(run.plan, victim):
                continue
            if await move.stays(self._client, victim.pod, victim.uid):
                await self._forget(run, victim)
            else:
                going.append(victim.uid)
        await self._note_told(run, going)
        return not going

    # --- the end ---

    def _look(self, run: Run, seen: Progress, now: float) -> None:
        """What is kept from now on, and since when the room is free."""
        on_the_way = {victim.pod for victim in run.plan.spec.evictions if victim.uid in run.plan.status.evicted}
        run.open = tuple(p for p in seen.open if not run.why_not or p.pod in on_the_way)
        if run.freed is None and not seen.left:
            run.freed = now

    async def _end(self, run: Run, event: Event, message: str, today: float) -> None:
        run.plan = run.plan.ended(event, message, written(int(today))).with_status(refused=run.refused)
        run.open = ()
        await self._store.write_status(run.plan)
        self._metrics.ended.labels(run.plan.spec.phase, run.plan.status.state.value).inc()
        log.info("plan-ended", plan=run.plan.name, state=run.plan.status.state, message=message)


def _hopeless(seen: Progress) -> str:
    if seen.stuck:
        return f"{seen.stuck[0].pod} does not end"
    return "" if seen.claimed else "nobody waits for the room any more"


def _is_moved(plan: Plan, victim: Victim) -> bool:
    return any(place.pod == victim.pod for place in plan.spec.promises)


def _place_of(plan: Plan, victim: Victim) -> Place:
    """The place that is kept for somebody who is moved."""
    return next(place for place in plan.spec.promises if place.pod == victim.pod)


def _ending(run: Run, seen: Progress, now: float, ttl: float) -> tuple[Event, str] | None:
    """What ends a plan, if something does, and what to say of it."""
    if _has_to_wait(run, seen):
        return None
    if run.why_not:
        return Event.HOPELESS, run.why_not
    if not seen.left and not seen.open:
        return Event.SETTLED, "everybody has left, and every place is taken"
    if run.freed is not None and now - run.freed >= ttl:
        return Event.OVERDUE, f"nobody took the place on {seen.open[0].node} in time"
    return None


def _has_to_wait(run: Run, seen: Progress) -> bool:
    """Whether somebody is on his way out, or has to be made anew."""
    told, left = set(run.plan.status.evicted), {victim.uid for victim in seen.left}
    leaving = any(victim.uid in told and victim not in seen.stuck for victim in seen.left)
    return leaving or any(
        (victim.uid in told or victim.uid not in left) and victim.uid not in run.back and _is_moved(run.plan, victim)
        for victim in run.plan.spec.evictions
    )
