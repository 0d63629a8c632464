"""The books of the budgets policy: the nodes with their devices, each team's budget, and the jobs that run.

Nothing here knows Kubernetes. A node has devices of one type; a budget is for one team and one type, and who has none
has 0. Amounts are milli-GPUs, so ten tenths are one device.

Decided in docs/decisions.md: "Jobs with budgets have books of their own, not a Snapshot".
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

    def __post_init__(self) -> None:
        """Refuse fewer devices than none."""
        if self.amount < 0:
            raise ValueError(f"node {self.name}: amount {self.amount} is negative")


class Budget(msgspec.Struct, frozen=True):
    """What a team may use of one type even when there is no room; beyond it, it only borrows."""

    team: str
    amount: int
    device: Device = Device.MEDIUM

    def __post_init__(self) -> None:
        """Refuse what would take from the team's other budgets."""
        if self.amount < 0:
            raise ValueError(f"budget of team {self.team}: amount {self.amount} is negative; 0 lets it borrow only")


class Job(msgspec.Struct, frozen=True):
    """A job that runs."""

    id: JobId
    node: str
    amount: int
    device: Device = Device.MEDIUM
    """Of its node: should that be gone, the job still counts in this type's budget."""
    number: int = 0
    """Counts up: the larger, the newer."""
    priority: bool = False
    """Never deleted for others."""

    def __post_init__(self) -> None:
        """Refuse a job that takes nothing: it could be anywhere."""
        if self.amount <= 0:
            raise ValueError(f"job {self.id}: amount {self.amount} is not positive")


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
    begun: int = 0
    """The number of the next job."""

    def __post_init__(self) -> None:
        """Refuse two nodes, or two jobs, of one name: nobody could tell which is meant."""
        for kind, names in (("node", [one.name for one in self.nodes]), ("job", [str(one.id) for one in self.jobs])):
            twice = sorted(name for name, times in Counter(names).items() if times > 1)
            if twice:
                raise ValueError(f"{kind} {twice[0]} is there twice; a name stands for one")

    def of_type(self, device: Device) -> "Books":
        """The part that is about one type of devices."""
        types = {node.name: node.device for node in self.nodes}
        return Books(
            tuple(node for node in self.nodes if node.device is device),
            tuple(budget for budget in self.budgets if budget.device is device),
            tuple(job for job in self.jobs if types.get(job.node, job.device) is device),
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
        device = next(node.device for node in self.nodes if node.name == step.node)
        number = max([self.begun, *(job.number + 1 for job in self.jobs)])
        job = Job(step.job, step.node, step.amount, device, number)
        return msgspec.structs.replace(self, jobs=(*self.jobs, job), begun=number + 1)

    def _changed(self, job: JobId, **what: object) -> "Books":
        return self._with(msgspec.structs.replace(one, **what) if one.id == job else one for one in self.jobs)

    def _with(self, jobs: Iterable[Job]) -> "Books":
        return msgspec.structs.replace(self, jobs=tuple(jobs))


def _sums(parts: Iterable[tuple[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for name, amount in parts:
        total[name] += amount
    return total
