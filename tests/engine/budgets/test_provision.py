"""What is decided about a job beyond the rows: jobs that run already, the causes of a no, who fell below its budget."""

from gpuyard.engine.budgets.books import Device
from gpuyard.engine.budgets.provision import Cause, NoBudget, NoPlace, Provided, Rules

from tests.engine.budgets.builders import Site, site


def cause(some: Site, text: str, amount: int, device: Device = Device.MEDIUM) -> Cause:
    answer = some.ask(text, amount, device)
    assert isinstance(answer, NoPlace)
    return answer.cause


def test_a_job_that_runs_already_is_left_as_it_is() -> None:
    some = site().node("m1").job("A/1", "m1", 3)
    before = some.books
    assert some.steps("A/1", 5) == []
    assert some.books is before


def test_of_rooms_alike_the_first_by_name_is_taken() -> None:
    assert site().node("b").node("a").steps("A/1", 1) == ["create A/1 on a"]


def test_a_job_larger_than_any_node_has_a_cause_of_its_own() -> None:
    assert cause(site().node("m1").node("m2").budget("A", 20), "A/1", 11) is Cause.TOO_LARGE


def test_so_has_one_of_a_type_that_no_node_has() -> None:
    assert cause(site().node("m1").budget("A", 1, Device.LARGE), "A/1", 1, Device.LARGE) is Cause.TOO_LARGE


def test_room_in_parts_that_cannot_be_brought_together_is_the_cause_where_the_budgets_are_covered() -> None:
    some = site().node("m1").node("m2").budget("A", 5).budget("B", 12).job("B/1", "m1", 6).job("B/2", "m2", 6)
    assert cause(some, "A/1", 5) is Cause.FRAGMENTED


def test_a_plan_that_only_works_as_a_swap_is_none() -> None:
    some = site().node("m1").node("m2").budget("A", 2).budget("B", 18)
    some.job("B/1", "m1", 6).job("B/2", "m1", 3).job("B/3", "m2", 4).job("B/4", "m2", 5)
    assert cause(some, "A/1", 2) is Cause.FRAGMENTED


def a_chain() -> Site:
    """To make room for 5 three jobs have to move, each to where the next one was."""
    some = site().budget("A", 5).budget("B", 9).node("m0", 2)
    for number in (2, 3, 4):
        some.node(f"m{number}", number + 1).job(f"B/{number}", f"m{number}", number)
    return some


def test_a_search_that_was_given_up_says_so() -> None:
    assert cause(a_chain().ruled(patience=1), "A/1", 5) is Cause.UNDECIDED


def test_with_the_patience_that_is_given_by_default_a_small_site_is_searched_to_the_end() -> None:
    some = site().budget("A", 8).budget("B", 42)
    for number in range(6):
        some.node(f"m{number}", 8)
        for amount in (3, 2, 1, 1):
            some.job(f"B/{number}-{len(some.books.jobs)}", f"m{number}", amount)
    some.rules = Rules()
    answer = some.provided("A/1", 4)
    assert answer.best
    assert len(answer.steps) == 4


def test_a_way_that_may_not_be_the_best_is_called_so() -> None:
    some = site().node("m1", 4).node("m2", 4).budget("A", 4).budget("B", 0).ruled(patience=1).job("B/5", "m2", 4)
    for number in (1, 2, 3, 4):
        some.node(f"hole-{number}", 1).job(f"B/{number}", "m1", 1)
    assert not some.provided("A/1", 4).best


def test_jobs_with_priority_are_named_where_they_are_what_is_in_the_way() -> None:
    some = site().node("m1").budget("A", 10).budget("B", 4).job("B/1", "m1", 9, priority=True)
    assert cause(some, "A/1", 3) is Cause.PROTECTED


def test_an_overfull_node_takes_no_room_from_the_others() -> None:
    some = site().node("m1", 5).node("m2", 5).budget("A", 4).job("B/a", "m1", 8, priority=True).job("B/b", "m2", 5)
    assert some.steps("A/1", 4) == ["delete B/b", "create A/1 on m2"]


def test_a_job_whose_node_is_gone_counts_in_its_budget_and_is_not_moved() -> None:
    some = site().node("m1").budget("A", 1).budget("B", 0).job("A/old", "gone", 1).job("B/1", "m1", 10)
    assert isinstance(some.ask("A/1", 1), NoBudget)
    assert isinstance(some.budget("A", 1).ask("A/1", 1), Provided)


def test_a_job_that_runs_on_another_type_is_not_created_twice() -> None:
    some = site().node("m1").node("l1", 10, Device.LARGE).job("A/1", "m1", 3)
    assert some.steps("A/1", 3, Device.LARGE) == []


def test_whoever_loses_more_than_it_was_over_is_named_with_how_much() -> None:
    some = site().node("m1", 9).budget("A", 1).budget("B", 8).job("B/1", "m1", 9)
    answer = some.provided("A/1", 1)
    assert answer.below == {"B": 8000}


def test_whoever_is_left_with_its_budget_is_not_named() -> None:
    some = site().node("m1").budget("A", 5).budget("B", 5).job("B/1", "m1", 5).job("B/2", "m1", 5)
    assert some.provided("A/1", 5).below == {}


def test_a_decision_that_nothing_can_beat_says_so() -> None:
    assert site().node("m1").provided("A/1", 1).best
