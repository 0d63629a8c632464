"""The search for room: what it finds is the best there is, by a reading of the rule that tries everything."""

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from operator import itemgetter
from random import Random

import pytest
from gpuyard.engine.budgets.books import Books, Job, Kind, Node, Step
from gpuyard.engine.budgets.reshuffle import WHOLE, Found, Movable, Reshuffle
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.budgets.builders import called

PORTABILITY = 700
PATIENCE = 1_000_000
GONE = None


def nodes(*amounts: int) -> list[Node]:
    return [Node(f"m{number}", amount) for number, amount in enumerate(amounts)]


def jobs(*some: tuple[str, int], go: str = "", stay: str = "") -> list[Movable]:
    """Jobs `0`, `1`, … on nodes; `go` and `stay` name those that may be deleted, and those that may not move."""
    return [
        Movable(Job(called(f"B/{n}"), node, amount, number=n), str(n) in go, str(n) not in stay)
        for n, (node, amount) in enumerate(some)
    ]


def found(
    some: Sequence[Node],
    there: Sequence[Movable],
    amount: int,
    portability: int = PORTABILITY,
    patience: int = PATIENCE,
) -> Found | None:
    return Reshuffle(some, there, amount, portability).search(patience).found


def words(answer: Found | None) -> list[str]:
    assert answer is not None
    return [f"{step.kind} {step.job.name} {step.node}".strip() for step in answer.steps]


def test_the_fewest_devices_are_deleted_where_as_many_jobs_go() -> None:
    assert words(found(nodes(10), jobs(("m0", 6), ("m0", 4), go="01"), 4)) == ["DeleteJob 1"]


def test_the_newest_goes_where_all_else_is_equal() -> None:
    assert words(found(nodes(9), jobs(("m0", 3), ("m0", 3), ("m0", 3), go="01"), 3)) == ["DeleteJob 1"]


def test_a_move_is_cheaper_than_a_deletion() -> None:
    assert words(found(nodes(4, 4), jobs(("m0", 2), ("m1", 2), go="01"), 4)) == ["MoveJob 1 m0"]


def test_two_moves_are_cheaper_than_a_deletion() -> None:
    some = jobs(("m0", 3), ("m1", 3), ("m2", 2), go="0", stay="")
    answer = found(nodes(4, 5, 3), some, 4)
    assert words(answer) == ["MoveJob 2 m1", "MoveJob 0 m2"]


@pytest.mark.parametrize(("portability", "kind"), [(700, Kind.DELETE), (800, Kind.MOVE)])
def test_four_moves_are_dearer_than_a_deletion_unless_jobs_are_easily_moved(portability: int, kind: Kind) -> None:
    """Four jobs of 1 go to four holes of 1, or a job of 4 goes."""
    some = jobs(*[("m0", 1)] * 4, ("m1", 4), go="4")
    answer = found(nodes(4, 4, 1, 1, 1, 1), some, 4, portability)
    assert answer is not None
    assert {step.kind for step in answer.steps} == {kind}


def test_where_moving_costs_nothing_the_fewest_are_moved() -> None:
    some = jobs(("m0", 2), ("m0", 3), ("m1", 5))
    assert words(found(nodes(6, 6, 5), some, 6, portability=WHOLE)) == ["MoveJob 2 m2"]


def test_moves_are_told_in_an_order_in_which_they_can_be_done() -> None:
    some = jobs(("m0", 3), ("m1", 2))
    assert words(found(nodes(4, 3, 2), some, 4)) == ["MoveJob 1 m2", "MoveJob 0 m1"]


def test_two_jobs_never_change_places() -> None:
    some = jobs(("m0", 6), ("m0", 3), ("m1", 4), ("m1", 5))
    assert Reshuffle(nodes(10, 10), some, 2, PORTABILITY).search(PATIENCE) == (None, True)


def test_where_all_room_together_is_too_little_nothing_is_moved_about() -> None:
    some = jobs(("m0", 1), ("m0", 2), ("m1", 3), ("m2", 1), ("m2", 2))
    one_look_at_each_state = 2 * 3
    answer = Reshuffle(nodes(4, 4, 3), some, 4, PORTABILITY).search(one_look_at_each_state * 3)
    assert answer == (None, True)


