"""What would let a waiting pod run: the smallest single change of each kind, found by trying it on the snapshot.

Each kind is first tried as large as it makes sense. If the pod runs then, the smallest step that is enough is looked
for between that and no change at all; what is returned has been tried, and so has one unit less, which was not enough.
Where no single change helps, the causes are named: why the pod waits, and why it still would without that cause, if a
change was found that takes it away; and then a change for each of the two is looked for that help together.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice

import msgspec
from gpuyard.engine.explain.changes import (
    STEPS,
    UNITS,
    AddNode,
    Asked,
    BoundKind,
    Change,
    Lapse,
    MakePreemptible,
    Raise,
    Relax,
    Resource,
    Shrink,
    SmallerGang,
    UseQueue,
    Wait,
    asked_for,
)
from gpuyard.engine.model import GPU, RESOURCES, UNLIMITED, Amounts, State
from gpuyard.engine.model.counting import UNUSED
from gpuyard.engine.model.reporter import Reporter
from gpuyard.engine.model.results import Evict, FinalState, Foreign, NoQueue, Outcome, Until, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.rules import gates
from gpuyard.engine.search.settle import after, rounds, settle

PLACED = frozenset({FinalState.RUNNING, FinalState.BOUND, FinalState.NOMINATED})


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A change that lets the pod run, where it runs then, and at whose cost."""

    change: Change
    node: str
    evicted: tuple[str, ...] = ()
    """Pods that lose their places for good and would not without the change."""
    moved: tuple[str, ...] = ()
    """Pods that go on elsewhere."""
    displaced: tuple[str, ...] = ()
    """Pods that start without the change, and with it wait."""
    also: Change | None = None
    """Another change that is needed beside it."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What would help one waiting pod.

    Without `options`, `causes` are what stands in the way, as far as found, and `pairs` are changes that help by two.
    """

    pod: str
    options: tuple[Option, ...] = ()
    causes: tuple[Waiting, ...] = ()
    pairs: tuple[Option, ...] = ()


def advise(  # noqa: PLR0913 - the last two are for callers in a hurry
    snapshot: Snapshot,
    settings: Settings,
    pod: str,
    outcome: Outcome | None = None,
    *,
    kinds: Collection[type] = (),
    watch: Reporter | None = None,
) -> Advice | None:
    """What would let a pod run that waits at the end of `outcome` (of this snapshot); None if it does not wait.

    Only changes of these `kinds` are tried; none named: all. A pod that runs in the snapshot and waits at the end has
    been evicted: for it the changes are tried on what the plan leaves. `watch` is told of every step of every trial.
    """
    before = outcome or settle(snapshot, settings, watch)
    if pod in before.pending and snapshot.pods[pod].state is not State.PENDING:
        *_, last = rounds(snapshot, settings, watch)
        snapshot = after(last)
        before = settle(snapshot, settings, watch)
    waiting = before.pending.get(pod)
    asks = snapshot.pods[pod]
    workload = snapshot.workloads.get(asks.workload)
    if waiting is None or asks.gated or workload is None or not gates.governs(settings, workload):
        return None  # before its gates are gone no change makes a pod run; the engine places none that is not governed
    case = _Case(pod, waiting, before, snapshot, lambda changed: settle(changed, settings, watch))
    options = tuple(case.option(change) for change in case.found(*kinds))
    if options:
        return Advice(pod=pod, options=options)
    lift, *causes = case.second_cause() or (None,)
    pairs = islice(case.pairs(lift), _MOST_PAIRS) if lift is not None and not kinds else ()
    cheapest_first = tuple(sorted(pairs, key=lambda pair: len(pair.evicted)))
    return Advice(pod=pod, causes=(waiting, *causes), pairs=cheapest_first)


_MOST_PAIRS = 3
"""Each is a search of its own."""


