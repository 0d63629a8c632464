"""The three calls about GPU jobs: may this one run, and what has to be done before; it has ended; spare it.

The rules are the engine's (`gpuyard.engine.budgets`). Who calls carries the actions out, in their order; the manager
only keeps the books. A decision and its bookkeeping are one step: two calls at once take turns, and a store that fails
leaves the books as they were.
"""

from collections.abc import Callable
from decimal import Decimal
from threading import Lock
from typing import Protocol

import msgspec
from gpuyard.engine.budgets.books import Books, Device, JobId, Kind, Step
from gpuyard.engine.budgets.provision import NoBudget, NoPlace, Provided, Request, Rules, provision
from gpuyard.engine.budgets.reshuffle import WHOLE

MILLI = 1000
"""The engine counts thousandths of a GPU."""


class Store(Protocol):
    """Where the books are kept. `write` keeps all of them, or raises and keeps those from before."""

    def read(self) -> Books:
        """The books as they were written last."""

    def write(self, books: Books) -> None:
        """Keep these."""


class MemoryStore:
    """Keeps the books as long as the process lives."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def read(self) -> Books:
        """See `Store`."""
        return self._books

    def write(self, books: Books) -> None:
        """See `Store`."""
        self._books = books


# --- what is to be done


class CreateJob(msgspec.Struct, frozen=True, tag=True):
    """Start the job on this node."""

    node: str
    job: JobId
    amount: float


class MoveJob(msgspec.Struct, frozen=True, tag=True):
    """End the job where it runs, and start it on this node."""

    node: str
    job: JobId
    amount: float


class DeleteJob(msgspec.Struct, frozen=True, tag=True):
    """End the job."""

    job: JobId


Action = CreateJob | MoveJob | DeleteJob


# --- what may come instead


class NoAvailableBudgetError(Exception):
    """There is no free room, and the team's budget does not let it have others make any."""

    def __init__(self, refusal: NoBudget) -> None:
        request, amount = refusal.request, _gpus(refusal.request.amount)
        has = f"uses {_gpus(refusal.used)} of its {_gpus(refusal.allowed)}" if refusal.allowed else "has no budget for"
        super().__init__(
            f"team {request.job.team} would be over budget: it {has} {request.device} GPUs, job {request.job} asks "
            f"{amount} more, and no node has {amount} free"
        )
        self.refusal = refusal


class NoPlacementError(Exception):
    """The team has the budget, but no room can be made."""

    def __init__(self, refusal: NoPlace) -> None:
        request = refusal.request
        super().__init__(
            f"cannot place although the team has budget: job {request.job} asks {_gpus(request.amount)} "
            f"{request.device} GPUs, but {refusal.cause.value}"
        )
        self.refusal = refusal


class UnknownJobError(LookupError):
    """No job of that name runs."""

    def __init__(self, job: JobId) -> None:
        super().__init__(f"no job {job} runs")


class JobManager:
    """Decides about jobs, one call at a time.

    `told` hears more of a decision than its actions: who is left below its budget, and whether it is surely the best.
    """

    def __init__(
        self,
        store: Store,
        *,
        job_portability: float = 0.7,
        move_priority_jobs: bool = True,
        told: Callable[[Provided], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._rules = Rules(portability=portability(job_portability), move_priority_jobs=move_priority_jobs)
        self._told = told
        self._turn = Lock()

    def try_provision_resources(self, job: JobId, amount: float, device: Device = Device.MEDIUM) -> list[Action]:
        """What has to be done, in this order, so that the job runs; nothing if it runs already, whatever it asks now.

        Raises `NoAvailableBudgetError`, `NoPlacementError`, or `ValueError` for what cannot be meant.
        """
        request = Request(named(job), milli(amount), device)
        with self._turn:
            answer = provision(self._store.read(), request, self._rules)
            if isinstance(answer, Provided):
                self._store.write(answer.books)
        if isinstance(answer, Provided):
            self._told(answer)
            return [_action(step) for step in answer.steps]
        raise NoAvailableBudgetError(answer) if isinstance(answer, NoBudget) else NoPlacementError(answer)

    def job_ended(self, job: JobId) -> None:
        """Free what the job held. Of a job that does not run this changes nothing."""
        self._change(lambda books: books.ended(job))

    def mark_job_priority(self, job: JobId, priority: bool) -> None:  # noqa: FBT001 - the interface's own argument
        """Never delete the job for others; or do so again. Raises `UnknownJobError`."""

        def marked(books: Books) -> Books:
            if books.find(job) is None:
                raise UnknownJobError(job)
            return books.marked(job, priority=priority)

        self._change(marked)

    def _change(self, change: Callable[[Books], Books]) -> None:
        with self._turn:
            self._store.write(change(self._store.read()))


# --- what is said outside, in the engine's terms


def named(job: JobId) -> JobId:
    """The same; raises `ValueError` where its text, `team____name`, could be another job's, too."""
    team, name = job
    if not team or not name or "____" in team or "____" in name or team.endswith("_") or name.startswith("_"):
        raise ValueError(
            f"job {job}: team and name may not be empty, hold four underscores, or have one where they meet"
        )
    return job


def milli(amount: float) -> int:
    """So many GPUs in thousandths; raises `ValueError` where that is no positive whole number."""
    found = _scaled(amount)
    if found is None or found <= 0:
        raise ValueError(f"amount {amount}: a positive number of GPUs with at most three decimal places is meant")
    return found


def portability(share: float) -> int:
    """What a moved job is worth, in thousandths of one that stays; raises `ValueError`."""
    found = _scaled(share)
    if found is None or not 0 < found <= WHOLE:
        raise ValueError(
            f"jobPortability {share}: a number above 0, at most 1, with at most three decimal places is meant"
        )
    return found


def _scaled(number: float) -> int | None:
    """In thousandths, if that is a whole number; beyond nine places a number is what its sums have left."""
    found = Decimal(str(round(number, 9))) * MILLI
    return int(found) if found.is_finite() and found == found.to_integral_value() else None


def _gpus(amount: int) -> str:
    return f"{Decimal(amount) / MILLI:f}"


def _action(step: Step) -> Action:
    if step.kind is Kind.DELETE:
        return DeleteJob(step.job)
    made = CreateJob if step.kind is Kind.CREATE else MoveJob
    return made(step.node, step.job, step.amount / MILLI)
