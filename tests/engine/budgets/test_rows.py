"""Rows V-02 to V-24 and V-31 to V-32, as far as the rules alone show them: who runs where, who moves, who goes."""

from random import Random

import pytest
from gpuyard.engine.budgets.books import Books, Device, Kind
from gpuyard.engine.budgets.provision import Cause, NoBudget, NoPlace, Provided, Rules
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.budgets.builders import Site, called, site


def borrowed() -> Site:
    """Team B uses 9 of the one node's 10 devices; its budget is 4, that of team A 10."""
    some = site().node("machine 1").budget("A", 10).budget("B", 4)
    for number in (1, 2, 3):
        some.job(f"B/{number}", "machine 1", 3)
    return some


@pytest.mark.row("V-02")
def test_the_first_job_of_a_team_is_created_on_the_first_machine() -> None:
    some = site().node("machine 1").budget("Team A", 10)
    assert some.steps("Team A/my first job", "3.0") == ["create Team A/my first job on machine 1"]
    assert len(some.books.nodes) == 1


@pytest.mark.parametrize(
    ("amount", "node"),
    [
        pytest.param(3, "m1", marks=pytest.mark.row("V-03", case="3")),
        pytest.param(6, "m2", marks=pytest.mark.row("V-03", case="6")),
        pytest.param(7, "m3", marks=pytest.mark.row("V-03", case="7")),
    ],
)
def test_the_smallest_room_that_fits_is_taken(amount: int, node: str) -> None:
    some = site().node("m3").node("m2").node("m1").job("B/a", "m1", 7).job("B/b", "m2", 4)
    assert some.steps("A/new", amount) == [f"create A/new on {node}"]


@pytest.mark.row("V-04")
def test_no_budget_is_asked_while_there_is_room() -> None:
    some = site().node("machine 1").budget("B", 4)
    for number in (1, 2, 3):
        assert some.steps(f"B/{number}", 3) == [f"create B/{number} on machine 1"]
    assert some.books.used() == {"B": 9000}


@pytest.mark.row("V-05", case="room")
def test_a_team_without_a_budget_runs_where_there_is_room() -> None:
    assert site().node("m1").steps("nobody/job", 1) == ["create nobody/job on m1"]


@pytest.mark.row("V-05", case="no-room")
def test_a_team_without_a_budget_has_others_make_no_room() -> None:
    some = site().node("m1", 1).job("B/a", "m1", 1)
    assert isinstance(some.ask("nobody/job", 1), NoBudget)


@pytest.mark.row("V-07", case="within")
def test_within_its_budget_a_team_has_room_made() -> None:
    some = borrowed().node("m2", 7).job("A/old", "m2", 7)
    assert some.steps("A/new", "3.0")[0].startswith("delete B/")


@pytest.mark.row("V-07", case="over")
def test_beyond_its_budget_a_team_does_not() -> None:
    some = borrowed().node("m2", 7).job("A/old", "m2", 7)
    answer = some.ask("A/new", "3.5")
    assert isinstance(answer, NoBudget)
    assert (answer.used, answer.allowed) == (7000, 10_000)


@pytest.mark.row("V-08")
def test_a_job_of_a_team_over_its_budget_makes_room() -> None:
    some = borrowed()
    assert some.steps("A/new", "3.0") == ["delete B/3", "create A/new on machine 1"]
    assert sorted(name.partition("/")[0] for name in some.running()) == ["A", "B", "B"]


@pytest.mark.row("V-09")
def test_a_priority_job_is_spared() -> None:
    some = borrowed()
    for number in (2, 3):
        some.books = some.books.marked(called(f"B/{number}"), priority=True)
    assert some.steps("A/new", 3) == ["delete B/1", "create A/new on machine 1"]


def all_spared() -> Site:
    some = borrowed()
    for number in (1, 2, 3):
        some.books = some.books.marked(called(f"B/{number}"), priority=True)
    return some


@pytest.mark.row("V-10")
def test_where_all_are_spared_there_is_no_place_although_there_is_a_budget() -> None:
    some = all_spared()
    before = some.books
    answer = some.ask("A/new", 3)
    assert isinstance(answer, NoPlace)
    assert some.books is before


@pytest.mark.row("V-11")
def test_priority_can_be_taken_away_again() -> None:
    some = all_spared()
    some.books = some.books.marked(called("B/2"), priority=False)
    assert some.steps("A/new", 3) == ["delete B/2", "create A/new on machine 1"]


def in_the_way() -> Site:
    """For a job of 9 one of two has to move; the newer one, which would be chosen, has priority."""
    return site().node("m1").node("m2").budget("A", 10).job("C/other", "m2", 3).job("B/first", "m1", 2, priority=True)