class _Case:
    """One waiting pod, and the trials made for it."""

    def __init__(
        self, pod: str, waiting: Waiting, before: Outcome, snapshot: Snapshot, settle: Callable[[Snapshot], Outcome]
    ) -> None:
        self.snapshot = snapshot
        self.pod = snapshot.pods[pod]
        self.workload = snapshot.workloads[self.pod.workload]
        self.waiting = waiting
        self.asked = asked_for(snapshot, self.pod.workload)
        self._settle = settle
        self._before = before
        self._outcomes: dict[Change, Outcome] = {}
        self._lifts: list[Change] = []

    def helps(self, change: Change) -> bool:
        """Whether the pod runs with the change."""
        return self._after(change).final[self.pod.key].state in PLACED

    def lift(self, change: Change) -> bool:
        """As `helps`, of a change as large as makes sense, which is remembered for the search of a second cause."""
        self._lifts.append(change)
        return self.helps(change)

    def _after(self, change: Change) -> Outcome:
        outcome = self._outcomes.get(change)
        if outcome is None:
            outcome = self._outcomes[change] = self._settle(change.apply(self.snapshot))
        return outcome

    def smallest(self, make: Callable[[int], Change], fails: int, helps: int, guess: int | None = None) -> Change:
        """The change next to one that fails, between a number that does and one that helps; `guess` is tried first."""
        if guess is not None and min(fails, helps) < guess < max(fails, helps):
            fails, helps = self._probed(make, fails, helps, guess)
        while abs(helps - fails) > 1:
            middle = (helps + fails) // 2
            if self.helps(make(middle)):
                helps = middle
            else:
                fails = middle
        return make(helps)

    def _probed(self, make: Callable[[int], Change], fails: int, helps: int, guess: int) -> tuple[int, int]:
        if not self.helps(make(guess)):
            return guess, helps
        less = guess + (1 if fails > helps else -1)
        return (fails, less) if less != fails and self.helps(make(less)) else (less, guess)

    def option(self, change: Change) -> Option:
        """A change that helps, with its cost."""
        return self._option(self._after(change), change)

    def _option(self, outcome: Outcome, change: Change, also: Change | None = None) -> Option:
        gone = sorted(_evicted(outcome) - _evicted(self._before))
        return Option(
            change=change,
            node=outcome.final[self.pod.key].node,
            evicted=tuple(p for p in gone if outcome.final[p].state not in PLACED),
            moved=tuple(p for p in gone if outcome.final[p].state in PLACED),
            displaced=tuple(p for p in sorted(_placed(self._before) - _placed(outcome)) if p not in gone),
            also=also,
        )

    def second_cause(self) -> tuple[Change, Waiting] | None:
        """A change that lifts the pod's reason, and why it would still wait; None where no change lifts it."""
        lifted = ((change, self._after(change).pending[self.pod.key]) for change in self._lifts)
        return next(((c, why) for c, why in lifted if why != self.waiting and _differs(why, self.waiting)), None)

    def pairs(self, lift: Change) -> Iterator[Option]:
        """Changes that help beside one that lifts the pod's reason, each with the smallest such one."""
        for second in self._beside(lift).found():
            beside = self._beside(second)
            first = next(beside.found(type(lift)), lift)
            yield self._option(beside._after(first), first, second)  # noqa: SLF001 - another case of its kind

    def found(self, *kinds: type) -> Iterator[Change]:
        """The changes that help, of these kinds, or of all."""
        return (change for kind, find in _FINDERS.items() if not kinds or kind in kinds for change in find(self))

    def _beside(self, change: Change) -> "_Case":
        """The case as it is once a change is made that does not help alone."""
        outcome = self._after(change)
        waiting = outcome.pending.get(self.pod.key, self.waiting)
        return _Case(self.pod.key, waiting, outcome, change.apply(self.snapshot), self._settle)


def _differs(one: Waiting, other: Waiting) -> bool:
    """Whether two reasons are two causes, and not one with other numbers."""
    queues = [getattr(w.facts, "queue", "") for w in (one, other)]
    return one.reason is not other.reason or queues[0] != queues[1]


def _placed(outcome: Outcome) -> set[str]:
    return {pod for pod, final in outcome.final.items() if final.state in PLACED}


def _evicted(outcome: Outcome) -> set[str]:
    return {a.pod for cycle in outcome.cycles for a in cycle.actions if isinstance(a, Evict)}


# --- one finder for each kind, in the order in which the options are listed


def _wait(case: _Case) -> Iterator[Change]:
    facts, now = case.waiting.facts, case.snapshot.now
    if isinstance(facts, Until) and facts.until > now and case.lift(Wait(until=facts.until)):
        yield case.smallest(lambda at: Wait(until=at), now, facts.until)


def _lapse(case: _Case) -> Iterator[Change]:
    plans = sorted({p.plan for p in case.snapshot.promises if p.workload != case.workload.key})
    yield from filter(case.lift, (Lapse(plan=plan) for plan in plans))


def _use_queue(case: _Case) -> Iterator[Change]:
    facts = case.waiting.facts
    name = facts.nearest if isinstance(facts, NoQueue) else facts.wanted if isinstance(facts, Foreign) else ""
    if name in case.snapshot.queues:
        yield from filter(case.lift, [UseQueue(workload=case.workload.key, queue=name)])


