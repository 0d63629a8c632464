"""Whom to evict for a workload, and only if it is enough.

A search grows the number of the workload's pods that must fit (1, 2, 4, … then halving in), and for each number tries
sets of victims, proposed by two generators in turn:

    by node      victims one at a time in their order; for each node of the newest: all so far that touch that node
    by prefix    for gangs: nodes by what they would have free, smallest first; the shortest row of them that is enough

A trial takes the set away and gives the workload and its victims places again, in the order of the queues. Who fits
elsewhere is moved, who comes back to his own place is not evicted at all. The first set that holds up by the phase's
own rule wins; then each victim that the plan can do without is left out again.

Decided in docs/decisions.md: "Everybody who waits stands behind a trial's line"; "A victim goes home when it can".
"""

from collections.abc import Callable, Generator, Iterator, Sequence

import msgspec
from gpuyard.engine.model import Pod
from gpuyard.engine.model.reporter import Reporter
from gpuyard.engine.model.settings import Phase
from gpuyard.engine.placing.gang_start import Starter
from gpuyard.engine.placing.scratch import Scratch, Status
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Team, evicting_chunk, starting_chunk
from gpuyard.engine.search.evicted_chunks import Chunk, Chunks, Gathered, freed_gpus
from gpuyard.engine.search.lines import Backlog, VictimLine, WaitingLine, rest_of
from gpuyard.engine.search.room_bounds import Hope
from gpuyard.engine.stepwise import in_order


class Trial(msgspec.Struct, frozen=True, eq=False):
    """A trial that found room for the workload; `before` are the accounts of its queues before anything was taken."""

    trigger: Team
    pods: tuple[Pod, ...]
    chunks: Chunks
    before: Accounts

    def lost(self, scratch: Scratch, chunk: Chunk) -> list[Pod]:
        """The pods of a chunk that found no place again."""
        return [pod for pod in chunk.pods if not scratch.active(pod)]

    def disturbed(self, scratch: Scratch) -> Generator[None, None, Chunks]:
        """The chunks without the pods that came back to their own places."""
        found = []
        for chunk in self.chunks:
            away = [(pod, old) for pod, old in zip(chunk.pods, chunk.places, strict=True) if scratch.place(pod) != old]
            if away:
                pods, places = zip(*away, strict=True)
                found.append(Chunk(chunk.workload, pods, places))
            yield
        return tuple(found)


class Rules(msgspec.Struct, frozen=True):
    """What makes a phase: who may be a victim, and which outcome is acceptable."""

    phase: Phase
    line: Callable[[Team], Generator[None, None, VictimLine]]
    """Who may lose for a trigger; pauses while they are being sorted."""
    may_evict: Callable[[Team, Team, Sequence[Pod]], bool]
    """For a trigger: whether this chunk of a workload (or of what is left of one) may be evicted."""
    affordable: Callable[[Chunks], Chunks]
    """The chunks, without those that disruption budgets do not allow."""
    acceptable: Callable[[Trial], Generator[None, None, bool]]
    backlog: Backlog


Steps = Generator[None, None, Trial | None]
"""Pauses within each trial and between them, to let the caller do other work; returns the solution if there is one."""


