"""The lines in which workloads are taken: who waits, best first, and who could lose their places, worst first.

Both walk the tree of queues from the root, comparing queues by their best workload, and look again after each one.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain

from gpuyard.engine.model import NOTHING, Amounts, Pod
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.rules.accounts import Account
from gpuyard.engine.rules.gangs import Team, starting_chunk
from gpuyard.engine.rules.order import Rank, before, rank
from gpuyard.engine.stepwise import at_once, in_order, let_go, take_apart

JobKey = tuple[int, int, int, str]

_Member = tuple[JobKey, Team]


def job_key(team: Team) -> JobKey:
    """Sort key of the workloads in a queue: priority, below or at or above the minimum, age, name."""
    workload = team.workload
    return (-workload.priority, team.stand, workload.created, workload.key)


def _job_key_of(entry: _Member) -> JobKey:
    return entry[0]


Head = Callable[[str], tuple[Amounts, Amounts]]


class Tree:
    """The queues that have a workload in line, and the walk to the one that is next."""

    def __init__(self, scratch: Scratch, *, last: bool) -> None:
        self.scratch = scratch
        self._last = last
        self._children: dict[str, list[Account]] = {}
        self._inside: set[str] = set()
        self._leaves: dict[str, tuple[int, Rank]] = {}
        """Of leaves whose best workload is as it was: the version of the account, and the rank."""
        self._total = scratch.snapshot.total
        self._ranks: dict[str, tuple[tuple[int, Amounts, Amounts], Rank]] = {}
        self._found: tuple[str, tuple[int, Amounts, Amounts]] | None = None

    def enter(self, queue: str) -> None:
        """Make a queue, which may have been part of it already, and its ancestors part of the walk."""
        self.touch(queue)
        self._found = None
        for account in self.scratch.accounts.path(queue):
            if account.name in self._inside:
                return
            self._inside.add(account.name)
            insort(self._children.setdefault(account.parent, []), account, key=_age)

    def leave(self, queue: str) -> None:
        """Take a queue without workloads out of the walk, and the ancestors that are left without children."""
        self.touch(queue)
        self._found = None
        for account in self.scratch.accounts.path(queue):
            if self._children.get(account.name):
                return
            self._inside.discard(account.name)
            siblings = self._children[account.parent]
            del siblings[bisect_left(siblings, _age(account), key=_age)]

    def touch(self, queue: str) -> None:
        """Look again at a leaf whose best workload may be another one."""
        self._leaves.pop(queue, None)

    def next(self, head: Head) -> str | None:
        """The leaf that is next; `head` tells of a leaf what its best workload needs, and what was taken from it."""
        changes = self.scratch.accounts.changes
        if self._found is not None and self._found[1] == (changes, *head(self._found[0])):
            return self._found[0]
        leaf = self._walk(head, "")
        self._found = (leaf, (changes, *head(leaf))) if leaf is not None else None
        return leaf

    def _walk(self, head: Head, parent: str) -> str | None:
        children = self._children.get(parent)
        if not children:
            return None
        best = ""
        best_rank: Rank | None = None
        for account in children:
            leaf: str | None = account.name
            if self._children.get(account.name):
                leaf = self._walk(head, account.name)
                found = self._rank(account, *head(leaf or ""))
            else:
                found = self._rank_of_leaf(account, head)
            if best_rank is None or before(found, best_rank) is not self._last:
                best, best_rank = leaf or "", found
        return best

    def _rank_of_leaf(self, account: Account, head: Head) -> Rank:
        known = self._leaves.get(account.name)
        if known is not None and known[0] == account.version:
            return known[1]
        found = self._rank(account, *head(account.name))
        self._leaves[account.name] = account.version, found
        return found

    def _rank(self, account: Account, need: Amounts, taken: Amounts) -> Rank:
        cached = self._ranks.get(account.name)
        asked = (account.version, need, taken)
        if cached is not None and cached[0] == asked:
            return cached[1]
        found = rank(account, need, self._total, taken)
        self._ranks[account.name] = (asked, found)
        return found


def _age(account: Account) -> tuple[int, str]:
    return (account.created, account.name)


Entry = tuple[JobKey, Amounts]
"""A workload in line: its key, and what its next chunk counts."""


class Backlog:
    """Everybody who waits, by queue, in order. It stands behind the lines of trials: their order depends on it too."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self.by_queue: dict[str, list[Entry]] = {}
        self._entries: dict[str, Entry] = {}
        self._needs: dict[str, Counter[Amounts]] = {}

    def update(self, team: Team) -> None:
        """Look again at a workload whose pods have changed."""
        entries = self.by_queue.setdefault(team.workload.queue or "", [])
        old = self._entries.pop(team.workload.key, None)
        if old is not None:
            del entries[bisect_left(entries, old)]
            self._count(team).subtract([old[1]])
        if any(map(self._scratch.waits, team.pods)):
            entry = self._entries[team.workload.key] = entry_of(self._scratch, team)
            insort(entries, entry)
            self._count(team).update([entry[1]])

    def everybody(self) -> Collection[str]:
        """Everybody, in no order."""
        return self._entries

    def alike(self, queue: str, at: int) -> int:
        """The end of the row of workloads from `at` on whose next chunks count the same: they rank the same."""
        entries = self.by_queue[queue]
        need = entries[at][1]
        if self._needs[queue][need] == len(entries):
            return len(entries)
        while at < len(entries) and entries[at][1] == need:
            at += 1
        return at

    def _count(self, team: Team) -> Counter[Amounts]:
        return self._needs.setdefault(team.workload.queue or "", Counter())


