"""What keeps a running workload safe: its minimum run time, disruption budgets, an eviction it has had already."""

from collections.abc import Collection, Iterable, Sequence

from gpuyard.engine.model import Budget, Pod
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Team
from gpuyard.engine.search.evicted_chunks import Chunk, Chunks


class Guard:
    """Answers for one cycle. `spared` are pods that were evicted once already for the same demand."""

    def __init__(self, scratch: Scratch, spared: Collection[str], *, honor_budgets: bool) -> None:
        self._scratch = scratch
        self._snapshot = scratch.snapshot
        self.spared = frozenset(spared)
        self.denied: set[str] = set()
        """The budgets that kept somebody from going, since this was cleared."""
        self._left: dict[str, int] = {}
        self._budgets: dict[str, list[Budget]] = {}
        """By namespace: a budget is about pods of its own."""
        self._budgets_of: dict[str, list[str]] = {}
        if honor_budgets:
            for name, budget in sorted(scratch.snapshot.budgets.items()):
                self._left[name] = budget.allowed
                self._budgets.setdefault(name.partition("/")[0], []).append(budget)

    def spares(self, pods: Iterable[Pod]) -> bool:
        """Whether one of these pods has been evicted already."""
        return bool(self.spared) and any(pod.key in self.spared for pod in pods)

    def affordable(self, chunks: Chunks) -> Chunks:
        """The chunks in order, without those that a disruption budget does not allow any more."""
        if not self._budgets:
            return chunks
        left = dict(self._left)
        out = []
        for chunk in chunks:
            names = self._names(chunk.pods)
            short = {name for name in names if names.count(name) > left[name]}
            self.denied |= short
            if not short:
                for name in names:
                    left[name] -= 1
                out.append(chunk)
        return tuple(out)

    def denies(self, pods: Iterable[Pod]) -> bool:
        """Whether a budget does not allow all of these pods to go."""
        names = self._names(pods)
        short = {name for name in names if names.count(name) > self._left[name]}
        self.denied |= short
        return bool(short)

    def _names(self, pods: Iterable[Pod]) -> list[str]:
        """The budgets that evicting these pods would be counted against, once for each pod."""
        return [name for pod in pods if pod.active for name in self._about(pod)] if self._budgets else []

    def _about(self, pod: Pod) -> list[str]:
        found = self._budgets_of.get(pod.key)
        if found is None:
            own = self._budgets.get(pod.namespace, ())
            found = self._budgets_of[pod.key] = [budget.name for budget in own if pod.key in budget.pods]
        return found

    def spend(self, chunks: Iterable[Chunk]) -> None:
        """Count these evictions against the budgets."""
        for chunk in chunks:
            for name in self._names(chunk.pods):
                self._left[name] -= 1

    def safe_until(self, team: Team, runtime: int | None) -> int | None:
        """Until when a workload may not be taken, if the minimum run time still holds."""
        started = _last_start(team) if runtime else None
        if not runtime or started is None:
            return None
        until = started + runtime
        return until if self._snapshot.now < until else None


def _last_start(team: Team) -> int | None:
    """Since when a workload has had its minimum; one that is short of it, since its newest pod."""
    starts = sorted((pod.started, pod.group) for pod in team.pods if pod.active and pod.started is not None)
    running: dict[str, int] = {}
    for started, group in starts:
        running[group] = running.get(group, 0) + 1
        if team.workload.gang.stands(running):
            return started
    return starts[-1][0] if starts else None


def preempt_runtime(snapshot: Snapshot, victim: str) -> tuple[int, str] | None:
    """The minimum run time against preemption, and whose it is: the first that is set on the way up."""
    for name in snapshot.path(victim):
        runtime = snapshot.queues[name].preempt_min_runtime
        if runtime is not None:
            return runtime, name
    return None


def reclaim_runtime(snapshot: Snapshot, accounts: Accounts, taker: str, victim: str) -> tuple[int, str] | None:
    """The minimum run time against reclaim: the first set from the victim's side of the levelled pair upwards."""
    _, side = accounts.levelled(taker, victim)
    path = snapshot.path(victim)
    for name in path[path.index(side.name) :]:
        runtime = snapshot.queues[name].reclaim_min_runtime
        if runtime is not None:
            return runtime, name
    return None


def shrinks_to_minimum(team: Team, pods: Sequence[Pod]) -> bool:
    """Whether a workload still has its minimum without these pods."""
    active = dict(team.active)
    for pod in pods:
        active[pod.group] -= 1
    return team.workload.gang.stands(active)


def delay_until(snapshot: Snapshot, team: Team) -> int | None:
    """Until when nobody is evicted on a workload's behalf, if its delay still runs."""
    workload = team.workload
    if not workload.preemption_delay:
        return None
    until = max(workload.created, workload.last_evicted or 0) + workload.preemption_delay
    return until if snapshot.now < until else None
