"""The three calls: what they answer, what they refuse, and that the books are never half written."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import msgspec
import pytest
from gpuyard.engine.budgets.books import Books, Budget, Device, Job, JobId, Node
from gpuyard.engine.budgets.provision import Cause, Provided
from gpuyard.job_api.manager import (
    Action,
    CreateJob,
    DeleteJob,
    JobManager,
    MemoryStore,
    MoveJob,
    NoAvailableBudgetError,
    NoPlacementError,
    UnknownJobError,
    milli,
)

README = Path(__file__).parents[2] / "job-api" / "README.md"


def site(nodes: int = 1, **budgets: int) -> MemoryStore:
    """Nodes of 10 devices, and each team's budget."""
    return MemoryStore(
        Books(
            tuple(Node(f"machine {number}", 10_000) for number in range(1, nodes + 1)),
            tuple(Budget(team, amount * 1000) for team, amount in budgets.items()),
        )
    )


def job(text: str) -> JobId:
    team, _, name = text.partition("/")
    return JobId(team, name)


def with_jobs(store: MemoryStore, *some: str, amount: float = 3.0) -> JobManager:
    manager = JobManager(store)
    for text in some:
        manager.try_provision_resources(job(text), amount)
    return manager


def borrowed() -> MemoryStore:
    """Team B uses 9 of 10 devices and has a budget of 4."""
    store = site(A=10, B=4)
    with_jobs(store, "B/1", "B/2", "B/3")
    return store


def dump(store: MemoryStore) -> bytes:
    return msgspec.json.encode(store.read())


# --- what is to be done


def test_a_job_that_fits_is_created() -> None:
    made = JobManager(site()).try_provision_resources(job("A/1"), 3.0)
    assert made == [CreateJob("machine 1", job("A/1"), 3.0)]


def test_who_makes_room_goes_first() -> None:
    made = JobManager(borrowed()).try_provision_resources(job("A/1"), 3.0)
    assert made == [DeleteJob(job("B/3")), CreateJob("machine 1", job("A/1"), 3.0)]


def test_who_moves_is_told_where() -> None:
    manager = with_jobs(site(2, A=10, B=10), "B/1", "B/2", "B/3", "B/4", amount=4.0)
    manager.job_ended(job("B/2"))
    manager.job_ended(job("B/4"))
    made = manager.try_provision_resources(job("A/1"), 10)
    assert made == [MoveJob("machine 1", job("B/3"), 4.0), CreateJob("machine 2", job("A/1"), 10.0)]


def test_a_job_that_runs_already_needs_nothing() -> None:
    store = borrowed()
    before = dump(store)
    assert JobManager(store).try_provision_resources(job("B/1"), 3.0) == []
    assert dump(store) == before


def test_an_action_names_its_kind_in_json() -> None:
    made = JobManager(site()).try_provision_resources(job("A/1"), 0.5)
    text = msgspec.json.encode(made)
    assert text == b'[{"type":"CreateJob","node":"machine 1","job":["A","1"],"amount":0.5}]'
    assert msgspec.json.decode(text, type=list[Action]) == made


@pytest.mark.parametrize(("portability", "first"), [(0.7, MoveJob), (0.4, DeleteJob)])
def test_what_a_moved_job_is_worth_can_be_chosen(portability: float, first: type[Action]) -> None:
    """Two jobs of one device move into two holes, or one of two devices, of a team over its budget, goes."""
    nodes = (Node("m1", 2000), Node("m2", 2000), Node("hole-1", 1000), Node("hole-2", 1000))
    jobs = (Job(job("B/1"), "m1", 1000), Job(job("B/2"), "m1", 1000), Job(job("C/1"), "m2", 2000))
    store = MemoryStore(Books(nodes, (Budget("A", 2000), Budget("B", 2000)), jobs))
    made = JobManager(store, job_portability=portability).try_provision_resources(job("A/1"), 2)
    assert isinstance(made[0], first)


def test_priority_jobs_can_be_kept_from_moving() -> None:
    store = site(2, A=10, B=10)
    manager = JobManager(store, move_priority_jobs=False)
    for text, amount in (("B/1", 6), ("B/2", 6), ("B/3", 3)):
        manager.try_provision_resources(job(text), amount)
    for text in ("B/1", "B/2", "B/3"):
        manager.mark_job_priority(job(text), True)
    with pytest.raises(NoPlacementError):
        manager.try_provision_resources(job("A/1"), 5)


