"""The lines in which workloads are taken: those that wait, best first, and those that could lose their places, worst first.

Both walk the tree of queues from the root, comparing queues by their best workload, and look again after each one taken.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from gpuyard.engine.accounts import Account
from gpuyard.engine.gang import Team, starting_chunk
from gpuyard.engine.model import NOTHING, Amounts, Pod
from gpuyard.engine.order import Rank, before, rank
from gpuyard.engine.scratch import Scratch

JobKey = tuple[int, int, int, str]


def job_key(team: Team) -> JobKey:
    """Sort key of the workloads in a queue: priority, below or at or above the minimum, age, name."""
    workload = team.workload
    return (-workload.priority, team.stand, workload.created, workload.key)


class Tree:
    """The queues that have a workload in line, and the walk to the one that is next."""

    def __init__(self, scratch: Scratch, *, last: bool) -> None:
        self.scratch = scratch
        self._last = last
        self._children: dict[str, list[Account]] = {}
        self._total = scratch.snapshot.total
        self._ranks: dict[str, tuple[int, object, Rank]] = {}

    def enter(self, queue: str) -> None:
        """Make a queue and its ancestors part of the walk."""
        for account in self.scratch.accounts.path(queue):
            siblings = self._children.setdefault(account.parent, [])
            if account in siblings:
                return
            insort(siblings, account, key=lambda a: (a.created, a.name))

    def leave(self, queue: str) -> None:
        """Take a queue without workloads out of the walk, and the ancestors that are left without children."""
        for account in self.scratch.accounts.path(queue):
            if self._children.get(account.name):
                return
            self._children[account.parent].remove(account)

    def next(self, head: Callable[[str], tuple[object, Amounts, Amounts]], parent: str = "") -> str | None:
        """The leaf that is next; `head` tells of a leaf what identifies its best workload, its need, and what was taken."""
        children = self._children.get(parent)
        if not children:
            return None
        best = ""
        best_rank: Rank | None = None
        for account in children:
            leaf = self.next(head, account.name) if self._children.get(account.name) else account.name
            found = self._rank(account, *head(leaf or ""))
            if best_rank is None or before(found, best_rank) is not self._last:
                best, best_rank = leaf or "", found
        return best

    def _rank(self, account: Account, mark: object, need: Amounts, taken: Amounts) -> Rank:
        cached = self._ranks.get(account.name)
        if cached is not None and cached[0] == account.version and cached[1] == mark:
            return cached[2]
        found = rank(account, need, self._total, taken)
        self._ranks[account.name] = (account.version, mark, found)
        return found


class WaitingLine:
    """Workloads that wait for places, best first."""

    def __init__(self, scratch: Scratch, teams: Iterable[Team] = ()) -> None:
        self._scratch = scratch
        self._tree = Tree(scratch, last=False)
        self._heaps: dict[str, list[tuple[JobKey, Amounts]]] = {}
        for team in teams:
            self.push(team)

    def push(self, team: Team, need: Amounts | None = None) -> None:
        """Let a workload take its place in line, with what its next chunk counts; its queue must exist."""
        queue = team.workload.queue or ""
        heap = self._heaps.setdefault(queue, [])
        if not heap:
            self._tree.enter(queue)
        if need is None:
            need = self._scratch.need(starting_chunk(team, self._scratch.wants_place))
        heappush(heap, (job_key(team), need))

    def pop(self) -> Team | None:
        """The workload that is next; None when nobody waits."""
        queue = self._tree.next(self._head)
        if queue is None:
            return None
        heap = self._heaps[queue]
        key, _ = heappop(heap)
        if not heap:
            self._tree.leave(queue)
        return self._scratch.team(key[3])

    def _head(self, queue: str) -> tuple[object, Amounts, Amounts]:
        key, need = self._heaps[queue][0]
        return key, need, NOTHING


class Pools:
    """The possible victims of each queue, sorted once and kept while a phase lasts; the first victim is at the end."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._pools: dict[str, list[tuple[JobKey, Team]]] = {}
        self._by_queue: dict[str, dict[int, Mapping[str, None]]] = {}
        for (queue, priority), keys in scratch.snapshot.victims.items():
            if keys and queue in scratch.accounts.by_name:
                self._by_queue.setdefault(queue, {})[priority] = keys
        self._fresh: dict[str, list[str]] = {}
        for key in scratch.changed:
            self._note_fresh(key)

    def _note_fresh(self, pod_key: str) -> None:
        pod = self._scratch.snapshot.pods.get(pod_key)
        if pod is None or not self._scratch.active(pod):
            return
        workload = self._scratch.team(pod.workload).workload
        known = self._by_queue.get(workload.queue or "", {}).get(workload.priority, {})
        if workload.preemptible and workload.key not in known:
            self._fresh.setdefault(workload.queue or "", []).append(workload.key)

    def queues(self) -> Iterable[str]:
        """The queues that have possible victims."""
        return self._by_queue.keys() | self._fresh.keys()

    def lowest(self, queue: str) -> int | None:
        """The lowest priority of a possible victim in a queue."""
        fresh = (self._scratch.team(key).workload.priority for key in self._fresh.get(queue, ()))
        return min((*self._by_queue.get(queue, ()), *fresh), default=None)

    def of(self, queue: str) -> list[tuple[JobKey, Team]]:
        """The pool of one queue."""
        pool = self._pools.get(queue)
        if pool is None:
            keys = {key for some in self._by_queue.get(queue, {}).values() for key in some}
            keys.update(self._fresh.get(queue, ()))
            teams = (self._scratch.team(key) for key in keys)
            pool = self._pools[queue] = sorted(((job_key(team), team) for team in teams), key=lambda x: x[0])
        return pool

    def refresh(self, teams: Iterable[Team]) -> None:
        """Look again at workloads whose pods have changed."""
        for team in teams:
            queue = team.workload.queue or ""
            if queue in self._pools or queue not in self._by_queue:
                pool = self.of(queue)
                pool[:] = [entry for entry in pool if entry[1] is not team]
                if team.workload.preemptible and any(map(self._scratch.active, team.pods)):
                    insort(pool, (job_key(team), team), key=lambda x: x[0])


