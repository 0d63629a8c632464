"""Rows Q-23 to Q-26 and Q-34 to Q-36: small workloads are moved so that a big one fits."""

import pytest
from gpuyard.engine.model import Shape
from gpuyard.engine.model.results import Reason

from tests.engine.builders import Yard, yard


def two_halves(**second: bool) -> Yard:
    """Two nodes of 4, half full each, and a pod that needs one of them whole."""
    some = yard().nodes(2, gpus=4).queue("a", quota=8)
    some.running("a", name="p1", gpus=2, on="node-1").running("a", name="p2", gpus=2, on="node-2", **second)
    return some.pending("a", name="big", gpus=4)


@pytest.mark.row("Q-23")
def test_one_move_of_the_newer_makes_the_room() -> None:
    told = two_halves().plan()
    assert told.evicted == ["p2"]
    assert told.moved == {"p2": "node-1"}
    assert told.node("big") == "node-2"


@pytest.mark.row("Q-24", case="one")
def test_the_one_that_may_move_moves() -> None:
    told = two_halves(preemptible=False).plan()
    assert told.moved == {"p1": "node-2"}
    assert told.node("big") == "node-1"


@pytest.mark.row("Q-24", case="none")
def test_where_nobody_may_move_the_big_one_waits_for_a_larger_hole() -> None:
    some = yard().nodes(2, gpus=4).queue("a", quota=8)
    for node in ("node-1", "node-2"):
        some.running("a", gpus=2, on=node, preemptible=False)
    told = some.pending("a", name="big", gpus=4).plan()
    assert told.evicted == []
    assert told.reason("big") is Reason.FRAGMENTED


def one_and_three() -> Yard:
    some = yard().nodes(2, gpus=4).queue("a", quota=8).running("a", gpus=2, on="node-1").running("a", 3, on="node-2")
    return some.pending("a", name="big", gpus=3)


@pytest.mark.row("Q-25", case="moves")
def test_no_more_is_moved_than_is_needed() -> None:
    told = one_and_three().plan()
    assert len(told.evicted) == len(told.moved) == 2
    assert "big" in told.placed()


@pytest.mark.row("Q-25", case="max-moved")
def test_nothing_is_moved_where_more_moves_are_needed_than_allowed() -> None:
    told = one_and_three().plan(max_moved=1)
    assert told.evicted == []
    assert told.waits() == ["big"]


@pytest.mark.row("Q-26")
def test_nothing_is_moved_at_all_where_one_would_find_no_place() -> None:
    some = yard().nodes(2, gpus=4).queue("a", quota=8)
    some.running("a", gpus=3, on="node-1").running("a", gpus=2, on="node-2").pending("a", name="big", gpus=3)
    told = some.plan()
    assert told.evicted == []
    assert told.reason("big") is Reason.FRAGMENTED


@pytest.mark.row("Q-26")
def test_nothing_is_moved_where_each_that_would_have_to_go_may_stand_on_its_own_node_alone() -> None:
    some = yard().nodes(2, gpus=4).queue("a", quota=8).queue("b", quota=8)
    for node in ("node-1", "node-2"):
        bound = Shape(gpus=2, selector=(("kubernetes.io/hostname", node),))
        some.running("a", name=f"bound-to-{node}", shape=bound, on=node)
    told = some.pending("b", name="claim", gpus=4).plan(phases=("allocate", "consolidate"))
    assert (told.waits(), told.moved) == (["claim"], {})


def test_nothing_is_moved_for_one_that_leaves_no_room_for_who_would_have_to_go() -> None:
    some = yard().nodes(2, gpus=4).queue("a", quota=8).running("a", name="small", gpus=2, on="node-1")
    told = some.running("a", gpus=3, on="node-2", preemptible=False).pending("a", name="big", gpus=3).plan()
    assert told.evicted == []
    assert told.reason("big") is Reason.FRAGMENTED


def demo(**last_node: bool) -> Yard:
    some = yard().nodes(3).node("node-4", **last_node)
    some.queue("department-1", quota=16, weight=2, priority=200).queue("department-2", quota=16, priority=100)
    for queue, department, priority, weight in (
        ("project-a", "department-1", 150, "2.0"),
        ("project-b", "department-1", 100, "1.0"),
        ("project-c", "department-2", 150, "1.5"),
        ("project-d", "department-2", 100, "1.0"),
    ):
        some.queue(queue, parent=department, quota=8, priority=priority, weight=weight)
    some.running("project-a", name="training-job-1", gpus=4, on="node-1")
    some.running("project-c", name="training-job-2", gpus=2, on="node-1")
    some.running("project-b", name="training-job-3", gpus=6, on="node-2")
    some.running("project-d", name="interactive-job", gpus=5, on="node-3", priority=100, preemptible=False)
    return some.pending("project-a", name="training-job-b", gpus=3).pending("project-c", name="training-job-a", gpus=4)


@pytest.mark.row("Q-34")
def test_the_demo_starts_two_jobs_and_evicts_nobody() -> None:
    told = demo().plan()
    assert told.started == {"training-job-b": "node-3", "training-job-a": "node-4"}
    assert told.evicted == []
    assert told.fair("department-1", "department-2") == [13, 11]
    assert told.fair("project-a", "project-b", "project-c", "project-d") == [7, 6, 6, 5]


@pytest.mark.row("Q-35")
def test_the_demo_with_nodes_kept_empty_needs_one_move() -> None:
    told = demo().plan(keep_nodes_empty=True)
    assert told.started == {"training-job-b": "node-3"}
    assert told.moved == {"training-job-2": "node-2"}
    assert told.node("training-job-a") == "node-1"
    assert told.settled
    assert len(told.outcome.cycles) == 2


@pytest.mark.row("Q-36")
def test_the_demo_with_a_cordoned_node_needs_the_same_move_without_the_mode() -> None:
    told = demo(cordoned=True).plan()
    assert told.started == {"training-job-b": "node-3"}
    assert told.moved == {"training-job-2": "node-2"}
    assert told.node("training-job-a") == "node-1"


def test_a_node_is_opened_where_no_moves_help() -> None:
    some = yard().nodes(2, gpus=4).queue("a", quota=8).running("a", gpus=3, on="node-1", preemptible=False)
    told = some.pending("a", name="big", gpus=2).plan(keep_nodes_empty=True)
    assert told.started == {"big": "node-2"}
