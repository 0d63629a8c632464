"""The books: what is free, used and allowed, and how they change."""

import msgspec
import pytest
from gpuyard.engine.budgets.books import Books, Budget, Device, Job, Kind, Node, Step

from tests.engine.budgets.builders import Site, called, site


def two_teams() -> Site:
    return (
        site().node("m1").node("m2", 4).budget("A", 6).job("A/1", "m1", 3).job("B/1", "m1", 2).job("A/2", "m2", "0.5")
    )


def test_what_is_free_on_a_node_is_what_its_jobs_leave() -> None:
    assert two_teams().books.free() == {"m1": 5000, "m2": 3500}


def test_what_a_team_uses_is_summed_over_the_nodes() -> None:
    assert two_teams().books.used() == {"A": 3500, "B": 2000}


def test_who_has_no_budget_is_allowed_nothing() -> None:
    assert two_teams().books.allowed()["A"] == 6000
    assert two_teams().books.allowed()["B"] == 0


def test_two_lines_for_one_team_add_up() -> None:
    assert two_teams().budget("A", 1).books.allowed()["A"] == 7000


def test_one_type_is_a_world_of_its_own() -> None:
    some = two_teams().node("l1", 8, Device.LARGE).budget("A", 2, Device.LARGE).job("A/3", "l1", 1)
    large = some.books.of_type(Device.LARGE)
    assert [node.name for node in large.nodes] == ["l1"]
    assert (large.used(), large.allowed()) == ({"A": 1000}, {"A": 2000})


def test_a_job_that_ended_holds_nothing() -> None:
    assert two_teams().books.ended(called("A/1")).free()["m1"] == 8000


def test_the_end_of_a_job_that_is_not_there_changes_nothing() -> None:
    books = two_teams().books
    assert books.ended(called("A/9")) == books


def test_priority_is_given_and_taken_away() -> None:
    given = two_teams().books.marked(called("A/1"), priority=True)
    assert [job.priority for job in given.jobs] == [True, False, False]
    assert given.marked(called("A/1"), priority=False) == two_teams().books


def test_steps_are_done_in_their_order() -> None:
    steps = [
        Step(Kind.DELETE, called("B/1"), 2000),
        Step(Kind.MOVE, called("A/1"), 3000, "m2"),
        Step(Kind.CREATE, called("C/new"), 9000, "m1"),
    ]
    after = two_teams().books.after(steps)
    assert after.free() == {"m1": 1000, "m2": 500}
    assert [str(job.id) for job in after.jobs] == ["A____1", "A____2", "C____new"]


def test_the_newest_job_has_the_highest_number_even_after_others_have_gone() -> None:
    books = two_teams().books.ended(called("A/2"))
    assert books.after([Step(Kind.CREATE, called("A/3"), 1, "m1")]).jobs[-1].number == 3


def test_the_number_of_a_new_job_is_above_all_others_even_where_nobody_counted() -> None:
    books = Books((Node("m1", 10),), jobs=(Job(called("A/1"), "m1", 1, number=5),))
    assert books.after([Step(Kind.CREATE, called("A/2"), 1, "m1")]).jobs[-1].number == 6


def test_a_new_job_is_of_its_nodes_type() -> None:
    books = Books((Node("s1", 10, Device.SMALL),)).after([Step(Kind.CREATE, called("A/1"), 1, "s1")])
    assert books.jobs[0].device is Device.SMALL


def test_a_jobs_type_is_its_nodes_while_that_is_there() -> None:
    books = Books((Node("s1", 10, Device.SMALL),), jobs=(Job(called("A/1"), "s1", 1),))
    assert books.of_type(Device.SMALL).used() == {"A": 1}
    assert books.of_type(Device.MEDIUM).used() == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"nodes": [{"name": "m", "amount": -1}]}', "node m: amount -1 is negative"),
        (
            '{"budgets": [{"team": "A", "amount": -1}]}',
            "budget of team A: amount -1 is negative; 0 lets it borrow only",
        ),
        ('{"jobs": [{"id": ["A", "1"], "node": "m", "amount": 0}]}', "job A____1: amount 0 is not positive"),
        ('{"nodes": [{"name": "m", "amount": 1}, {"name": "m", "amount": 2}]}', "node m is there twice"),
        (
            '{"jobs": [{"id": ["A", "1"], "node": "m", "amount": 1}, {"id": ["A", "1"], "node": "n", "amount": 1}]}',
            "job A____1 is there twice",
        ),
    ],
)
def test_books_that_cannot_be_true_are_refused(text: str, why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.json.decode(text, type=Books)


def test_an_empty_budget_can_be_written_down() -> None:
    assert Books(budgets=(Budget("A", 0),)).allowed() == {"A": 0}