def test_an_overfull_node_takes_no_room_from_the_others() -> None:
    some = jobs(("m0", 8), ("m1", 5), go="1", stay="0")
    assert words(found(nodes(5, 5), some, 4)) == ["DeleteJob 1"]


def test_of_jobs_as_new_the_first_by_name_goes() -> None:
    some = [Movable(Job(called(text), "m0", 3), may_go=True, may_move=True) for text in ("B/z", "B/a", "B/m")]
    answer = found(nodes(9), some, 3)
    assert answer is not None
    assert [step.job.name for step in answer.steps] == ["a"]


def test_whoever_may_not_move_stays() -> None:
    assert found(nodes(4, 4), jobs(("m0", 2), ("m1", 2), stay="01"), 4) is None


def test_an_easy_way_may_clear_another_node_for_who_has_to_move() -> None:
    some = jobs(("m0", 3), ("m1", 2))
    assert words(Reshuffle(nodes(4, 3, 2), some, 4, PORTABILITY).search(0).found) == ["MoveJob 1 m2", "MoveJob 0 m1"]


def a_chain() -> tuple[list[Node], list[Movable]]:
    """To make room for 5 three jobs have to move, each to where the next one was."""
    return nodes(5, 4, 3, 2), jobs(("m0", 4), ("m1", 3), ("m2", 2))


def test_without_patience_nothing_but_an_easy_way_is_found() -> None:
    some, there = a_chain()
    assert Reshuffle(some, there, 5, PORTABILITY).search(0) == (None, False)


def test_with_patience_a_way_over_several_nodes_is_found() -> None:
    some, there = a_chain()
    assert words(found(some, there, 5)) == ["MoveJob 2 m3", "MoveJob 1 m2", "MoveJob 0 m1"]


def test_an_easy_way_may_open_another_node_for_who_has_to_move() -> None:
    some = jobs(("m0", 2), ("m1", 1), ("m1", 1), ("m2", 3), go="123")
    assert words(Reshuffle(nodes(4, 2, 3), some, 4, PORTABILITY).search(0).found) == ["DeleteJob 3", "MoveJob 0 m2"]


def test_an_easy_way_does_not_open_another_node_where_one_of_its_own_jobs_is_enough() -> None:
    some = jobs(("m0", 3), ("m0", 2), ("m1", 3), go="12")
    assert words(Reshuffle(nodes(5, 3), some, 2, PORTABILITY).search(0).found) == ["DeleteJob 1"]


def test_an_easy_way_is_one_without_help_where_that_costs_less() -> None:
    """Two jobs of 1 go into two holes: that is less than to delete another node's job for the one of 3."""
    some = jobs(("m0", 3), ("m0", 1), ("m0", 1), ("m1", 3), go="3")
    answer = Reshuffle(nodes(5, 3, 1, 1), some, 2, PORTABILITY).search(0)
    assert words(answer.found) == ["MoveJob 2 m2", "MoveJob 1 m3"]


def test_whoever_may_neither_move_nor_go_is_left_where_he_is() -> None:
    some = jobs(("m0", 2), ("m0", 1), stay="0")
    assert words(Reshuffle(nodes(4, 1), some, 2, PORTABILITY).search(0).found) == ["MoveJob 1 m1"]


def test_where_patience_ends_an_easy_way_is_taken_and_not_called_the_best() -> None:
    some = jobs(*[("m0", 1)] * 4, ("m1", 4), go="4")
    answer = Reshuffle(nodes(4, 4, 1, 1, 1, 1), some, 4, PORTABILITY).search(0)
    assert words(answer.found) == ["DeleteJob 4"]
    assert not answer.sure


def test_an_overfull_node_hides_no_way_over_several_nodes() -> None:
    some, there = a_chain()
    there.append(Movable(Job(called("C/large"), "m4", 9, number=9), may_go=False, may_move=False))
    assert len(words(found([*some, Node("m4", 1)], there, 5))) == 3


@pytest.mark.parametrize(
    ("amounts", "go", "asked", "looks"),
    [
        pytest.param((3, 2, 1, 1), "", 4, 4000, id="one-hole-each"),
        pytest.param((5, 3), "02468", 7, 1000, id="full"),
    ],
)
def test_what_cannot_win_is_not_looked_at(amounts: tuple[int, ...], go: str, asked: int, looks: int) -> None:
    """Without the bounds it takes at least twice as many looks to be sure."""
    some = jobs(*((f"m{n}", amount) for n in range(6) for amount in amounts), go=go)
    assert Reshuffle(nodes(*[8] * 6), some, asked, PORTABILITY).search(looks).sure


