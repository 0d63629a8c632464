"""One cycle: each phase sees what the earlier ones decided.

    phase         whose turn                        who may lose                          accepted when
    allocate      all that wait, in line            nobody                                there is room
    consolidate   preemptible, enough free in sum   preemptible, any queue                all have a place again
    reclaim       its queue below its fair share    preemptible of other queues           the queues' rules hold
    preempt       all                               same queue, lower priority            it has a place
    evict-stale   nobody's                          gangs too long below their minimum    always

`Cycle.steps` can be stepped: it pauses after each small piece of work, so that a caller can do other work between.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from gpuyard.engine.model import Amounts, Pod, State, Workload
from gpuyard.engine.model.reporter import Reporter, Silent
from gpuyard.engine.model.results import Cycle as Result
from gpuyard.engine.model.results import Protected, Reason, Until, Verdict, Waiting
from gpuyard.engine.model.settings import Phase, Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.gang_start import Starter
from gpuyard.engine.placing.placement import Placer
from gpuyard.engine.placing.scratch import Scratch, Status
from gpuyard.engine.placing.strategies import STRATEGIES
from gpuyard.engine.rules import gates, reclaim
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Pods, Team, starting_chunk
from gpuyard.engine.search import protection
from gpuyard.engine.search.failures import Equals, Harder, chunk_key
from gpuyard.engine.search.lines import Backlog, Pools, VictimLine, WaitingLine
from gpuyard.engine.search.promised_places import standing_places
from gpuyard.engine.search.record import Record
from gpuyard.engine.search.room_bounds import Clearing
from gpuyard.engine.search.victims import Rules, Search, Trial
from gpuyard.engine.stepwise import in_order, take_apart

Steps = Generator[None, None, None]

_BREATH = 64
"""Steps of a cycle that is run at once, after which who watches is told."""


class Cycle:
    """A cycle over one snapshot. Run it with `run`, or step through `steps`; then read `result` and what is left."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        reporter: Reporter | None = None,
        spared: Collection[str] = (),
    ) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.accounts = Accounts.of(snapshot, settings.fairshare_k)
        self.scratch = Scratch(snapshot, self.accounts)
        self.record = Record(self.scratch)
        self.refused: dict[str, Waiting] = {}
        """Workloads that a gate does not let through, and why."""
        self.failed: dict[str, int] = {}
        """Workloads that found no room for their next chunk, and for how many of its pods there was."""
        self.hindered: dict[str, Waiting] = {}
        """Workloads for which nobody could be evicted, and what kept the victims safe."""
        self.standing, self._absent = standing_places(snapshot)
        self._held: dict[str, list[tuple[str, Pod]]] = {}
        self._admitted: dict[str, bool] = {}
        self._backlog: Backlog | None = None
        self._pools: Pools | None = None
        self._movable: dict[int, Pools] = {}
        self._clearing = Clearing(self.scratch)
        self._clearable: dict[str, tuple[int, int]] = {}
        self._reporter = reporter or Silent()
        self.placer = Placer(
            self.scratch, STRATEGIES[settings.placement], self.standing, moves_bare=settings.move_bare_pods
        )
        self.starter = Starter(self.scratch, self.placer, self._reporter)
        self.guard = protection.Guard(self.scratch, spared, honor_budgets=settings.honor_disruption_budgets)

    def run(self) -> Result:
        """Carry out all phases without a pause."""
        for step, _ in enumerate(self.steps(), 1):
            if not step % _BREATH:
                self._reporter.paused()
        return self.record.result()

    def steps(self) -> Steps:
        """Carry out the phases that the settings name, a small piece of work at a time."""
        phases: Mapping[Phase, Callable[[], Steps]] = {
            "allocate": self._allocate,
            "consolidate": self._consolidate,
            "reclaim": self._reclaim,
            "preempt": self._preempt,
            "evict-stale": self._evict_stale,
        }
        for phase in self.settings.phases:
            yield from phases[phase]()

    def dissolve(self) -> Steps:
        """Take apart what was needed to decide, once nobody looks at it any more, the result included.

        Its parts know each other: left to the garbage collector they would hold others up for longer, and all at once.
        """
        for pools in filter(None, (self._pools, *self._movable.values())):
            yield from pools.dissolve()
        yield from self.placer.dissolve()
        yield from self.scratch.dissolve()
        yield from take_apart(self.record)
        yield from take_apart(self)

    # --- who waits

    def waiting(self) -> Iterator[Team]:
        """The workloads in line: governed, in a queue that exists, whole, with a pod that waits."""
        return filter(None, self._asked())

    def _asked(self) -> Iterator[Team | None]:
        """The same, with None for each that is not in line: a caller can pause after either."""
        for queue in sorted(self.snapshot.waiting):
            for key in (yield from in_order(self.snapshot.waiting[queue])):
                team = self.scratch.team(key)
                yield team if self._admits(team) and starting_chunk(team, self.scratch.waits) else None

    def question(self, team: Team, chunk: Sequence[Pod] = ()) -> gates.Question:
        """What the gates are asked of a workload as the cycle counts at this moment."""
        return gates.Question(self.snapshot, self.accounts, self.settings, team, chunk)

    def _admits(self, team: Team) -> bool:
        key = team.workload.key
        if key not in self._admitted:
            why = gates.refusal(self.question(team), gates.IN_LINE)
            self._admitted[key] = why is None
            if why is not None:
                self._refuse(team.workload, why)
        return self._admitted[key]

    def _refuse(self, workload: Workload, why: Waiting) -> None:
        self.refused[workload.key] = why
        self._reporter.refused(workload.key, why)

    # --- allocate

    def _allocate(self) -> Steps:
        line = WaitingLine(self.scratch)
        for asked in chain(self._asked(), self._ghosts()):
            if asked is not None:
                line.push(asked)
                yield from self.placer.prepare(asked)
            yield
        equals = Equals()
        while (team := line.pop()) is not None:
            pods = starting_chunk(team, self.scratch.waits)
            why = self.starter.refusal(team, pods)
            if why is not None:
                self._refuse(team.workload, why)
            elif (yield from self._start(team, pods, equals)) and starting_chunk(team, self.scratch.waits):
                line.push(team)
            yield

    def _ghosts(self) -> Iterator[Team]:
        for workload, pod in self._absent:
            if workload.queue in self.accounts.leaves:
                yield self.scratch.add_team(workload, [pod])
            elif not workload.queue:
                # Reserved for a workload of which nothing is known yet: it is not in line, but nobody takes its room.
                self._hold(self.scratch.add_team(workload, [pod]), [pod])

    def _start(self, team: Team, pods: Pods, equals: Equals) -> Generator[None, None, bool]:
        if self.settings.keep_nodes_empty and any(pod.shape.wants_gpu for pod in pods):
            started = yield from self._start_sparing_nodes(team, pods)
            if started:
                return True
        key = chunk_key(team, pods) if not self._is_special(pods) else None
        reached = equals.reached(key)
        if reached is None and (yield from self.starter.start(team, pods)):
            yield from self._started(team, pods)
            return True
        self.failed[team.workload.key] = self.starter.reached if reached is None else reached
        equals.remember(key, self.failed[team.workload.key])
        self._hold(team, pods)
        return False

    def _started(self, team: Team, pods: Pods) -> Steps:
        yield from self.record.commit("allocate", team, pods, ())
        if self._backlog is not None:
            self._backlog.update(team)

    def _start_sparing_nodes(self, team: Team, pods: Pods) -> Generator[None, None, bool]:
        """Start without opening an empty node, by moving others if need be (never by taking from them)."""
        self.placer.shut = self.scratch.rooms.empty()
        started = yield from self.starter.start(team, pods)
        if started:
            yield from self._started(team, pods)
        elif self._moves_others and self._may_consolidate(team) and not self._is_delayed(team):
            rules = self._consolidation((yield from self._line_up()))
            found = yield from self._search(rules, team)
            if found is not None:
                yield from self._look_for_victims()
                yield from self._commit(rules, found)
            started = found is not None
        self.placer.shut = frozenset()
        return started

    def _is_special(self, pods: Iterable[Pod]) -> bool:
        """Whether promises or kube-scheduler's word make these pods different from others of their shapes."""
        return any(pod.key in self.standing or pod.key in self.snapshot.offers for pod in pods)

    def _hold(self, team: Team, pods: Iterable[Pod]) -> None:
        """Keep the promised room of pods that cannot take it yet."""
        kept = [
            (place.node, pod)
            for pod in pods
            if (place := self.standing.get(pod.key)) and place.node in self.scratch.rooms
        ]
        for node, pod in kept:
            self.scratch.hold(node, pod.shape, self.standing[pod.key].groups, -1)
        if kept:
            self._held[team.workload.key] = kept

    def _release(self, team: Team) -> None:
        for node, pod in self._held.pop(team.workload.key, ()):
            self.scratch.hold(node, pod.shape, self.standing[pod.key].groups, 1)

    def holders(self) -> list[tuple[str, Pod]]:
        """Who keeps the room promised to them: pods, and the ghosts of such, by name, each with its node.

        That is who took the promised place, and for whom it is held. Whom a gate does not let through keeps nothing.
        """
        absent = {pod.key: pod for _, pod in self._absent}
        held = {pod.key for kept in self._held.values() for _, pod in kept}
        promised = (
            (self.standing[key].node, self.snapshot.pods.get(key) or absent[key]) for key in sorted(self.standing)
        )
        return [(node, pod) for node, pod in promised if pod.key in held or self._took(pod, node)]

    def _took(self, pod: Pod, node: str) -> bool:
        place = self.scratch.place(pod)
        return place.status in _NEWLY_PLACED and place.node == node

    def breathe(self) -> None:
        """Let whoever watches look at the time, in work that follows upon a cycle."""
        self._reporter.paused()

    # --- phases that take from others

    @property
    def _moves_others(self) -> bool:
        """Whether the settings let anybody be moved."""
        return bool(self.settings.max_moved) and "consolidate" in self.settings.phases

    def _consolidate(self) -> Steps:
        if self._moves_others:
            yield from self.scratch.rooms.count_shared()
            yield from self._search_all("consolidate", self._may_consolidate, self._consolidation)

    def _reclaim(self) -> Steps:
        yield from self._search_all("reclaim", self._may_reclaim, self._reclaiming)

    def _preempt(self) -> Steps:
        yield from self._search_all("preempt", self._may_preempt, self._preemption)

    def _search(self, rules: Rules, team: Team) -> Generator[None, None, Trial | None]:
        """Look for victims, unless nodes would not even hold the pods without any of them, or it would not help."""
        for pod in starting_chunk(team, self.scratch.wants_place):
            if not (yield from self._clearing.could_hold(pod.shape, self.placer.nodes_for(pod))):
                return None
        yield
        if self._is_in_vain(team):
            return None
        return (yield from Search(self.scratch, self.starter, rules, self._reporter, team).solve())

    def _search_all(self, phase: Phase, gate: Callable[[Team], bool], make: Callable[[Backlog], Rules]) -> Steps:
        backlog = yield from self._line_up()
        if not backlog.everybody():
            return
        yield from self._look_for_victims()
        if not (yield from self._any_passes(gate, backlog)):
            return
        line, rules = WaitingLine.of(self.scratch, backlog), make(backlog)
        harder = Harder(self.scratch, self.standing)
        while (team := line.pop()) is not None:
            yield
            scope = "" if phase == "consolidate" else team.workload.queue or ""
            if not gate(team) or self._is_delayed(team):
                continue
            like = harder.failed_before(team, scope)
            if like is not None:
                self._reporter.skipped(phase, team.workload.key, like)
                continue
            yield
            self._release(team)
            self.guard.denied.clear()
            found = yield from self._search(rules, team)
            if found is None:
                if phase != "consolidate":
                    self._blame_budgets(team)
                harder.remember(team, scope)
                self._hold(team, starting_chunk(team, self.scratch.waits))
            else:
                yield from self._commit(rules, found)

    def _any_passes(self, gate: Callable[[Team], bool], backlog: Backlog) -> Generator[None, None, bool]:
        """Whether the gate of a phase lets anybody through; if not, nobody need be put in line, as nothing changes."""
        for key in backlog.everybody():
            if gate(self.scratch.team(key)):
                return True
            yield
        return False

    def _commit(self, rules: Rules, found: Trial) -> Steps:
        disturbed = yield from found.disturbed(self.scratch)
        self.guard.spend(disturbed)
        victims = [pod for chunk in found.chunks for pod in chunk.pods]
        yield from self.record.commit(rules.phase, found.trigger, found.pods, victims, found.before)
        self.failed.pop(found.trigger.workload.key, None)
        self.refused.pop(found.trigger.workload.key, None)
        changed = [found.trigger, *(self.scratch.team(key) for key in dict.fromkeys(c.workload for c in disturbed))]
        for team in changed:
            self.pools.refresh(team)
            rules.backlog.update(team)
            yield

    def _blame_budgets(self, team: Team) -> None:
        """Remember which budgets held victims back that a failed search would have needed."""
        if self.guard.denied:
            safe = Waiting(Reason.PROTECTED_BY_BUDGET, Protected(budgets=tuple(sorted(self.guard.denied))))
            self.hindered.setdefault(team.workload.key, safe)

    def _is_delayed(self, team: Team) -> bool:
        until = protection.delay_until(self.snapshot, team)
        if until is not None:
            facts = Until(until=until, who=team.workload.key)
            self.hindered[team.workload.key] = Waiting(Reason.PREEMPTION_DELAY, facts)
        return until is not None

    def _is_in_vain(self, team: Team) -> bool:
        """Whether kube-scheduler says of a pod that is to start that no eviction would help it."""
        offers = self.snapshot.offers
        pods = starting_chunk(team, self.scratch.waits) if offers else ()
        said = next((offers[pod.key].in_vain for pod in pods if pod.key in offers and offers[pod.key].in_vain), "")
        if said:
            self.hindered[team.workload.key] = Waiting(Reason.REFUSED_BY_SCHEDULER, Verdict(said=said))
        return bool(said)

    def _line_up(self) -> Generator[None, None, Backlog]:
        """Everybody who waits, in line since the first search of the cycle."""
        if self._backlog is None:
            backlog = Backlog(self.scratch)
            for team in self._asked():
                if team is not None:
                    backlog.update(team)
                yield
            self._backlog = backlog
        return self._backlog

    def _look_for_victims(self) -> Steps:
        """Have the possible victims at hand; they are sorted when they are first needed."""
        if self._pools is None:
            self._pools = yield from Pools.of_now(self.scratch, self._may_lose)

    @property
    def pools(self) -> Pools:
        """The possible victims."""
        assert self._pools is not None, "a search begins with looking for them"  # noqa: S101
        return self._pools

    def _may_lose(self, team: Team) -> bool:
        workload = team.workload
        return (
            workload.preemptible
            and workload.governed
            and workload.queue in self.accounts.by_name
            and any(map(self.scratch.active, team.pods))
        )

    def _line_of(
        self, pools: Pools, queues: Sequence[str], eligible: Callable[[Team], bool]
    ) -> Generator[None, None, VictimLine]:
        yield from pools.prepare(queues)
        return VictimLine(self.scratch, pools, queues, eligible)

    def _need(self, team: Team) -> Amounts:
        return self.scratch.need(starting_chunk(team, self.scratch.waits))

    # --- consolidate

    def _may_consolidate(self, team: Team) -> bool:
        pods = starting_chunk(team, self.scratch.waits)
        asked = sum(self.scratch.claim(pod).gpu for pod in pods)
        if not team.workload.preemptible or asked > self.scratch.rooms.free_milli():
            return False
        # Who moves counts in his queues as before: a bound that holds these pods back would go on to.
        return self.starter.refusal(team, pods) is None

    def _consolidation(self, backlog: Backlog) -> Rules:
        return Rules(
            phase="consolidate",
            backlog=backlog,
            line=self._consolidation_line,
            may_evict=lambda _trigger, _team, pods: not self.guard.spares(pods),
            affordable=self.guard.affordable,
            acceptable=self._all_have_places,
        )

    def _consolidation_line(self, trigger: Team) -> Generator[None, None, VictimLine]:
        """Everybody else but those placed in this very cycle, and those from whose node no room can come."""
        sizes = {pod.shape.gpus for pod in starting_chunk(trigger, self.scratch.waits)}
        pools = yield from self._movable_for(sizes.pop() if len(sizes) == 1 else 0)
        return (yield from self._line_of(pools, sorted(pools.queues()), lambda team: team is not trigger))

    def _movable_for(self, size: int) -> Generator[None, None, Pools]:
        """The victims of a consolidation for pods of so many GPUs (0: of several sizes), as they are by now."""
        rooms, stirred = self.scratch.rooms, self.scratch.stirred
        for node in rooms.stirred:
            stirred.update(pod.workload for pod in self.snapshot.on_node.get(node, ()) if pod.workload)
        for key in stirred if self._movable else ():
            for pools in self._movable.values():
                pools.refresh(self.scratch.team(key))
            yield
        rooms.stirred.clear()
        stirred.clear()
        if size not in self._movable:
            self._movable[size] = yield from Pools.of_now(self.scratch, lambda team: self._may_move(team, size))
        return self._movable[size]

    def _may_move(self, team: Team, size: int) -> bool:
        if not self._may_lose(team) or any(map(self.placer.is_fixed, team.pods)):
            return False
        if size and len(team.pods) == 1 and self.scratch.status(team.pods[0]) is Status.RUNNING:
            return self._could_clear(team.pods[0].node) >= size
        return not any(self.scratch.status(pod) in _NEWLY_PLACED for pod in team.pods)

    def _could_clear(self, node: str) -> int:
        """The whole GPUs that a node would have free without any of the pods that may move."""
        room = self.scratch.rooms[node]
        found = self._clearable.get(node)
        if found is None or found[0] != room.version:
            movable = (p for p in self.snapshot.on_node[node] if not self.placer.is_fixed(p))
            having = ((p.shape.gpus or len(p.gpu_groups), p) for p in movable)
            running = (gpus for gpus, p in having if gpus and self.scratch.status(p) is Status.RUNNING)
            found = self._clearable[node] = (room.version, room.later + sum(running))
        return found[1]

    def _all_have_places(self, trial: Trial) -> Generator[None, None, bool]:
        if any(trial.lost(self.scratch, chunk) for chunk in trial.chunks):
            return False
        moved = {chunk.workload for chunk in (yield from trial.disturbed(self.scratch))}
        return self.settings.max_moved < 0 or len(moved) <= self.settings.max_moved

    # --- reclaim

    def _may_reclaim(self, team: Team) -> bool:
        workload = team.workload
        return reclaim.may_take(self.accounts, workload.queue or "", self._need(team), preemptible=workload.preemptible)

    def _reclaiming(self, backlog: Backlog) -> Rules:
        return Rules(
            phase="reclaim",
            backlog=backlog,
            line=self._reclaim_line,
            may_evict=lambda trigger, team, pods: self._is_free_to_go(trigger, team, pods, reclaims=True),
            affordable=self.guard.affordable,
            acceptable=self._is_fair,
        )

    def _reclaim_line(self, trigger: Team) -> Generator[None, None, VictimLine]:
        mine, need = trigger.workload.queue or "", self._need(trigger)
        queues = [
            q for q in sorted(self.pools.queues()) if q != mine and reclaim.may_lose(self.accounts, mine, need, q)
        ]
        return self._line_of(self.pools, queues, lambda _: True)

    def _is_fair(self, trial: Trial) -> Generator[None, None, bool]:
        losses: dict[str, list[Amounts]] = {}
        for chunk in trial.chunks:
            lost = trial.lost(self.scratch, chunk)
            if lost:
                queue = self.scratch.team(chunk.workload).workload.queue or ""
                losses.setdefault(queue, []).append(chunk.counts(self.scratch, lost))
            yield
        return (
            yield from reclaim.fair_to_all(
                trial.before,
                trial.trigger.workload.queue or "",
                self.scratch.need(trial.pods),
                losses,
                preemptible=trial.trigger.workload.preemptible,
                multiplier=self.settings.saturation_multiplier,
            )
        )

    def _is_free_to_go(self, trigger: Team, team: Team, pods: Sequence[Pod], *, reclaims: bool) -> bool:
        """Whether a chunk is not protected by run time (above its minimum), a budget, or an earlier eviction."""
        if self.guard.spares(pods):
            return False
        mine, theirs = trigger.workload.queue or "", team.workload.queue or ""
        if reclaims:
            runtime = protection.reclaim_runtime(self.snapshot, self.accounts, mine, theirs)
        else:
            runtime = protection.preempt_runtime(self.snapshot, theirs)
        until = self.guard.safe_until(team, runtime[0]) if runtime else None
        if runtime and until is not None and not protection.shrinks_to_minimum(team, pods):
            facts = Until(until=until, who=runtime[1], victim=team.workload.key)
            self.hindered.setdefault(trigger.workload.key, Waiting(Reason.PROTECTED_BY_MIN_RUNTIME, facts))
            return False
        return not self.guard.denies(pods)

    # --- preempt

    def _may_preempt(self, team: Team) -> bool:
        lowest = self.pools.lowest(team.workload.queue or "")
        return lowest is not None and lowest < team.workload.priority

    def _preemption(self, backlog: Backlog) -> Rules:
        return Rules(
            phase="preempt",
            backlog=backlog,
            line=lambda trigger: self._line_of(
                self.pools,
                [trigger.workload.queue or ""],
                lambda team: team.workload.priority < trigger.workload.priority,
            ),
            may_evict=lambda trigger, team, pods: self._is_free_to_go(trigger, team, pods, reclaims=False),
            affordable=self.guard.affordable,
            acceptable=_always,
        )

    # --- stale gangs

    def _evict_stale(self) -> Steps:
        for key in sorted(self.snapshot.torn):
            team = self.scratch.team(key)
            if self._is_stale(team):
                pods = [pod for pod in reversed(team.pods) if self.scratch.active(pod)]
                before = self.accounts.copy_of([team.workload.queue or ""])
                for pod in pods:
                    self.scratch.evict(pod)
                    yield
                yield from self.record.commit("evict-stale", None, (), pods, before)
            yield

    def _is_stale(self, team: Team) -> bool:
        workload = team.workload
        grace = self.settings.staleness_grace if workload.staleness_grace is None else workload.staleness_grace
        since = self.snapshot.now if workload.stale_since is None else workload.stale_since
        return (
            workload.governed
            and grace >= 0
            and self.snapshot.now - since >= grace
            and not team.satisfied(workload.gang)
            and not any(pod.state is State.SUCCEEDED for pod in team.pods)
        )


def _always(_trial: Trial) -> Generator[None, None, bool]:
    yield
    return True


_NEWLY_PLACED = frozenset({Status.BOUND, Status.NOMINATED, Status.MOVED})
