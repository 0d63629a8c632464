"""Makes room for a job by moving others, and by deleting jobs that may be: at the least cost.

A job that stays is worth 1, a moved one its portability, a deleted one nothing; the plan that keeps the most is taken.
Of equals the one that deletes the fewest devices, then moves the fewest jobs, then touches the newest, then by name.

    start ──move a job to where it fits now──▶ ┐        a job is touched once at most; where all jobs are is the
          ──delete one that may be──────────▶  ├─▶ …    whole of a state, so ways that end alike are one
                                               ┘ until the new one fits somewhere

Best first (A*): states are looked at by what they have cost and what they will still cost at least. So the first that
is good enough cannot be beaten, and its moves can be done in the order in which they were found; two jobs that could
only change places are never found. With very many jobs the search ends after `patience` states; then it looks again,
for any way, the nearest to the goal first.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain, count, groupby
from typing import NamedTuple

from gpuyard.engine.budgets.books import Job, Kind, Node, Step

WHOLE = 1000
"""What a job that stays is worth; portability is given in these."""

Spent = tuple[int, int, int]
"""Cost, devices deleted, jobs moved: what is compared first."""


class Movable(NamedTuple):
    """A job, and what may be done with it."""

    job: Job
    may_go: bool
    may_move: bool


class Way(NamedTuple):
    """A state of the search: what was done so far, in its order, and what is free now."""

    free: tuple[int, ...]
    touched: tuple[tuple[int, int], ...] = ()
    """Job and the node that it was moved to, or `GONE`, by number."""
    spent: Spent = (0, 0, 0)


class Found(NamedTuple):
    """The steps that make room, and where."""

    steps: tuple[Step, ...]
    node: str
    best: bool
    """Whether there is none better for certain."""


GONE = -1


class Reshuffle:
    """One search for room for one job."""

    def __init__(self, nodes: Sequence[Node], jobs: Sequence[Movable], amount: int, portability: int) -> None:
        self._nodes = nodes
        self._jobs = jobs
        self._amount = amount
        self._move_cost = WHOLE - portability
        number = {node.name: at for at, node in enumerate(nodes)}
        self._home = [number[one.job.node] for one in jobs]
        by_size = sorted(range(len(jobs)), key=lambda j: (-jobs[j].job.amount, jobs[j].may_go, jobs[j].may_move, -j))
        self._on = [[j for j in by_size if self._home[j] == n] for n in range(len(nodes))]
        self._alike = [list(some) for _, some in groupby(chain(*self._on), key=self._kind)]

    def search(self, patience: int) -> tuple[Found | None, bool]:
        """The best way, and whether all were looked at: without it there may be a better one, or one at all."""
        best, complete = self._look(lambda spent, left: (spent[0] + left, *spent[1:]), patience)
        if best is None and not complete:
            best, _ = self._look(lambda spent, left: (left, *spent), patience)
        return (self._found(best, best=complete) if best else None), complete

    def _look(self, rank: Callable[[Spent, int], tuple[int, ...]], patience: int) -> tuple[Way | None, bool]:
        """The best of the ways that cost the same and no more than any other; whether none was left out."""
        start = Way(tuple(self._free()))
        order = count()
        heap = [(rank(start.spent, 0), next(order), start)]
        seen: set[frozenset[tuple[int, int]]] = set()
        best: Way | None = None
        while heap:
            ranked, _, way = heappop(heap)
            if best and ranked > rank(best.spent, 0):
                break
            if max(way.free) >= self._amount:
                best = min(best, way, key=self._ties) if best else way
                continue
            for after in self._next(way):
                done = frozenset(after.touched)
                if done in seen:
                    continue
                if len(seen) == patience:
                    return best, False
                seen.add(done)
                left = self._least(after)
                if left is not None:
                    heappush(heap, (rank(after.spent, left), next(order), after))
        return best, True

    def _free(self) -> Iterator[int]:
        for node, there in zip(self._nodes, self._on, strict=True):
            yield node.amount - sum(self._jobs[j].job.amount for j in there)

    def _kind(self, j: int) -> tuple[object, ...]:
        """Jobs for which this is the same can stand in for each other."""
        one = self._jobs[j]
        return self._home[j], one.job.amount, one.may_go, one.may_move

    def _next(self, way: Way) -> Iterator[Way]:
        """What one more step may lead to; of jobs that are alike the newest is touched first."""
        touched = {j for j, _ in way.touched}
        for alike in self._alike:
            j = next((j for j in alike if j not in touched), None)
            if j is None:
                continue
            one = self._jobs[j]
            if one.may_go:
                yield self._with(way, j, GONE)
            if one.may_move:
                for n, free in enumerate(way.free):
                    if free >= one.job.amount and n != self._home[j]:
                        yield self._with(way, j, n)

    def _with(self, way: Way, j: int, to: int) -> Way:
        amount, free = self._jobs[j].job.amount, list(way.free)
        free[self._home[j]] += amount
        cost, devices, moves = way.spent
        if to == GONE:
            spent = (cost + WHOLE, devices + amount, moves)
        else:
            free[to] -= amount
            spent = (cost + self._move_cost, devices, moves + 1)
        return Way(tuple(free), (*way.touched, (j, to)), spent)

    def _target(self, way: Way) -> int:
        """Where the new job fits, if anywhere: the smallest room that takes it."""
        return min(range(len(way.free)), key=lambda n: (way.free[n] < self._amount, way.free[n], self._nodes[n].name))

    def _least(self, way: Way) -> int | None:
        """What it will cost at least from here; None: it cannot be done."""
        touched = {j for j, _ in way.touched}
        untouched = [[self._jobs[j] for j in there if j not in touched] for there in self._on]
        deletable = sorted((one for there in untouched for one in there if one.may_go), key=_amount, reverse=True)
        deleted = _enough(deletable, self._amount - sum(way.free))
        if deleted is None:
            return None
        bounds = (self._least_on(n, way.free, there, deleted) for n, there in enumerate(untouched))
        return min((bound for bound in bounds if bound is not None), default=None)

    def _least_on(self, n: int, free: Sequence[int], there: Sequence[Movable], deleted: int) -> int | None:
        """The same for room on one node, if so many jobs have to be deleted anywhere."""
        there = [one for one in there if one.may_go or one.may_move]
        leaving = _enough(there, self._amount - free[n])
        if not leaving:
            return leaving
        # As many leave as if they were the largest, and cost as much as if they were the cheapest.
        cost = sum(sorted(self._move_cost if one.may_move else WHOLE for one in there)[:leaving])
        least = max(cost, self._touching(leaving, deleted))
        widest = max((room for m, room in enumerate(free) if m != n), default=0)
        if any(one.may_move and one.job.amount <= widest for one in there):
            return least
        # Who moves fits nowhere yet, so that one more has to leave somewhere: unless all who leave are deleted.
        more = max(cost + self._move_cost, self._touching(leaving + 1, deleted))
        deletable = sum(one.may_go for one in there) >= leaving
        return max(least, min(more, leaving * WHOLE)) if deletable else more

    def _touching(self, jobs: int, deleted: int) -> int:
        """What it costs at least to touch so many jobs if so many have to be deleted."""
        return deleted * WHOLE + max(0, jobs - deleted) * self._move_cost

    def _ties(self, way: Way) -> tuple[object, ...]:
        """What is compared of ways: what they cost, how new the jobs are, what they are called, where they go."""
        deleted = sorted(-self._jobs[j].job.number for j, to in way.touched if to == GONE)
        moved = sorted(-self._jobs[j].job.number for j, to in way.touched if to != GONE)
        names = sorted((self._jobs[j].job.id, self._nodes[to].name) for j, to in way.touched if to != GONE)
        return way.spent, deleted, moved, names

    def _found(self, way: Way, *, best: bool) -> Found:
        deleted = [self._step(Kind.DELETE, j) for j, to in way.touched if to == GONE]
        moved = [self._step(Kind.MOVE, j, self._nodes[to].name) for j, to in way.touched if to != GONE]
        return Found((*deleted, *moved), self._nodes[self._target(way)].name, best)

    def _step(self, kind: Kind, j: int, node: str = "") -> Step:
        job = self._jobs[j].job
        return Step(kind, job.id, job.amount, node)


def _amount(one: Movable) -> int:
    return one.job.amount


def _enough(jobs: Sequence[Movable], missing: int) -> int | None:
    """How many of these, in their order, amount to what is missing; None: not even all."""
    for taken, one in enumerate(jobs):
        if missing <= 0:
            return taken
        missing -= one.job.amount
    return len(jobs) if missing <= 0 else None