@pytest.mark.parametrize("portability", [1, PORTABILITY, WHOLE])
def test_on_a_site_of_any_size_a_job_that_one_deletion_makes_room_for_gets_it(portability: int) -> None:
    size = 200
    some = jobs(*[(f"m{number}", 1) for number in range(size) for _ in range(7)], go="")
    some = [one._replace(may_go=True) for one in some]
    answer = found(nodes(*[8] * size), some, 2, portability, patience=1)
    assert len(words(answer)) == 1


# --- the rule, read literally

Places = tuple[str | None, ...]
"""Where each job is in the end; None: deleted."""


def every_way(some: Sequence[Node], there: Sequence[Movable]) -> Iterator[Places]:
    for places in product([*(node.name for node in some), GONE], repeat=len(there)):
        if all(allowed(one, place) for one, place in zip(there, places, strict=True)):
            yield places


def allowed(one: Movable, place: str | None) -> bool:
    return place == one.job.node or (one.may_go if place is GONE else one.may_move)


def can_be_done(some: Sequence[Node], there: Sequence[Movable], places: Places, amount: int) -> bool:
    """Whether there is an order of moves in which all fits at each moment, and the new job in the end."""
    kept = [(one.job, place) for one, place in zip(there, places, strict=True) if place is not GONE]
    books = Books(tuple(some), jobs=tuple(job for job, _ in kept))
    moves = [Step(Kind.MOVE, job.id, job.amount, place) for job, place in kept if place != job.node]
    fits = max(books.after(moves).free().values()) >= amount
    return fits and any(all_fit(books, order) for order in permutations(moves))


def all_fit(books: Books, steps: Sequence[Step]) -> bool:
    return all(min(books.after(steps[:end]).free().values()) >= 0 for end in range(len(steps) + 1))


def rank(there: Sequence[Movable], places: Places, portability: int) -> tuple[object, ...]:
    deleted = [one.job for one, place in zip(there, places, strict=True) if place is GONE]
    moved = [one.job for one, place in zip(there, places, strict=True) if place not in (GONE, one.job.node)]
    cost = WHOLE * len(deleted) + (WHOLE - portability) * len(moved)
    newest = [sorted(-job.number for job in some) for some in (deleted, moved)]
    names = [sorted(job.id for job in some) for some in (deleted, moved)]
    return cost, sum(job.amount for job in deleted), len(moved), newest, names


def places_after(there: Sequence[Movable], answer: Found) -> Places:
    done = {step.job: GONE if step.kind is Kind.DELETE else step.node for step in answer.steps}
    return tuple(done.get(one.job.id, one.job.node) for one in there)


def some_search(chance: Random) -> tuple[list[Node], list[Movable], int]:
    """A few nodes, fairly full, and a job that fits nowhere."""
    some = nodes(*(chance.randint(3, 6) for _ in range(chance.randint(2, 3))))
    free = {node.name: node.amount for node in some}
    there = []
    for number in range(chance.randint(4, 6)):
        node, amount = chance.choice(sorted(free)), chance.randint(1, 3)
        if amount <= free[node]:
            free[node] -= amount
            job = Job(called(f"B/{number}"), node, amount, number=number // chance.choice([1, 3]))
            there.append(Movable(job, chance.random() < 0.25, chance.random() < 0.9))
    return some, there, max(free.values()) + chance.randint(1, 2)


@pytest.mark.chance
@pytest.mark.parametrize("portability", [100, PORTABILITY, WHOLE])
@settings(max_examples=25)
@given(st.integers(0, 2**32).map(Random))
def test_nothing_that_can_be_done_is_better(portability: int, chance: Random) -> None:
    some, there, amount = some_search(chance)
    answer, sure = Reshuffle(some, there, amount, portability).search(PATIENCE)
    assert sure
    ranked = sorted(
        ((rank(there, some_places, portability), some_places) for some_places in every_way(some, there)),
        key=itemgetter(0),
    )
    best = next((ranks for ranks, places in ranked if can_be_done(some, there, places, amount)), None)
    assert (rank(there, places_after(there, answer), portability) if answer else None) == best