def test_whoever_asks_is_told_more_of_a_decision() -> None:
    told: list[Provided] = []
    store = site(A=10, B=8)
    with_jobs(store, "B/1", amount=10)
    JobManager(store, told=told.append).try_provision_resources(job("A/1"), 3.0)
    assert [(decision.below, decision.best) for decision in told] == [({"B": 8000}, True)]


# --- what is refused


@pytest.mark.parametrize("amount", [0.0, -1.0, 0.0001, 1.00001, 10000000.0001, float("nan"), float("inf")])
def test_an_amount_that_cannot_be_meant_is_refused(amount: float) -> None:
    store = site()
    before = dump(store)
    with pytest.raises(ValueError, match=re.escape(f"amount {amount}: a positive number of GPUs")):
        JobManager(store).try_provision_resources(job("A/1"), amount)
    assert dump(store) == before


@pytest.mark.parametrize("amount", [1e308, 10**400])
def test_an_amount_beyond_all_nodes_is_meant_all_the_same(amount: float) -> None:
    with pytest.raises(NoAvailableBudgetError):
        JobManager(site()).try_provision_resources(job("A/1"), amount)


@pytest.mark.row("V-21", case="out-of-range")
@pytest.mark.parametrize("portability", [0.0, -0.1, 1.001, 700, 0.0004, float("nan")])
def test_a_portability_that_cannot_be_meant_is_refused(portability: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"jobPortability {portability}: a number above 0, at most 1")):
        JobManager(site(), job_portability=portability)


@pytest.mark.parametrize("text", ["/1", "A/", "A____B/1", "A/1____2", "A_/1", "A/_1"])
def test_a_job_whose_text_could_be_anothers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="four underscores"):
        JobManager(site()).try_provision_resources(job(text), 1)


@pytest.mark.parametrize(
    ("amount", "found"), [(0.1, 100), (0.1 + 0.2, 300), (2, 2000), (1.005, 1005), (0.001, 1), (1234567.001, 1234567001)]
)
def test_amounts_become_whole_thousandths(amount: float, found: int) -> None:
    assert milli(amount) == found


def test_a_team_over_its_budget_is_told_the_figures() -> None:
    store = borrowed()
    before = dump(store)
    words = (
        "team B would be over budget: it uses 9 of its 4 MEDIUM GPUs, "
        "job B____4 asks 1.5 more, and no node has 1.5 free"
    )
    with pytest.raises(NoAvailableBudgetError, match=f"^{words}$"):
        JobManager(store).try_provision_resources(job("B/4"), 1.5)
    assert dump(store) == before


def test_the_budget_of_another_type_is_no_help() -> None:
    with pytest.raises(NoAvailableBudgetError, match="it has no budget for LARGE GPUs"):
        JobManager(site(A=10)).try_provision_resources(job("A/1"), 1, Device.LARGE)


@pytest.mark.row("V-10")
def test_a_team_that_has_the_budget_is_told_why_there_is_no_place() -> None:
    store = borrowed()
    manager = JobManager(store)
    for number in (1, 2, 3):
        manager.mark_job_priority(job(f"B/{number}"), True)
    before = dump(store)
    with pytest.raises(
        NoPlacementError, match="cannot place although the team has budget: job A____1 asks 3 MEDIUM"
    ) as why:
        manager.try_provision_resources(job("A/1"), 3.0)
    assert why.value.refusal.cause is Cause.PROTECTED
    assert dump(store) == before


# --- ends and priorities


def test_the_end_of_a_job_frees_its_room() -> None:
    manager = with_jobs(site(), "A/1", amount=10)
    manager.job_ended(job("A/1"))
    assert manager.try_provision_resources(job("B/1"), 10) == [CreateJob("machine 1", job("B/1"), 10.0)]


@pytest.mark.row("V-26")
@pytest.mark.parametrize("ended", ["A/unknown", "A/1"])
def test_the_end_of_a_job_that_does_not_run_is_harmless(ended: str) -> None:
    store = site()
    manager = with_jobs(store, "A/1", "A/2")
    manager.job_ended(job("A/1"))
    before = dump(store)
    manager.job_ended(job(ended))
    assert dump(store) == before


@pytest.mark.row("V-27")
def test_priority_for_a_job_that_does_not_run_is_not_found() -> None:
    with pytest.raises(UnknownJobError, match="no job A____1 runs"):
        JobManager(site()).mark_job_priority(job("A/1"), True)


