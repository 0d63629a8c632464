"""Which nodes are offered first: the fullest ones, equals by name."""

from collections import Counter

import pytest
from gpuyard.engine.model import Shape
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.placing.strategies.spread import SPREAD
from gpuyard.extender.verbs.ranking import best, points

from tests.extender.builders import Bench, node, pod

ONE = Shape(gpus=1)


def anywhere(_node: str) -> bool:
    return True


@pytest.fixture
def snapshot() -> Snapshot:
    nodes = [node(f"n{number}") for number in range(1, 6)]
    return Bench(*nodes, pod("a", gpus=6, on="n3"), pod("b", gpus=2, on="n5")).ledger.snapshot


def test_the_fullest_come_first_and_equals_by_name(snapshot: Snapshot) -> None:
    assert best(snapshot, ONE, ["n1", "n2", "n3", "n4", "n5"], 10, anywhere, strategy=PACK) == [
        "n3",
        "n5",
        "n1",
        "n2",
        "n4",
    ]


def test_many_equals_come_as_they_are_offered() -> None:
    many = [f"n{number:02}" for number in range(40)]
    snapshot = Bench(*map(node, many), pod("a", gpus=1, on="n39")).ledger.snapshot
    assert best(snapshot, ONE, many[::-1], 3, anywhere, strategy=PACK) == ["n39", "n38", "n37"]
    assert best(snapshot, ONE, many, 3, anywhere, strategy=PACK) == ["n39", "n00", "n01"]


def test_no_more_than_asked_for_and_no_node_that_was_not_offered(snapshot: Snapshot) -> None:
    assert best(snapshot, ONE, ["n1", "n2", "n5"], 2, anywhere, strategy=PACK) == ["n5", "n1"]


@pytest.mark.row("X-02", case="nodes")
def test_nodes_that_no_watch_has_shown_are_not_answered(snapshot: Snapshot) -> None:
    assert best(snapshot, ONE, ["new-b", "new-a", "n1"], 10, anywhere, strategy=PACK) == ["n1"]


def test_who_is_named_already_takes_nobodys_place_among_those_that_follow() -> None:
    full = Bench(node("n1", 8), node("n2", 1), pod("a", gpus=1, on="n2")).ledger.snapshot
    assert best(full, ONE, ["n1", "n2"], 2, anywhere, strategy=PACK) == ["n1", "n2"]


def test_no_node_is_asked_about_twice_once_it_is_named(snapshot: Snapshot) -> None:
    asked = Counter[str]()

    def fits(name: str) -> bool:
        asked[name] += 1
        return True

    assert best(snapshot, ONE, ["n1", "n2"], 9, fits, strategy=PACK) == ["n1", "n2"]
    assert asked == {"n1": 1, "n2": 1}


def test_a_single_offer_is_the_answer(snapshot: Snapshot) -> None:
    assert best(snapshot, ONE, ["n2"], 10, anywhere, strategy=PACK) == ["n2"]
    assert best(snapshot, ONE, [], 10, anywhere, strategy=PACK) == []


def test_points_follow_the_free_gpus(snapshot: Snapshot) -> None:
    rooms = {name: snapshot.room.get(name) for name in ("n1", "n3", "n5", "new")}
    assert points(rooms, PACK) == {"n1": 0, "n3": 9, "n5": 3, "new": 0}


def test_nodes_that_are_equally_full_get_equal_points(snapshot: Snapshot) -> None:
    assert points({name: snapshot.room.get(name) for name in ("n1", "n2")}, PACK) == {"n1": 9, "n2": 9}
    assert points({}, PACK) == {}


def test_full_nodes_come_after_all_in_which_there_is_room() -> None:
    full = Bench(node("n1", 1), node("n2", 8), node("n3", 0), pod("a", gpus=1, on="n1")).ledger.snapshot
    assert best(full, ONE, ["n1", "n2", "n3"], 10, anywhere, strategy=PACK) == ["n2", "n1", "n3"]


def test_for_a_part_of_a_gpu_those_come_first_of_which_one_is_shared_and_full_ones_not_at_all() -> None:
    half = pod("h", "", 0, on="n2", annotations={"gpu-fraction": "0.5"})
    bench = Bench(node("n1", 1), node("n2", 8), node("n3", 4), half, pod("a", gpus=1, on="n1"))
    assert best(bench.ledger.snapshot, Shape(fraction=500), ["n1", "n2", "n3"], 10, anywhere, strategy=PACK) == [
        "n2",
        "n3",
    ]


# --- spread


@pytest.mark.row("B-80", case="filter")
def test_to_spread_the_emptiest_come_first_and_full_ones_last(snapshot: Snapshot) -> None:
    assert best(snapshot, ONE, ["n1", "n3", "n5", "n4"], 10, anywhere, strategy=SPREAD) == ["n1", "n4", "n5", "n3"]
    full = Bench(node("n1", 1), node("n2", 8), pod("a", gpus=1, on="n1")).ledger.snapshot
    assert best(full, ONE, ["n1", "n2"], 10, anywhere, strategy=SPREAD) == ["n2", "n1"]


@pytest.mark.row("B-80", case="parts")
def test_to_spread_a_part_of_a_gpu_those_with_whole_gpus_free_come_first() -> None:
    half = pod("h", "", 0, on="n2", annotations={"gpu-fraction": "0.5"})
    bench = Bench(node("n1", 1), node("n2", 1), node("n3", 4), half, pod("a", gpus=1, on="n1"))
    found = best(bench.ledger.snapshot, Shape(fraction=500), ["n1", "n2", "n3"], 10, anywhere, strategy=SPREAD)
    assert found == ["n3", "n2"]


@pytest.mark.row("B-80", case="prioritize")
def test_to_spread_the_emptiest_nodes_get_the_most_points(snapshot: Snapshot) -> None:
    rooms = {name: snapshot.room.get(name) for name in ("n1", "n3", "n5", "new")}
    assert points(rooms, SPREAD) == {"n1": 9, "n3": 0, "n5": 6, "new": 0}
