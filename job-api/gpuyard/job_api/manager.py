"""The three calls about GPU jobs: may this one run, and what has to be done before; it has ended; spare it.

The rules are the engine's (`gpuyard.engine.budgets`). Who calls carries the actions out, in their order; the manager
only keeps the books. A decision and its bookkeeping are one step: two calls at once take turns, and a store that fails
leaves the books as they were.
"""

import math
from collections.abc import Callable
from threading import Lock
from typing import Protocol

import msgspec
from gpuyard.engine.budgets.books import Books, Device, JobId, Kind, Step
from gpuyard.engine.budgets.provision import NoBudget, NoPlace, Provided, Request, Rules, provision

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
        request, team = refusal.request, refusal.request.job.team
        super().__init__(
            f"team {team} would be over its budget: {_gpus(refusal.used)} of {_gpus(refusal.allowed)} "
            f"{request.device} GPUs are in use, job {request.job} asks {_gpus(request.amount)} more, "
            "and no node has so many free"
        )
        self.refusal = refusal


class NoPlacementError(Exception):
    """The team has the budget, but no room can be made."""

    def __init__(self, refusal: NoPlace) -> None:
        request = refusal.request
        super().__init__(
            f"cannot place job {request.job} of {_gpus(request.amount)} {request.device} GPUs "
            f"although team {request.job.team} has the budget: {refusal.cause.value}"
        )
        self.refusal = refusal


class UnknownJobError(LookupError):
    """No job of that name runs."""

    def __init__(self, job: JobId) -> None:
        super().__init__(f"no job {job} runs")


class JobManager:
    """Decides about jobs, one call at a time."""

    def __init__(self, store: Store, rules: Rules | None = None) -> None:
        self._store = store
        self._rules = rules or Rules()
        self._turn = Lock()

    def try_provision_resources(self, job: JobId, amount: float, device: Device = Device.MEDIUM) -> list[Action]:
        """What has to be done, in this order, so that the job runs; nothing if it runs already.

        Raises `NoAvailableBudgetError`, `NoPlacementError`, or `ValueError` for an amount that cannot be meant.
        """
        request = Request(job, milli(amount), device)
        with self._turn:
            answer = provision(self._store.read(), request, self._rules)
            if isinstance(answer, Provided):
                self._store.write(answer.books)
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


def milli(amount: float) -> int:
    """So many GPUs in thousandths; raises `ValueError` where that is no positive whole number."""
    found = round(amount * MILLI) if math.isfinite(amount) else 0
    if found <= 0 or not math.isclose(found, amount * MILLI):
        raise ValueError(f"amount {amount}: a positive number of GPUs with at most three decimal places is meant")
    return found


def _gpus(amount: int) -> str:
    return f"{amount / MILLI:g}"


def _action(step: Step) -> Action:
    if step.kind is Kind.DELETE:
        return DeleteJob(step.job)
    made = CreateJob if step.kind is Kind.CREATE else MoveJob
    return made(step.node, step.job, step.amount / MILLI)
