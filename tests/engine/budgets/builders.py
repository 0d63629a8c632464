"""Builders for the budgets policy: a site of nodes, budgets and jobs, and what becomes of a request."""

from decimal import Decimal
from typing import Self

from gpuyard.engine.budgets.books import Books, Budget, Device, Job, JobId, Kind, Node, Step
from gpuyard.engine.budgets.provision import NoBudget, NoPlace, Provided, Request, Rules, provision

MEDIUM = Device.MEDIUM
Amount = int | str


def milli(amount: Amount) -> int:
    return int(Decimal(amount) * 1000)


def called(text: str) -> JobId:
    """`B/j1` is the job j1 of team B."""
    team, _, name = text.partition("/")
    return JobId(team, name)


class Site:
    """Nodes, budgets and jobs, given in whole devices or in text; jobs are written `team/name`."""

    def __init__(self) -> None:
        self.books = Books()
        self.rules = Rules()

    def node(self, name: str, amount: Amount = 10, device: Device = MEDIUM) -> Self:
        return self._with(Books((*self.books.nodes, Node(name, milli(amount), device)), *self._rest()))

    def budget(self, team: str, amount: Amount, device: Device = MEDIUM) -> Self:
        nodes, jobs, begun = self.books.nodes, self.books.jobs, self.books.begun
        return self._with(Books(nodes, (*self.books.budgets, Budget(team, milli(amount), device)), jobs, begun))

    def job(self, text: str, node: str, amount: Amount, *, priority: bool = False) -> Self:
        nodes, budgets, begun = self.books.nodes, self.books.budgets, self.books.begun
        job = Job(called(text), node, milli(amount), number=begun, priority=priority)
        return self._with(Books(nodes, budgets, (*self.books.jobs, job), begun + 1))

    def ruled(self, *, portability: int = 700, move_priority_jobs: bool = True, patience: int = 100_000) -> Self:
        self.rules = Rules(portability=portability, move_priority_jobs=move_priority_jobs, patience=patience)
        return self

    def ask(self, text: str, amount: Amount, device: Device = MEDIUM) -> Provided | NoBudget | NoPlace:
        return provision(self.books, Request(called(text), milli(amount), device), self.rules)

    def provided(self, text: str, amount: Amount, device: Device = MEDIUM) -> Provided:
        """What is to be done for a job; from now on it is done."""
        answer = self.ask(text, amount, device)
        assert isinstance(answer, Provided), answer
        self.books = answer.books
        return answer

    def steps(self, text: str, amount: Amount, device: Device = MEDIUM) -> list[str]:
        """The same, in words."""
        return [said(step) for step in self.provided(text, amount, device).steps]

    def running(self) -> list[str]:
        return [f"{job.id.team}/{job.id.name}" for job in self.books.jobs]

    def _rest(self) -> tuple[tuple[Budget, ...], tuple[Job, ...], int]:
        return self.books.budgets, self.books.jobs, self.books.begun

    def _with(self, books: Books) -> Self:
        self.books = books
        return self


def said(step: Step) -> str:
    where = "" if step.kind is Kind.DELETE else f" on {step.node}"
    verb = {Kind.DELETE: "delete", Kind.MOVE: "move", Kind.CREATE: "create"}[step.kind]
    return f"{verb} {step.job.team}/{step.job.name}{where}"


def site() -> Site:
    return Site()
