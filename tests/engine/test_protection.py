"""What keeps a running workload safe."""

from collections.abc import Collection

import pytest
from gpuyard.engine.model import SCALE, State
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.search import protection
from gpuyard.engine.search.evicted_chunks import Chunk
from gpuyard.engine.search.protection import Guard

from tests.engine.builders import MINUTE, NOW, Yard, yard


def running(count: int = 3, **also: object) -> Yard:
    """Workloads `a-1`, `a-2`, … of a pod each that runs."""
    return yard().nodes(1).queue("a").running("a", count, **also)  # type: ignore[arg-type]


class Case:
    """A guard over a yard, asked by workloads' names."""

    def __init__(self, some: Yard, spared: Collection[str] = (), *, honor_budgets: bool = True) -> None:
        self.scratch = some.cycle(phases=()).scratch
        self.guard = Guard(self.scratch, spared, honor_budgets=honor_budgets)

    def chunk(self, *names: str) -> Chunk:
        """All the pods of these workloads as one chunk."""
        pods = tuple(pod for name in names for pod in self.scratch.team(f"ns/{name}").pods)
        return Chunk(f"ns/{names[0]}", pods, tuple(map(self.scratch.place, pods)))

    def affordable(self, *chunks: Chunk) -> list[str]:
        """The pods of the chunks that may go, by name."""
        return [pod.key.removeprefix("ns/") for chunk in self.guard.affordable(chunks) for pod in chunk.pods]

    def safe_until(self, name: str, runtime: int | None) -> int | None:
        return self.guard.safe_until(self.scratch.team(f"ns/{name}"), runtime)


# --- an eviction it has had already


def test_who_was_evicted_once_is_spared_with_its_whole_chunk() -> None:
    case = Case(running(), spared=["ns/a-1"])
    assert case.guard.spares(case.chunk("a-2", "a-1").pods)
    assert not case.guard.spares(case.chunk("a-2", "a-3").pods)


# --- budgets


def test_a_budget_lets_the_first_go_and_keeps_the_others() -> None:
    case = Case(running().budget("pair", allowed=1, pods=["a-1", "a-2"]))
    assert case.affordable(*map(case.chunk, ("a-1", "a-2", "a-3"))) == ["a-1", "a-3"]


def test_a_chunk_that_asks_for_more_than_a_budget_allows_stays_as_a_whole() -> None:
    case = Case(running().budget("pair", allowed=1, pods=["a-1", "a-2"]))
    assert case.affordable(case.chunk("a-1", "a-2"), case.chunk("a-2")) == ["a-2"]


def test_a_pod_that_is_on_its_way_out_costs_no_budget() -> None:
    some = running().pod("a-1", state=State.TERMINATING).budget("pair", allowed=1, pods=["a-1", "a-2"])
    case = Case(some)
    case.guard.spend([case.chunk("a-1")])
    assert case.affordable(*map(case.chunk, ("a-1", "a-2"))) == ["a-1", "a-2"]


def test_without_budgets_all_may_go() -> None:
    case = Case(running())
    assert case.affordable(*map(case.chunk, ("a-1", "a-2"))) == ["a-1", "a-2"]


def test_budgets_hold_nobody_back_where_they_are_not_honoured() -> None:
    case = Case(running().budget("all", allowed=0, pods=["a-1", "a-2"]), honor_budgets=False)
    assert case.affordable(case.chunk("a-1")) == ["a-1"]
    assert not case.guard.denies(case.chunk("a-1").pods)


def test_evictions_use_up_a_budget_until_it_is_named_as_the_obstacle() -> None:
    case = Case(running().budget("pair", allowed=1, pods=["a-1", "a-2"]))
    assert not case.guard.denies(case.chunk("a-2").pods)
    case.guard.spend([case.chunk("a-1")])
    assert case.guard.denies(case.chunk("a-2").pods)
    assert case.guard.denied == {"ns/pair"}
    assert case.affordable(case.chunk("a-2")) == []


def test_a_budget_that_allows_one_denies_two_at_once() -> None:
    case = Case(running().budget("pair", allowed=1, pods=["a-1", "a-2"]))
    assert case.guard.denies(case.chunk("a-1", "a-2").pods)


def test_the_second_of_two_chunks_is_held_back_in_the_budget_s_name() -> None:
    case = Case(running().budget("pair", allowed=1, pods=["a-1", "a-2"]))
    case.affordable(*map(case.chunk, ("a-1", "a-2")))
    assert case.guard.denied == {"ns/pair"}