def _relax(case: _Case) -> Iterator[Change]:
    shape, key = case.pod.shape, case.workload.key
    demands = [Relax(workload=key, demand="selector", key=label) for label, _ in shape.selector]
    demands += [Relax(workload=key, demand="affinity")] if shape.affinity else []
    if any(not term.weight for term in shape.pod_affinity):
        demands.append(Relax(workload=key, demand="pod_affinity"))
    if any(not term.weight for term in shape.pod_anti_affinity):
        demands.append(Relax(workload=key, demand="pod_anti_affinity"))
    taints = sorted({taint.key for node in case.snapshot.fleet.nodes.values() for taint in node.taints})
    demands += [Relax(workload=key, demand="taint", key=taint) for taint in taints]
    yield from filter(case.lift, demands)


_KINDS: tuple[BoundKind, ...] = ("limit", "quota")
_NAMES: tuple[Resource, ...] = ("gpu", "cpu", "memory")


def _raise(case: _Case) -> Iterator[Change]:
    asked = case.asked
    for queue in case.snapshot.path(case.workload.queue):
        for kind in _KINDS:
            for n, resource in enumerate(_NAMES):
                if asked[n]:
                    yield from _raise_one(case, queue, kind, resource)


def _raise_one(case: _Case, name: str, kind: BoundKind, resource: Resource) -> Iterator[Change]:
    n, unit = RESOURCES.index(resource), UNITS[resource]
    queue, use, asked = case.snapshot.queues[name], case.snapshot.use.get(name, UNUSED), case.asked[n]
    bound = (queue.limit if kind == "limit" else queue.quota)[n]
    used = (use.fixed if kind == "quota" and not case.workload.preemptible else use.allocated)[n]
    enough = -(-(max(bound, use.requested[n]) + asked) // unit)

    def make(steps: int) -> Change:
        return Raise(queue=name, resource=resource, kind=kind, to=steps * unit)

    if bound != UNLIMITED and case.lift(make(enough)):
        yield case.smallest(make, bound // unit, enough, -(-(used + asked) // unit))


def _smaller_gang(case: _Case) -> Iterator[Change]:
    gang, key = case.workload.gang, case.workload.key
    if not gang.parts and gang.minimum > 1 and case.lift(SmallerGang(workload=key, to=1)):
        yield case.smallest(lambda n: SmallerGang(workload=key, to=n), gang.minimum, 1)


_FLOORS: tuple[tuple[Asked, int], ...] = (("gpus", 1), ("fraction", 1), ("gpu_memory", 1), ("cpu", 0), ("memory", 0))


def _shrink(case: _Case) -> Iterator[Change]:
    for field, floor in _FLOORS:
        yield from _shrink_one(case, field, floor)


def _shrink_one(case: _Case, field: Asked, floor: int) -> Iterator[Change]:
    shape, step = case.pod.shape, STEPS[field]
    asks = -(-getattr(shape, field) // step)

    def make(steps: int) -> Change:
        return Shrink(workload=case.workload.key, shape=shape, field=field, to=steps * step)

    if asks > floor and case.lift(make(floor)):
        yield case.smallest(make, asks, floor)


def _make_preemptible(case: _Case) -> Iterator[Change]:
    if not case.workload.preemptible:
        yield from filter(case.lift, [MakePreemptible(workload=case.workload.key)])


def _add_node(case: _Case) -> Iterator[Change]:
    if not case.pod.shape.wants_gpu:
        return
    key = case.workload.key
    mine = max(_gpus(case.asked), case.pod.shape.gpus)
    everybody = sum(_gpus(use.requested) for use in case.snapshot.own.values())
    sizes = sorted({mine, max(everybody, mine)})
    enough = next((n for n in sizes if case.lift(AddNode(workload=key, gpus=n))), None)
    if enough is not None:
        yield case.smallest(lambda n: AddNode(workload=key, gpus=n), 0, enough, mine)


def _gpus(amounts: Amounts) -> int:
    return -(-amounts.gpu // GPU)


_FINDERS: Mapping[type, Callable[[_Case], Iterator[Change]]] = {
    Wait: _wait,
    Lapse: _lapse,
    UseQueue: _use_queue,
    Relax: _relax,
    Raise: _raise,
    SmallerGang: _smaller_gang,
    Shrink: _shrink,
    MakePreemptible: _make_preemptible,
    AddNode: _add_node,
}