class Search:
    """The search for one workload in one phase. A solution is left on the scratch; without one nothing is."""

    def __init__(self, scratch: Scratch, starter: Starter, rules: Rules, reporter: Reporter, trigger: Team) -> None:
        self._scratch = scratch
        self._starter = starter
        self._rules = rules
        self._reporter = reporter
        self._trigger = trigger
        self._pods = tuple(starting_chunk(trigger, scratch.wants_place))

    def solve(self) -> Steps:
        """Look for victims with each generator in turn."""
        for propose in (self._by_node, self._by_prefix):
            found = yield from self._grow(propose)
            if found is not None:
                return found
        return None

    def _grow(self, propose: "_Propose") -> Steps:
        """Solve for 1, 2, 4, … pods, then between the last success and the first failure, then for all of them."""
        mark, everything = self._scratch.mark(), len(self._pods)
        low, high, size = 0, everything + 1, 1
        kept: Chunks = ()
        while low + 1 < high:
            found = yield from self._probe(propose, size, kept)
            if found is None:
                high = size
            elif size == everything:
                return (yield from self._spare(found, mark))
            else:
                low, kept = size, (yield from found.disturbed(self._scratch))
                yield from self._scratch.take_back(mark)
            size = min(size * 2, everything) if high > everything else (low + high) // 2
        found = (yield from self._probe(propose, everything, kept)) if low else None
        return (yield from self._spare(found, mark)) if found else None

    def _probe(self, propose: "_Propose", size: int, kept: Chunks) -> Steps:
        pods = self._pods[:size]
        for chunks in propose(pods, kept):
            found = (yield from self._try(pods, chunks)) if chunks is not None else None
            yield
            if found is not None:
                return found
        return None

    def _spare(self, found: Trial, mark: int) -> Steps:
        """Leave out each victim that the plan can do without, the last chosen first."""
        needed = yield from found.disturbed(self._scratch)
        if len(needed) <= 1:
            return found
        yield from self._scratch.take_back(mark)
        hope = self._hope(self._pods)
        freed, lacking = freed_gpus(needed), hope.lacking(needed)
        for chunk in reversed(needed):
            yield
            if lacking + hope.loss(chunk, freed) > 0:
                continue
            fewer = tuple(c for c in needed if c is not chunk)
            better = yield from self._try(self._pods, fewer)
            yield from self._scratch.take_back(mark)
            if better is not None:
                needed, freed, lacking = fewer, freed_gpus(fewer), hope.lacking(fewer)
                self._reporter.dropped(self._rules.phase, self._trigger.workload.key, chunk.workload)
        return (yield from self._try(self._pods, needed)) or (yield from self._try(self._pods, found.chunks))

    # --- proposals; None is a pause

    def _by_node(self, pods: Sequence[Pod], kept: Chunks) -> Iterator[Chunks | None]:
        if kept:
            yield kept
        hope = self._hope(pods)
        known = {pod.key for chunk in kept for pod in chunk.pods}
        gathered, lacking = kept, hope.lacking(kept)
        chunks_of: dict[str, list[Chunk]] = {}
        workloads_on: dict[str, dict[str, None]] = {}
        for chunk in self._victims(known):
            yield None
            if chunk is None:
                continue
            chunks_of.setdefault(chunk.workload, []).append(chunk)
            for node in sorted(chunk.nodes):
                touching = workloads_on.setdefault(node, {})
                touching[chunk.workload] = None
                if not hope.gains(node, chunk):
                    continue
                there = [c for key in touching for c in chunks_of[key]]
                some = self._rules.affordable(tuple(dict.fromkeys((*gathered, *there))))
                without = hope.lacking(some)
                if without <= 0:
                    yield some
                elif without < lacking:
                    gathered, lacking = some, without

    def _by_prefix(self, pods: Sequence[Pod], kept: Chunks) -> Iterator[Chunks | None]:
        if len(self._pods) == 1:
            return
        if kept:
            yield kept
        gathered = Gathered()
        for chunk in self._victims(set()):
            yield None
            if chunk is not None:
                gathered.add(chunk)
        yield from self._rows(gathered, self._hope(pods))

    def _rows(self, gathered: Gathered, hope: Hope) -> Iterator[Chunks | None]:
        """What stands on the first nodes: on as few as may be enough, then on 1, 2, 4, … more."""
        rooms = self._scratch.rooms
        nodes = yield from in_order((rooms[node].later + gpus, node) for node, gpus in gathered.freed.items())
        touching: set[int] = set()
        first, due = 0, 1
        for length, (_, node) in enumerate(nodes, 1):
            touching.update(gathered.touching(node))
            yield None
            if length < due:
                continue
            row = self._rules.affordable(gathered.some(touching))
            if first or hope.enough(row):
                yield row
                first = first or length
                due = first + max(1, 2 * (length - first))

    def _victims(self, known: set[str]) -> Iterator[Chunk | None]:
        """Chunks in the order in which workloads lose, without the pods `known`; None is a pause."""
        line = yield from self._rules.line(self._trigger)
        while (team := line.pop()) is not None:
            yield None
            pods = evicting_chunk(team, self._scratch.active)
            if any(pod.key in known for pod in pods):
                rest = rest_of(self._scratch, team, [pod for pod in team.pods if pod.key in known])
            elif not pods or not self._rules.may_evict(self._trigger, team, pods):
                continue
            else:
                yield Chunk(team.workload.key, tuple(pods), tuple(map(self._scratch.place, pods)))
                rest = rest_of(self._scratch, team, pods) if len(team.pods) > len(pods) else None
            if rest is not None:
                line.give_back(rest)

    def _hope(self, pods: Sequence[Pod]) -> Hope:
        return Hope(self._scratch, pods, all_return=self._rules.phase == "consolidate")

    # --- trials

    def _try(self, pods: Sequence[Pod], chunks: Chunks) -> Steps:
        mark = self._scratch.mark()
        yield
        queues = {self._scratch.team(c.workload).workload.queue or "" for c in chunks}
        before = self._scratch.accounts.copy_of({*queues, self._trigger.workload.queue or ""})
        for chunk in chunks:
            for pod in chunk.pods:
                self._scratch.evict(pod)
                yield
        trial = Trial(self._trigger, tuple(pods), chunks, before)
        success = (
            (yield from self._place_again(pods, chunks))
            and not (yield from self._tears(chunks))
            and (yield from self._rules.acceptable(trial))
        )
        victims = tuple(pod.key for chunk in chunks for pod in chunk.pods)
        self._reporter.tried(self._rules.phase, self._trigger.workload.key, victims, success=success)
        if not success:
            yield from self._scratch.take_back(mark)
        return trial if success else None

    def _place_again(self, pods: Sequence[Pod], chunks: Chunks) -> Generator[None, None, bool]:
        """Give the workload and its victims places in queue order; then what is left of the victims."""
        line = WaitingLine(self._scratch, backlog=self._rules.backlog)
        line.push(self._trigger, self._scratch.need(pods))
        for key in dict.fromkeys(chunk.workload for chunk in chunks):
            line.push(self._scratch.team(key))
            yield
        returned = []
        while (team := line.pop()) is not None:
            yield
            if team is not self._trigger:
                returned.append(team)
                yield from self._return(team)
            elif self._starter.refusal(team, pods) or not (yield from self._starter.promise(team, pods)):
                return False
        for team in returned:
            while (yield from self._return(team)):
                pass
            yield
        for chunk in chunks:
            yield from self._bring_home(chunk)
        return True

    def _bring_home(self, chunk: Chunk) -> Iterator[None]:
        """Let pods that were moved stay where they were after all, if there is room for all of them."""
        mark, team = self._scratch.mark(), self._scratch.team(chunk.workload)
        away = [
            (pod, old)
            for pod, old in zip(chunk.pods, chunk.places, strict=True)
            if self._scratch.active(pod) and self._scratch.place(pod) != old
        ]
        yield
        for pod, _ in away:
            self._scratch.evict(pod)
            yield
        for pod, old in away:
            if not (yield from self._starter.may_stay(team, pod, old)):
                yield from self._scratch.take_back(mark)
                return
            self._scratch.nominate(pod, old.node, old.groups)
            yield

    def _tears(self, chunks: Chunks) -> Generator[None, None, bool]:
        """Whether a victim would be left with some of its pods, but too few of them."""
        for team in map(self._scratch.team, {chunk.workload for chunk in chunks}):
            if any(team.active.values()) and not team.satisfied(team.workload.gang):
                return True
            yield
        return False

    def _return(self, team: Team) -> Generator[None, None, bool]:
        pods = starting_chunk(team, lambda pod: self._scratch.status(pod) is Status.EVICTED)
        return bool(pods) and not self._starter.refusal(team, pods) and (yield from self._starter.promise(team, pods))


_Propose = Callable[[Sequence[Pod], Chunks], Iterator[Chunks | None]]