@pytest.mark.row("V-12", case="moved")
def test_a_priority_job_may_be_moved_but_never_deleted() -> None:
    assert in_the_way().steps("A/new", 9) == ["move B/first on m2", "create A/new on m1"]


@pytest.mark.row("V-12", case="pinned")
def test_where_priority_jobs_are_not_moved_others_are() -> None:
    assert in_the_way().ruled(move_priority_jobs=False).steps("A/new", 9) == [
        "move C/other on m1",
        "create A/new on m2",
    ]


@pytest.mark.row("V-13")
def test_a_team_within_its_budget_loses_nothing() -> None:
    some = site().node("m1").budget("A", 10).budget("B", 10)
    for number in (1, 2, 3):
        some.job(f"B/{number}", "m1", 3)
    assert isinstance(some.ask("A/new", 3), NoPlace)


@pytest.mark.row("V-14")
def test_a_team_within_its_budget_keeps_its_own_jobs() -> None:
    some = site().node("m1").budget("A", 13).job("A/1", "m1", 5).job("A/2", "m1", 5)
    assert isinstance(some.ask("A/3", 3), NoPlace)


@pytest.mark.row("V-15")
def test_the_cheapest_move_wins() -> None:
    some = site().node("m1").node("m2").budget("A", 10).budget("B", 10)
    some.job("B/j1", "m1", 3).job("B/j2", "m1", 3).job("B/j3", "m2", 3)
    assert some.steps("A/new", "9.0") == ["move B/j3 on m1", "create A/new on m2"]
    assert len(some.books.jobs) == 4


@pytest.mark.row("V-16")
def test_what_cannot_be_placed_changes_nothing() -> None:
    some = site().node("m1").node("m2").budget("A", 10).budget("B", 13)
    some.job("B/1", "m1", 3).job("B/2", "m1", 3).job("B/3", "m2", 3).job("B/4", "m2", 3)
    before = some.books
    assert isinstance(some.ask("A/new", 9), NoPlace)
    assert some.books is before


def four_nodes() -> Site:
    some = site()
    for number in (1, 2, 3, 4):
        some.node(f"n{number}")
    return some


@pytest.mark.row("V-17", case="three-of-ten")
def test_of_three_jobs_of_ten_one_goes() -> None:
    some = four_nodes().budget("A", 20).budget("B", 20).job("B/old", "n4", 10)
    for number in (1, 2, 3):
        some.job(f"A/{number}", f"n{number}", 10)
    assert some.steps("B/new", 10) == ["delete A/3", "create B/new on n3"]


@pytest.mark.row("V-17", case="any-split")
@pytest.mark.chance
@settings(max_examples=20)
@given(st.integers(0, 2**32).map(Random))
def test_however_the_thirty_are_split_enough_is_taken(chance: Random) -> None:
    some = four_nodes().budget("A", 20).budget("B", 20).job("B/old", "n4", 10)
    for number in (1, 2, 3):
        left = 10
        while left:
            amount = chance.randint(1, left)
            some.job(f"A/{number}-{left}", f"n{number}", amount)
            left -= amount
    fewest = min(sum(job.node == f"n{number}" for job in some.books.jobs) for number in (1, 2, 3))
    deleted = [step.amount for step in some.provided("B/new", 10).steps if step.kind is Kind.DELETE]
    assert sum(deleted) >= 10_000
    assert len(deleted) <= fewest


@pytest.mark.row("V-18")
def test_one_move_instead_of_a_deletion() -> None:
    some = four_nodes().budget("A", 20).budget("B", 20)
    for number, node in enumerate(("n1", "n1", "n2", "n2", "n3", "n4")):
        some.job(f"A/{number}", node, 3)
    assert [free for free in some.books.free().values() if free >= 8000] == []
    steps = some.steps("B/new", 8)
    assert len(steps) == 2
    assert steps[0].startswith("move A/")
    assert steps[1] == f"create B/new on {'n4' if 'A/5' in steps[0] else 'n3'}"


@pytest.mark.row("V-20")
def test_only_the_job_without_priority_of_the_team_over_budget_may_go() -> None:
    some = site().node("m1", 12).budget("A", 6).budget("B", 6)
    some.job("A/job1", "m1", 4).job("A/job3", "m1", 4, priority=True).job("B/job4", "m1", 2).job("B/job5", "m1", 2)
    assert some.steps("B/job6", 2) == ["delete A/job1", "create B/job6 on m1"]
    assert some.running() == ["A/job3", "B/job4", "B/job5", "B/job6"]


@pytest.mark.row("V-21", case="weighed")
@pytest.mark.parametrize(("portability", "gone"), [(100, {"C"}), (700, {"B"})])
def test_portability_weighs_moves_against_staying(portability: int, gone: set[str]) -> None:
    """Either the large job stays (1.0) and nine others go, or it goes and these move to its node (0.9 or 6.3)."""
    some = site().node("m1").node("m2", 9).budget("A", 10).ruled(portability=portability).job("B/large", "m2", 9)
    for number in range(9):
        some.job(f"C/{number}", "m1", 1)
    steps = some.provided("A/new", 10).steps
    assert {step.job.team for step in steps if step.kind is Kind.DELETE} == gone


