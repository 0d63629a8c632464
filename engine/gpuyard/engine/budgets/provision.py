"""Decides whether a job may run, where, and what has to be done before: the budgets policy.

    free room on a node? ──yes──▶ there, whatever the team's budget is: the smallest room that takes the job
        │ no
    within the budget of its team? ──no──▶ `NoBudget`
        │ yes
    room by moving jobs, and by deleting jobs of teams over their budget? ──yes──▶ there, after these
        │ no
        └──▶ `NoPlace`

Books go in, and with a yes the books come out as they are once all is done.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import msgspec
from gpuyard.engine.budgets.books import Books, Device, JobId, Kind, Step
from gpuyard.engine.budgets.reshuffle import WHOLE, Movable, Reshuffle


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What may be chosen."""

    portability: int = 700
    """What a moved job is worth, of the `WHOLE` that one is that stays."""
    move_priority_jobs: bool = True
    patience: int = 100_000
    """Looks at a node, half a second to one: then the search is content with the best that it has found."""

    def __post_init__(self) -> None:
        """Refuse what no search can work with."""
        if not 0 < self.portability <= WHOLE:
            raise ValueError(f"portability {self.portability} is not within 1 and {WHOLE}")


class Request(NamedTuple):
    """A job that is to run."""

    job: JobId
    amount: int
    device: Device = Device.MEDIUM


class Cause(Enum):
    """Why a job has no place although its team has the budget."""

    TOO_LARGE = "no node of this type is so large"
    PROTECTED = "the jobs of teams over their budget have priority"
    OVERSOLD = "all budgets for this type together are more than its devices, and no team is over its own by enough"
    FRAGMENTED = "there is room in parts, and what runs there can neither be moved so that they meet nor be deleted"
    UNDECIDED = "no easy way was found, and there are too many to try all"


class Provided(NamedTuple):
    """The job may run."""

    steps: tuple[Step, ...]
    """To be done in this order; the job's own creation is the last."""
    books: Books
    """As they are once all is done."""
    below: Mapping[str, int] = {}
    """Teams from which more was taken than they were over their budget: how much they are below it now."""
    best: bool = True
    """Whether no other way keeps more for certain."""


class NoBudget(NamedTuple):
    """There is no room, and the team may not have others make any."""

    request: Request
    used: int
    allowed: int


class NoPlace(NamedTuple):
    """The team has the budget, but there is no way to make room."""

    request: Request
    cause: Cause


def provision(books: Books, request: Request, rules: Rules) -> Provided | NoBudget | NoPlace:
    """Decide about a job. One that runs already is left as it is: nothing is to be done."""
    if books.find(request.job):
        return Provided((), books)
    world = books.of_type(request.device)
    room = [(free, name) for name, free in world.free().items() if free >= request.amount]
    if room:
        return _provided(books, request, (), min(room)[1])
    team = request.job.team
    used, allowed = world.used()[team], world.allowed()[team]
    if used + request.amount > allowed:
        return NoBudget(request, used, allowed)
    return _with_room_made(books, world, request, rules)


def _with_room_made(books: Books, world: Books, request: Request, rules: Rules) -> Provided | NoPlace:
    """By the search, where it is not plain that there is no way."""
    if request.amount > max((node.amount for node in world.nodes), default=0):
        return NoPlace(request, Cause.TOO_LARGE)
    jobs = _movable(world, rules)
    room = sum(max(0, free) for free in world.free().values())
    if request.amount > room + sum(one.job.amount for one in jobs if one.may_go):
        return NoPlace(request, _shortage(world, request.amount - room))
    found, sure = Reshuffle(world.nodes, jobs, request.amount, rules.portability).search(rules.patience)
    if found is None:
        return NoPlace(request, Cause.FRAGMENTED if sure else Cause.UNDECIDED)
    provided = _provided(books, request, found.steps, found.node)
    return provided._replace(below=_below(world, found.steps), best=sure)


def _provided(books: Books, request: Request, before: tuple[Step, ...], node: str) -> Provided:
    steps = (*before, Step(Kind.CREATE, request.job, request.amount, node))
    return Provided(steps, books.after(steps))


def _movable(world: Books, rules: Rules) -> list[Movable]:
    """What may be done with each job: only who is over the budget gives jobs away, and never one with priority."""
    over, nodes = _over(world), {node.name for node in world.nodes}
    return [
        Movable(
            job,
            may_go=job.id.team in over and not job.priority,
            may_move=rules.move_priority_jobs or not job.priority,
        )
        for job in world.jobs
        if job.node in nodes
    ]


def _over(world: Books) -> set[str]:
    allowed = world.allowed()
    return {team for team, used in world.used().items() if used > allowed[team]}


def _shortage(world: Books, missing: int) -> Cause:
    """Whose jobs are not to be touched, where all that may be is not enough."""
    over = _over(world)
    borrowed = sum(job.amount for job in world.jobs if job.id.team in over)
    return Cause.PROTECTED if borrowed >= missing else Cause.OVERSOLD


def _below(world: Books, steps: tuple[Step, ...]) -> dict[str, int]:
    """A job is deleted whole, so that a team may lose more than it was over."""
    teams = sorted({step.job.team for step in steps if step.kind is Kind.DELETE})
    used, allowed = world.after(steps).used(), world.allowed()
    return {team: allowed[team] - used[team] for team in teams if used[team] < allowed[team]}