# --- minimum run time


def test_a_workload_is_safe_until_it_has_run_long_enough() -> None:
    some = running(1, pod={"started": NOW - MINUTE})
    assert Case(some).safe_until("a-1", 2 * MINUTE) == NOW + MINUTE


@pytest.mark.parametrize(
    ("minimum", "since"),
    [pytest.param(1, 3, id="its first pod"), pytest.param(2, 2, id="its second"), pytest.param(4, 1, id="never whole")],
)
def test_a_gang_has_run_since_its_minimum_stood(minimum: int, since: int) -> None:
    some = yard().nodes(1).queue("a").gang("a", 3, minimum=minimum, running=3)
    for number, minutes in enumerate((2, 3, 1)):
        some.pod(f"a-1-{number}", started=NOW - minutes * MINUTE)
    assert Case(some).safe_until("a-1", 4 * MINUTE) == NOW + (4 - since) * MINUTE


@pytest.mark.parametrize("runtime", [None, 0, MINUTE], ids=["none is set", "it is zero", "it is over"])
def test_a_workload_is_not_safe_without_a_run_time_that_still_holds(runtime: int | None) -> None:
    assert Case(running(1, pod={"started": NOW - MINUTE})).safe_until("a-1", runtime) is None


def test_a_workload_that_has_not_started_is_not_safe() -> None:
    assert Case(running(1, pod={"started": None})).safe_until("a-1", MINUTE) is None


def departments(left: int | None = None, **runtimes: int) -> Yard:
    """Departments `left` (with its own run time) of `l1` and `l2`, and `right` of `r1`, with these run times."""
    some = yard()
    for name, parent in (("left", ""), ("right", ""), ("l1", "left"), ("l2", "left"), ("r1", "right")):
        runtime = left if name == "left" else runtimes.get(name)
        some.queue(name, parent=parent, preempt_min_runtime=runtime, reclaim_min_runtime=runtime)
    return some


def reclaim_runtime(some: Yard, taker: str, victim: str) -> tuple[int, str] | None:
    snapshot = some.snapshot()
    return protection.reclaim_runtime(snapshot, Accounts.of(snapshot, SCALE), taker, victim)


def test_against_preemption_the_nearest_run_time_on_the_way_up_holds() -> None:
    assert protection.preempt_runtime(departments(left=60, l1=5).snapshot(), "l1") == (5, "l1")
    assert protection.preempt_runtime(departments(left=60).snapshot(), "l1") == (60, "left")


def test_a_run_time_of_zero_is_set_and_ends_the_way_up() -> None:
    assert protection.preempt_runtime(departments(left=60, l1=0).snapshot(), "l1") == (0, "l1")


def test_where_no_queue_sets_a_run_time_there_is_none() -> None:
    assert protection.preempt_runtime(departments().snapshot(), "l1") is None
    assert reclaim_runtime(departments(), "r1", "l1") is None


def test_against_another_team_of_the_department_the_teams_own_run_time_holds() -> None:
    assert reclaim_runtime(departments(left=60, l1=5), "l2", "l1") == (5, "l1")


def test_against_another_department_the_departments_run_time_holds() -> None:
    assert reclaim_runtime(departments(left=60, l1=5), "r1", "l1") == (60, "left")


@pytest.mark.parametrize(("leaving", "expected"), [(1, True), (2, False)])
def test_a_gang_shrinks_no_further_than_to_its_minimum(leaving: int, *, expected: bool) -> None:
    team = Case(yard().nodes(1).queue("a").gang("a", 3, minimum=2, running=3)).scratch.team("ns/a-1")
    assert protection.shrinks_to_minimum(team, team.pods[:leaving]) is expected


# --- a delay of its own


@pytest.mark.parametrize(
    ("also", "until"),
    [
        pytest.param({}, None, id="no delay"),
        pytest.param({"preemption_delay": 90}, NOW + 30, id="since it was made"),
        pytest.param({"preemption_delay": 90, "last_evicted": NOW - 10}, NOW + 80, id="since it was evicted"),
        pytest.param({"preemption_delay": 60}, None, id="it is over"),
    ],
)
def test_nobody_is_evicted_for_a_workload_while_its_delay_runs(also: dict[str, int], until: int | None) -> None:
    scratch = Case(yard().queue("a").pending("a", created=NOW - MINUTE, **also)).scratch
    assert protection.delay_until(scratch.snapshot, scratch.team("ns/a-1")) == until