@pytest.mark.row("V-21", case="out-of-range")
@pytest.mark.parametrize("portability", [-1, 0, 1001])
def test_portability_outside_its_range_is_refused(portability: int) -> None:
    with pytest.raises(ValueError, match="not within 1 and 1000"):
        Rules(portability=portability)


@pytest.mark.row("V-22")
def test_fractions_of_a_device_are_moved_as_such() -> None:
    some = site().node("m1", 1).budget("A", 1).job("B/1", "m1", "0.5").job("B/2", "m1", "0.5")
    assert some.steps("A/new", "0.25") == ["delete B/2", "create A/new on m1"]
    assert some.books.free() == {"m1": 250}


@pytest.mark.row("V-23")
def test_ten_tenths_fit_and_eleven_do_not() -> None:
    some = site().node("m1", 1).budget("A", 1)
    for number in range(10):
        assert some.steps(f"A/{number}", "0.1") == [f"create A/{number} on m1"]
    assert isinstance(some.ask("A/10", "0.1"), NoBudget)


def two_types() -> Site:
    small = Device.EXTRA_SMALL
    some = site().node("s1", 10, small).node("m1", 4).node("m2", 4).budget("A", 2).budget("A", 9, small)
    return some.job("B/1", "m1", 3).job("B/2", "m2", 3)


@pytest.mark.row("V-24")
def test_only_the_nodes_and_the_budget_of_the_type_matter() -> None:
    some = two_types()
    assert some.steps("A/new", 2) == ["delete B/2", "create A/new on m2"]
    assert isinstance(some.ask("A/more", 3), NoBudget)
    assert some.steps("A/more", 3, Device.EXTRA_SMALL) == ["create A/more on s1"]


@pytest.mark.row("V-24")
def test_nobody_moves_to_a_node_of_another_type() -> None:
    assert isinstance(two_types().budget("B", 6).ask("A/new", 2), NoPlace)


@pytest.mark.row("V-28")
def test_one_job_name_in_two_teams_is_two_jobs() -> None:
    some = site().node("m1")
    assert some.steps("A/train", 1) == ["create A/train on m1"]
    assert some.steps("B/train", 1) == ["create B/train on m1"]
    assert [str(job.id) for job in some.books.jobs] == ["A____train", "B____train"]


@pytest.mark.row("V-32")
def test_budgets_above_the_capacity_are_named_as_the_cause() -> None:
    some = site().node("m1").budget("A", 10).budget("B", 10).job("B/1", "m1", 10)
    answer = some.ask("A/new", 1)
    assert isinstance(answer, NoPlace)
    assert answer.cause is Cause.OVERSOLD


# --- what holds of every site

chances = st.integers(0, 2**32).map(Random)


def some_request(chance: Random, number: int) -> tuple[str, str]:
    amount = chance.choice(["0.5", "1", "2", "3", "4", "6"])
    return f"{chance.choice('ABC')}/{number}", amount


def some_site(chance: Random) -> Site:
    some = site()
    for number in range(chance.randint(1, 4)):
        some.node(f"n{number}", chance.choice([1, 4, 8]))
    for team in "AB":
        some.budget(team, chance.choice([2, 6, 12]))
    return some


def overfull(books: Books) -> list[str]:
    return [node for node, free in books.free().items() if free < 0]


@pytest.mark.row("V-31")
@pytest.mark.chance
@settings(max_examples=30)
@given(chances)
def test_each_step_fits_in_its_order_and_all_together_are_enough(chance: Random) -> None:
    some = some_site(chance)
    for number in range(25):
        before = some.books
        answer = some.ask(*some_request(chance, number))
        if isinstance(answer, Provided):
            for end in range(len(answer.steps) + 1):
                assert overfull(before.after(answer.steps[:end])) == []
            assert answer.steps[-1].kind is Kind.CREATE
            some.books = before.after(answer.steps)
            assert some.books == answer.books


@pytest.mark.row("V-19")
@pytest.mark.chance
@settings(max_examples=3)
@given(chances)
def test_nobody_is_refused_while_a_machine_has_room(chance: Random) -> None:
    some = some_site(chance)
    for number in range(500):
        widest = max(some.books.free().values())
        text, amount = some_request(chance, number)
        answer = some.ask(text, amount)
        if isinstance(answer, Provided):
            some.books = answer.books
        assert isinstance(answer, Provided) or float(amount) * 1000 > widest
        if chance.random() < 0.4 and some.books.jobs:
            some.books = some.books.ended(chance.choice(some.books.jobs).id)