def entry_of(scratch: Scratch, team: Team, need: Amounts | None = None) -> Entry:
    """A workload as it stands in line."""
    if need is None:
        need = scratch.need(starting_chunk(team, scratch.wants_place))
    return job_key(team), need


class WaitingLine:
    """Workloads that wait for places, best first. Those of a backlog stand in line too, but nobody calls them."""

    def __init__(self, scratch: Scratch, teams: Iterable[Team] = (), backlog: Backlog | None = None) -> None:
        self._scratch = scratch
        self._tree = Tree(scratch, last=False)
        self._heaps: dict[str, list[Entry]] = {}
        self._called: set[str] = set()
        self._left = 0
        self._backlog = backlog or Backlog(scratch)
        self._passed: dict[str, int] = {}
        for team in teams:
            self.push(team)
        for queue, entries in self._backlog.by_queue.items():
            if entries:
                self._tree.enter(queue)

    @classmethod
    def of(cls, scratch: Scratch, backlog: Backlog) -> "WaitingLine":
        """A line in which everybody of a backlog is called."""
        line = cls(scratch)
        for queue, entries in backlog.by_queue.items():
            if entries:
                line._heaps[queue] = list(entries)
                line._left += len(entries)
                line._tree.enter(queue)
        return line

    def push(self, team: Team, need: Amounts | None = None) -> None:
        """Let a workload take its place in line, with what its next chunk counts; its queue must exist."""
        queue = team.workload.queue or ""
        heap = self._heaps.setdefault(queue, [])
        self._tree.enter(queue)
        self._called.add(team.workload.key)
        self._left += 1
        heappush(heap, entry_of(self._scratch, team, need))

    def pop(self) -> Team | None:
        """The workload that is next; None when nobody who was pushed is left."""
        while self._left and (queue := self._tree.next(self._head)) is not None:
            called = self._take(queue)
            if called is not None:
                self._left -= 1
                return self._scratch.team(called)
        return None

    def _take(self, queue: str) -> str | None:
        """Take the first of a queue out of the line; None if it only stood behind it."""
        first, called = self._first(queue), None
        heap = self._heaps.get(queue)
        if heap and heap[0] is first:
            called = heappop(heap)[0][3]
        else:
            self._pass(queue, heap)
        self._tree.touch(queue)
        if not heap and self._behind(queue) is None:
            self._tree.leave(queue)
        return called

    def _pass(self, queue: str, heap: list[Entry] | None) -> None:
        """Let pass all who stand behind with the same rank, up to the next who is called."""
        at = self._passed.get(queue, 0)
        end = self._backlog.alike(queue, at)
        if heap:
            end = min(end, bisect_left(self._backlog.by_queue[queue], heap[0], at))
        self._passed[queue] = max(end, at + 1)

    def _first(self, queue: str) -> Entry:
        heap, behind = self._heaps.get(queue), self._behind(queue)
        if heap and (behind is None or heap[0] < behind):
            return heap[0]
        assert behind is not None, "a queue without workloads is not in the walk"  # noqa: S101
        return behind

    def _behind(self, queue: str) -> Entry | None:
        """The first of a queue who stands behind the line and has not passed; who is called stands in the line."""
        waiting = self._backlog.by_queue.get(queue, ())
        at = self._passed.get(queue, 0)
        while at < len(waiting) and waiting[at][0][3] in self._called:
            at += 1
        self._passed[queue] = at
        return waiting[at] if at < len(waiting) else None

    def _head(self, queue: str) -> tuple[Amounts, Amounts]:
        return self._first(queue)[1], NOTHING