@pytest.mark.row("V-11")
def test_priority_is_given_and_taken_away() -> None:
    manager = JobManager(borrowed())
    manager.mark_job_priority(job("B/3"), True)
    manager.mark_job_priority(job("B/2"), True)
    manager.mark_job_priority(job("B/2"), False)
    assert manager.try_provision_resources(job("A/1"), 3.0)[0] == DeleteJob(job("B/2"))


# --- one step, or none


CALLS = [
    pytest.param(lambda manager: manager.try_provision_resources(job("A/1"), 3.0), id="provision"),
    pytest.param(lambda manager: manager.job_ended(job("B/1")), id="ended"),
    pytest.param(lambda manager: manager.mark_job_priority(job("B/1"), True), id="priority"),
]


class Failing(MemoryStore):
    """Raises at the call of that number, from 0."""

    def __init__(self, books: Books, at: int) -> None:
        super().__init__(books)
        self._left = at

    @property
    def calls_left(self) -> int:
        return self._left

    def _called(self) -> None:
        self._left -= 1
        if self._left == -1:
            raise OSError("the store is away")

    def read(self) -> Books:
        self._called()
        return super().read()

    def write(self, books: Books) -> None:
        self._called()
        super().write(books)


@pytest.mark.row("V-29")
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("call", CALLS)
def test_a_fault_at_any_step_leaves_the_books_as_they_were(at: int, call: Callable[[JobManager], object]) -> None:
    before = borrowed().read()
    store = Failing(before, at)
    manager = JobManager(store)
    with pytest.raises(OSError, match="the store is away"):
        call(manager)
    assert dump(store) == msgspec.json.encode(before)
    call(manager)
    assert dump(store) != msgspec.json.encode(before)


@pytest.mark.row("V-29")
@pytest.mark.parametrize("call", CALLS)
def test_there_are_no_more_steps_than_these_two(call: Callable[[JobManager], object]) -> None:
    store = Failing(borrowed().read(), at=2)
    call(JobManager(store))
    assert store.calls_left == 0


class Slow(MemoryStore):
    """Takes its time to read: without turns everybody would decide by the same books."""

    def read(self) -> Books:
        books = super().read()
        time.sleep(0.05)
        return books


@pytest.mark.row("V-30")
def test_of_two_at_once_for_the_last_room_one_gets_it() -> None:
    store = Slow(site(A=10, B=10, C=10).read())
    manager = with_jobs(store, "A/1", amount=7)
    start = Barrier(2)

    def ask(team: str) -> list[Action] | Exception:
        start.wait()
        try:
            return manager.try_provision_resources(JobId(team, "last"), 3.0)
        except NoPlacementError as why:
            return why

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, ["B", "C"]))
    assert sum(isinstance(answer, list) for answer in answers) == 1
    assert store.read().free() == {"machine 1": 0}


def test_an_end_that_comes_while_another_job_is_decided_about_is_not_lost() -> None:
    store = Slow(site(A=10).read())
    manager = with_jobs(store, "A/1", "A/2", amount=2)
    start = Barrier(2)

    def after_the_start(call: Callable[[], object]) -> None:
        start.wait()
        call()

    with ThreadPoolExecutor(2) as pool:
        calls = (lambda: manager.job_ended(job("A/1")), lambda: manager.try_provision_resources(job("A/3"), 2))
        list(pool.map(after_the_start, calls))
    assert sorted(str(one.id) for one in store.read().jobs) == ["A____2", "A____3"]


# --- what it needs, and what it leaves out


@pytest.mark.row("V-33")
def test_neither_the_rules_nor_the_calls_need_kubernetes() -> None:
    code = "import sys, gpuyard.job_api.manager; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"kubernetes_asyncio", "aiohttp", "grpc", "yaml"}.isdisjoint(done.stdout.split())


@pytest.mark.row("V-34")
def test_that_jobs_started_by_cron_are_out_of_scope_is_said() -> None:
    assert "Out of scope: jobs that are started by cron." in README.read_text()


def test_the_example_in_the_readme_does_what_it_says() -> None:
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, object] = {}
    exec(code.group(1), names)  # noqa: S102 - our own README
    assert names["actions"] == [DeleteJob(job("B/two")), CreateJob("machine 1", job("A/train"), 3.0)]
