"""Makes room for a job by moving others, and by deleting jobs that may be: at the least cost.

A job that stays is worth 1, a moved one its portability, a deleted one nothing; the plan that keeps the most is taken.
Of equals the one that deletes the fewest devices, then moves the fewest jobs, then touches the newest, then by name.

    start ──move a job to where it fits now──▶ ┐        a job is touched once at most; which ones, and where they are,
          ──delete one that may be──────────▶  ├─▶ …    is the whole of a state, so ways that end alike are one
                                               ┘ until the new one fits somewhere

First an easy way is looked for: to clear a node job by job. Then a better one, best first (A*): states are taken up by
what they have cost and will still cost at least, until no other can be better than the best that was found. Its moves
can be done in the order in which they were found; two jobs that could only change places are never found. A large site
can have too many states: the search ends when its patience does, and the best way so far is taken.

Decided in docs/decisions.md: "Room for a job with a budget is found by a search of our own".
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import chain, count, groupby
from typing import NamedTuple

from gpuyard.engine.budgets.books import Job, Kind, Node, Step

WHOLE = 1000
"""What a job that stays is worth; portability is given in these."""

GONE = -1
"""In the place of a node: the job is deleted."""


HELPERS = 8
"""Nodes that are tried to clear for a job that has to leave another."""


class Movable(NamedTuple):
    """A job, and what may be done with it."""

    job: Job
    may_go: bool
    may_move: bool


class Spent(NamedTuple):
    """What is compared first."""

    cost: int = 0
    devices: int = 0
    """Of the deleted jobs."""
    moves: int = 0


class Way(NamedTuple):
    """A state of the search: what was done so far, in its order, and what is free now."""

    free: tuple[int, ...]
    touched: tuple[tuple[int, int], ...] = ()
    """Job and the node that it was moved to, or `GONE`, by number."""
    spent: Spent = Spent()


class Found(NamedTuple):
    """The steps that make room, and where."""

    steps: tuple[Step, ...]
    node: str


class Answer(NamedTuple):
    """What the search found, if anything."""

    found: Found | None
    sure: bool
    """Whether all was looked at: there is none better, or none at all."""


class Reshuffle:
    """One search for room for one job; the nodes have different names, and every job is on one of them."""

    def __init__(self, nodes: Sequence[Node], jobs: Sequence[Movable], amount: int, portability: int) -> None:
        self._nodes = nodes
        self._jobs = sorted(jobs, key=lambda one: (-one.job.amount, one.may_go, one.may_move, _newest_first(one.job)))
        self._amount = amount
        self._move_cost = WHOLE - portability
        number = {node.name: n for n, node in enumerate(nodes)}
        self._home = [number[one.job.node] for one in self._jobs]
        self._on = [[j for j, home in enumerate(self._home) if home == n] for n in range(len(nodes))]
        self._loose = [sum(self._jobs[j].job.amount for j in there if self._jobs[j].may_go) for there in self._on]
        self._alike = [list(some) for _, some in groupby(chain(*self._on), key=self._kind)]

    def search(self, patience: int) -> Answer:
        """The best way to make room; it costs time for as many looks at a node as there is patience."""
        start = Way(tuple(self._free()))
        best, sure = self._better(start, self._easiest(start), patience)
        return Answer(self._found(best) if best else None, sure)

    def _free(self) -> Iterator[int]:
        for node, there in zip(self._nodes, self._on, strict=True):
            yield node.amount - sum(self._jobs[j].job.amount for j in there)

    def _kind(self, j: int) -> tuple[object, ...]:
        """Jobs for which this is the same can stand in for each other."""
        one = self._jobs[j]
        return self._home[j], one.job.amount, one.may_go, one.may_move

    # --- an easy way

    def _easiest(self, start: Way) -> Way | None:
        """The best of the ways that clear one node, job by job, if one does."""
        ways = (
            self._cleared(start, n, self._amount, {n}, helped=h) for n in range(len(self._nodes)) for h in (False, True)
        )
        return min((way for way in ways if self._fits(way)), key=self._worth, default=None)

    def _cleared(self, way: Way, n: int, amount: int, closed: AbstractSet[int], *, helped: bool) -> Way:
        """Send jobs away, the largest first, until there is room for so much; none of them to a node that is closed."""
        for j in self._on[n]:
            if way.free[n] >= amount:
                break
            if all(j != other for other, _ in way.touched):
                way = self._sent_away(way, j, closed) or (self._helped(way, j, closed) if helped else None) or way
        return way

    def _sent_away(self, way: Way, j: int, closed: AbstractSet[int]) -> Way | None:
        """A job moves where it fits best, or it is deleted, if either may be."""
        one = self._jobs[j]
        rooms = [(free, n) for n, free in enumerate(way.free) if free >= one.job.amount and n not in closed]
        if rooms and one.may_move:
            return self._with(way, j, min(rooms)[1])
        return self._with(way, j, GONE) if one.may_go else None

    def _helped(self, way: Way, j: int, closed: AbstractSet[int]) -> Way | None:
        """A job moves to a node that is cleared for it, without any more help, if that can be."""
        amount = self._jobs[j].job.amount
        if not self._jobs[j].may_move:
            return None
        ways = (
            (n, self._cleared(way, n, amount, {*closed, n}, helped=False)) for n in self._nearest(way, amount, closed)
        )
        cleared = [(after.spent, n, after) for n, after in ways if after.free[n] >= amount]
        if not cleared:
            return None
        _, n, after = min(cleared)
        return self._with(after, j, n)

    def _nearest(self, way: Way, amount: int, closed: AbstractSet[int]) -> list[int]:
        """A few nodes that are likely to be cleared for so much: much is free there, or may be by deletions."""
        others = [n for n in range(len(self._nodes)) if n not in closed]
        by_room = sorted(others, key=lambda n: -way.free[n])
        by_deletions = sorted(others, key=lambda n: way.free[n] + self._loose[n] < amount)
        return list(dict.fromkeys((*by_room[:HELPERS], *by_deletions[:HELPERS])))

    # --- a better one

    def _better(self, start: Way, best: Way | None, patience: int) -> tuple[Way | None, bool]:
        """The best way there is, and whether that is sure."""
        order = count()
        heap = [(start.spent, next(order), start)]
        seen: set[frozenset[tuple[int, int]]] = set()
        while heap and not (best and heap[0][0] > best.spent):
            for after in self._next(heappop(heap)[2]):
                if self._fits(after):
                    best = min(best or after, after, key=self._worth)
                elif self._may_win(after, best) and (done := frozenset(after.touched)) not in seen:
                    seen.add(done)
                    patience -= len(self._nodes)
                    if patience < 0:
                        return best, False
                    left = self._least(after)
                    if left is not None:
                        heappush(heap, (after.spent._replace(cost=after.spent.cost + left), next(order), after))
        return best, True

    def _may_win(self, way: Way, best: Way | None) -> bool:
        """Whether a way that is not at its end could still be better: one more job at least has to be touched."""
        return best is None or way.spent.cost + self._move_cost <= best.spent.cost

    def _fits(self, way: Way) -> bool:
        return max(way.free) >= self._amount

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
            spent = Spent(cost + WHOLE, devices + amount, moves)
        else:
            free[to] -= amount
            spent = Spent(cost + self._move_cost, devices, moves + 1)
        return Way(tuple(free), (*way.touched, (j, to)), spent)

    # --- what it will cost at least

    def _least(self, way: Way) -> int | None:
        """What it will cost at least from here; None: it cannot be done."""
        touched = {j for j, _ in way.touched}
        untouched = [[self._jobs[j] for j in there if j not in touched] for there in self._on]
        deletable = (one for j, one in enumerate(self._jobs) if one.may_go and j not in touched)
        deleted = _enough(list(deletable), self._amount - sum(max(0, free) for free in way.free))
        if deleted is None:
            return None
        bounds = (self._least_on(n, way.free, there, deleted) for n, there in enumerate(untouched))
        return min((bound for bound in bounds if bound is not None), default=None)

    def _least_on(self, n: int, free: Sequence[int], there: Sequence[Movable], deleted: int) -> int | None:
        """The same for room on one node, if so many jobs have to be deleted anywhere."""
        there = [one for one in there if one.may_go or one.may_move]
        leaving = _enough(there, self._amount - free[n])
        if leaving is None:
            return None
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

    # --- what is told

    def _worth(self, way: Way) -> tuple[object, ...]:
        """What is compared of ways: what they cost, how new the jobs are, what they are called, where they go."""
        deleted = sorted(_newest_first(self._jobs[j].job) for j, to in way.touched if to == GONE)
        moved = sorted((*_newest_first(self._jobs[j].job), self._nodes[to].name) for j, to in way.touched if to != GONE)
        news = [one[0] for one in deleted], [one[0] for one in moved]
        return way.spent, news, [one[1:] for one in deleted], [one[1:] for one in moved]

    def _found(self, way: Way) -> Found:
        """First what is deleted, which leaves more room to those who move; in the end one node has room."""
        deleted = [self._step(Kind.DELETE, j) for j, to in way.touched if to == GONE]
        moved = [self._step(Kind.MOVE, j, self._nodes[to].name) for j, to in way.touched if to != GONE]
        return Found(
            (*deleted, *moved),
            next(node.name for node, free in zip(self._nodes, way.free, strict=True) if free >= self._amount),
        )

    def _step(self, kind: Kind, j: int, node: str = "") -> Step:
        job = self._jobs[j].job
        return Step(kind, job.id, job.amount, node)


def _newest_first(job: Job) -> tuple[int, str, str]:
    return -job.number, *job.id


def _enough(jobs: Sequence[Movable], missing: int) -> int | None:
    """How many of these, in their order, amount to what is missing; None: not even all."""
    for taken, one in enumerate(jobs):
        if missing <= 0:
            return taken
        missing -= one.job.amount
    return len(jobs) if missing <= 0 else None
