"""The books of the budgets policy: the nodes with their devices, each team's budget, and the jobs that run.

Nothing here knows Kubernetes. A node has devices of one type; a budget is for one team and one type, and who has none
has 0. Amounts are milli-GPUs, so ten tenths are one device.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Device(StrEnum):
    """The type of a node's devices: a world of its own, with budgets of its own."""

    EXTRA_SMALL = "EXTRA_SMALL"
    SMALL = "SMALL"
    MEDIUM = "MEDIUM"
    LARGE = "LARGE"
    EXTRA_LARGE = "EXTRA_LARGE"


class JobId(NamedTuple):
    """A job's name is its own only within its team."""

    team: str
    name: str

    def __str__(self) -> str:
        return f"{self.team}____{self.name}"


class Node(msgspec.Struct, frozen=True):
    """A node and what all its devices amount to."""

    name: str
    amount: int
    device: Device = Device.MEDIUM


class Budget(msgspec.Struct, frozen=True):
    """What a team may use of one type even when there is no room; beyond it, it only borrows."""

    team: str
    amount: int
    device: Device = Device.MEDIUM


class Job(msgspec.Struct, frozen=True):
    """A job that runs."""

    id: JobId
    node: str
    amount: int
    number: int = 0
    """Counts up: the larger, the newer."""
    priority: bool = False
    """Never deleted for others."""


class Kind(StrEnum):
    """What is to be done with a job, in the order in which it is done."""

    DELETE = "DeleteJob"
    MOVE = "MoveJob"
    CREATE = "CreateJob"


class Step(NamedTuple):
    """One thing to be done with one job; done in their order, the steps of a decision fit at each moment."""

    kind: Kind
    job: JobId
    amount: int
    node: str = ""
    """Where it is created, or moved to."""


class Books(msgspec.Struct, frozen=True):
    """All that a decision is made of. Never changed: a change gives other books."""

    nodes: tuple[Node, ...] = ()
    budgets: tuple[Budget, ...] = ()
    jobs: tuple[Job, ...] = ()
    """The oldest first."""
    begun: int = 0
    """How many jobs were created so far."""

    def of_type(self, device: Device) -> "Books":
        """The part that is about one type of devices."""
        nodes = tuple(node for node in self.nodes if node.device is device)
        names = {node.name for node in nodes}
        return Books(
            nodes,
            tuple(budget for budget in self.budgets if budget.device is device),
            tuple(job for job in self.jobs if job.node in names),
            self.begun,
        )

    def find(self, job: JobId) -> Job | None:
        """The job of that name, if it runs."""
        return next((one for one in self.jobs if one.id == job), None)

    def free(self) -> dict[str, int]:
        """What is free on each node."""
        used = _sums((job.node, job.amount) for job in self.jobs)
        return {node.name: node.amount - used[node.name] for node in self.nodes}

    def used(self) -> Counter[str]:
        """What each team uses."""
        return _sums((job.id.team, job.amount) for job in self.jobs)

    def allowed(self) -> Counter[str]:
        """What each team may use; 0 without a budget."""
        return _sums((budget.team, budget.amount) for budget in self.budgets)

    def ended(self, job: JobId) -> "Books":
        """Without that job; the same books if there is none."""
        return self._with(one for one in self.jobs if one.id != job)

    def marked(self, job: JobId, *, priority: bool) -> "Books":
        """With that job's priority set or taken away."""
        return self._changed(job, priority=priority)

    def after(self, steps: Iterable[Step]) -> "Books":
        """With these steps done."""
        books = self
        for step in steps:
            books = books._done(step)
        return books

    def _done(self, step: Step) -> "Books":
        if step.kind is Kind.DELETE:
            return self.ended(step.job)
        if step.kind is Kind.MOVE:
            return self._changed(step.job, node=step.node)
        job = Job(step.job, step.node, step.amount, self.begun)
        return msgspec.structs.replace(self, jobs=(*self.jobs, job), begun=self.begun + 1)

    def _changed(self, job: JobId, **what: object) -> "Books":
        return self._with(msgspec.structs.replace(one, **what) if one.id == job else one for one in self.jobs)

    def _with(self, jobs: Iterable[Job]) -> "Books":
        return msgspec.structs.replace(self, jobs=tuple(jobs))


def _sums(parts: Iterable[tuple[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for name, amount in parts:
        total[name] += amount
    return total