class Pools:
    """The possible victims of each queue, sorted once and kept from then on; the first victim is at the end."""

    def __init__(self, scratch: Scratch, may_lose: Callable[[Team], bool]) -> None:
        self._scratch = scratch
        self._may_lose = may_lose
        self._pools: dict[str, list[_Member]] = {}
        self._keys: dict[str, JobKey] = {}
        self._by_queue: dict[str, dict[int, Iterable[str]]] = {}
        for (queue, priority), keys in scratch.snapshot.victims.items():
            if keys and queue in scratch.accounts.by_name:
                self._by_queue.setdefault(queue, {})[priority] = keys
        self._fresh: dict[str, dict[str, None]] = {}

    @classmethod
    def of_now(cls, scratch: Scratch, may_lose: Callable[[Team], bool]) -> Generator[None, None, "Pools"]:
        """The possible victims as they are in the midst of a cycle, whose changes are looked at one by one."""
        pools = cls(scratch, may_lose)
        for key in list(scratch.changed):
            pod = scratch.snapshot.pods.get(key)
            if pod is not None:
                pools.refresh(scratch.team(pod.workload))
            yield
        return pools

    def dissolve(self) -> Generator[None, None, None]:
        """Take it apart, a little at a time; nobody may look at it any more."""
        for pool in self._pools.values():
            yield from let_go(pool)
        yield from take_apart(self)

    def queues(self) -> Iterable[str]:
        """The queues that have possible victims."""
        return self._by_queue.keys() | self._fresh.keys()

    def lowest(self, queue: str) -> int | None:
        """The lowest priority of a possible victim in a queue."""
        fresh = (self._scratch.team(key).workload.priority for key in self._fresh.get(queue, ()))
        return min((*self._by_queue.get(queue, ()), *fresh), default=None)

    def of(self, queue: str) -> list[_Member]:
        """The pool of one queue."""
        pool = self._pools.get(queue)
        if pool is None:
            at_once(self.prepare([queue]))
            pool = self._pools[queue]
        return pool

    def prepare(self, queues: Iterable[str]) -> Generator[None, None, None]:
        """Sort the pools of these queues, a little at a time."""
        for queue in queues:
            if queue not in self._pools:
                self._pools[queue] = yield from in_order(self._members(queue))

    def _members(self, queue: str) -> Iterator[_Member]:
        fresh = self._fresh.get(queue, {})
        known = (key for some in self._by_queue.get(queue, {}).values() for key in some if key not in fresh)
        for team in map(self._scratch.team, chain(known, fresh)):
            if self._may_lose(team):
                key = self._keys[team.workload.key] = job_key(team)
                yield key, team

    def refresh(self, team: Team) -> None:
        """Look again at a workload whose pods have changed."""
        queue = team.workload.queue or ""
        pool = self._pools.get(queue)
        if pool is None:
            self._fresh.setdefault(queue, {})[team.workload.key] = None
            return
        old = self._keys.pop(team.workload.key, None)
        new = job_key(team) if self._may_lose(team) else None
        if old is not None and old != new:
            del pool[bisect_left(pool, old, key=_job_key_of)]
        if new is not None:
            self._keys[team.workload.key] = new
            if old != new:
                insort(pool, (new, team), key=_job_key_of)


class VictimLine:
    """Workloads of some queues that could lose their places, worst first; `eligible` has the last word on each."""

    def __init__(self, scratch: Scratch, pools: Pools, queues: Iterable[str], eligible: Callable[[Team], bool]) -> None:
        self._scratch = scratch
        self._pools = pools
        self._eligible = eligible
        self._tree = Tree(scratch, last=True)
        self._next: dict[str, int] = {}
        self._returned: dict[str, list[_Member]] = {}
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
        self._tree.touch(queue)
        if not self._find_head(queue):
            self._tree.leave(queue)
        return team

    def give_back(self, rest: Team) -> None:
        """What is left of a workload of which a part was taken stands in line again."""
        queue = rest.workload.queue or ""
        insort(self._returned.setdefault(queue, []), (job_key(rest), rest), key=_job_key_of)
        self._find_head(queue)
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

    def _head(self, queue: str) -> tuple[Amounts, Amounts]:
        return NOTHING, self._with_head[queue]


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