class VictimLine:
    """Workloads that could lose their places, worst first, out of the queues given; `eligible` has the last word on each."""

    def __init__(self, scratch: Scratch, pools: Pools, queues: Iterable[str], eligible: Callable[[Team], bool]) -> None:
        self._scratch = scratch
        self._pools = pools
        self._eligible = eligible
        self._tree = Tree(scratch, last=True)
        self._next: dict[str, int] = {}
        self._returned: dict[str, list[tuple[JobKey, Team]]] = {}
        self._heads: dict[str, tuple[JobKey, Team, bool]] = {}
        self._taken: dict[str, Amounts] = {}
        self._with_head: dict[str, Amounts] = {}
        for queue in queues:
            self._next[queue] = len(pools.of(queue)) - 1
            if self._find_head(queue):
                self._tree.enter(queue)

    def pop(self) -> Team | None:
        """The workload that is next to lose; None when there are no more."""
        queue = self._tree.next(self._head)
        if queue is None:
            return None
        _, team, returned = self._heads.pop(queue)
        if returned:
            self._returned[queue].pop()
        else:
            self._next[queue] -= 1
        self._taken[queue] = self._with_head[queue]
        if not self._find_head(queue):
            self._tree.leave(queue)
        return team

    def give_back(self, rest: Team) -> None:
        """What is left of a workload of which a part was taken stands in line again."""
        queue = rest.workload.queue or ""
        empty = queue not in self._heads
        insort(self._returned.setdefault(queue, []), (job_key(rest), rest), key=lambda x: x[0])
        if self._find_head(queue) and empty:
            self._tree.enter(queue)

    def _find_head(self, queue: str) -> bool:
        pool, at = self._pools.of(queue), self._next[queue]
        while at >= 0 and not self._eligible(pool[at][1]):
            at -= 1
        self._next[queue] = at
        returned = self._returned.get(queue)
        self._heads.pop(queue, None)
        if returned and (at < 0 or returned[-1][0] > pool[at][0]):
            self._heads[queue] = (*returned[-1], True)
        elif at >= 0:
            self._heads[queue] = (*pool[at], False)
        else:
            return False
        team = self._heads[queue][1]
        held = held_by(self._scratch, team)
        self._with_head[queue] = self._taken.get(queue, NOTHING).plus(held)
        return True

    def _head(self, queue: str) -> tuple[object, Amounts, Amounts]:
        return (self._heads[queue][0], self._with_head[queue]), NOTHING, self._with_head[queue]


def held_by(scratch: Scratch, team: Team) -> Amounts:
    """What the active pods of a workload, or of a part of one, count together."""
    return scratch.held(team)


def rest_of(scratch: Scratch, team: Team, chosen: Iterable[Pod]) -> Team | None:
    """The workload without the pods already chosen; None when no active pod is left."""
    gone = {pod.key for pod in chosen}
    pods = [pod for pod in team.pods if pod.key not in gone]
    active: dict[str, int] = {}
    for pod in pods:
        if scratch.active(pod):
            active[pod.group] = active.get(pod.group, 0) + 1
    return Team(team.workload, pods, active) if active else None
