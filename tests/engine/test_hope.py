"""Nobody is tried as a victim where it could not help for want of room alone."""

from typing import cast

from gpuyard.engine.model import PodTerm, Requirement, Shape
from gpuyard.engine.model.reporter import Recorder
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle

from tests.engine.builders import Yard, yard


def tried(some: Yard, **settings: object) -> list[tuple[str, ...]]:
    """The sets of victims that were tried, by the names of the pods."""
    recorder = Recorder()
    Cycle(some.snapshot(), Settings(**settings), recorder).run()  # type: ignore[arg-type]
    sets = [cast("tuple[str, ...]", step.detail[1]) for step in recorder.steps if step.what == "tried"]
    return [tuple(pod.removeprefix("ns/") for pod in some) for some in sets]


def crowded(nodes: int = 2) -> Yard:
    """Nodes of 100 millicores, each with four pods of 10 that may be evicted, and a queue that is due all CPU."""
    some = yard().nodes(nodes, cpu=100).queue("a", quota=8).queue("b", weight=0)
    for n in range(nodes):
        some.running("b", 4, on=f"node-{n + 1}", shape=Shape(gpus=1, cpu=10))
    return some


def test_for_a_pod_that_no_node_would_hold_if_it_were_empty_nobody_is_tried() -> None:
    assert tried(crowded().pending("a", name="p", shape=Shape(gpus=1, cpu=101))) == []
    assert tried(crowded().pending("a", name="p", shape=Shape(cpu=101))) == []


def test_nor_for_one_that_would_need_the_room_of_those_who_stay() -> None:
    some = crowded(1).running("a", on="node-1", shape=Shape(cpu=50), preemptible=False)
    assert tried(some.pending("a", name="p", shape=Shape(gpus=1, cpu=60))) == []
    assert tried(some.pending(None, name="free").pending("a", name="q", shape=Shape(gpus=5, cpu=50))) != []


def test_nor_for_one_whose_nodes_by_label_are_all_too_small() -> None:
    some = yard().node("node-1", cpu=100, labels={"zone": "a"}).node("node-2", cpu=1000).queue("a").queue("b")
    some.running("b", on="node-1", shape=Shape(gpus=8)).running("b", on="node-2", shape=Shape(gpus=8))
    assert tried(some.pending("a", name="p", shape=Shape(cpu=500, selector=(("zone", "a"),)))) == []


def test_a_node_is_tried_once_those_taken_from_it_leave_enough_of_everything() -> None:
    """Two of four pods of 10 must go for 80 of 100 millicores, though a GPU is free all along."""
    sets = tried(crowded(1).pending("a", name="p", shape=Shape(gpus=1, cpu=80)), phases=("reclaim",))
    assert sets[0] == ("b-4", "b-3")


def test_a_pod_that_others_keep_away_may_take_from_where_there_is_room_already() -> None:
    """Room is free on the node; it is the company of the other pod that keeps the new one away."""
    away = Shape(gpus=1, cpu=1, pod_anti_affinity=(PodTerm("host", (Requirement("app", "In", ("x",)),)),))
    some = yard().node("node-1", labels={"host": "1"}).queue("a", quota=8).queue("b", weight=0)
    some.running("b", on="node-1", pod={"labels": {"app": "x"}}).pending("a", name="p", shape=away)
    assert tried(some, phases=("reclaim",)) == [("b-1",)]


def test_large_clusters_are_looked_at_in_small_steps() -> None:
    some = yard().nodes(600, cpu=100).queue("a", quota=1600).queue("b").running("b", shape=Shape(gpus=8, cpu=10))
    cycle = Cycle(some.pending("a", name="p", shape=Shape(cpu=101)).snapshot(), Settings(phases=("reclaim",)))
    assert sum(1 for _ in cycle.steps()) > 600 // 16
    assert not cycle.scratch.active(cycle.snapshot.pods["ns/p"])


def test_where_no_gate_lets_anybody_through_nobody_is_put_in_line() -> None:
    some = yard().nodes(1).queue("a", limit=8).running("a", 8).pending("a", 3)
    cycle = Cycle(some.snapshot(), Settings(phases=("preempt",)))
    assert sum(1 for _ in cycle.steps()) == 2 * 3 + 1


def test_a_gang_over_two_nodes_counts_on_each_for_what_it_has_there() -> None:
    some = yard().nodes(2).queue("a", quota=8).queue("b", weight=0)
    some.gang("b", 2, running=2, gpus=8, name="wide", on=("node-1", "node-2"))
    assert tried(some.pending("a", name="p", gpus=8), phases=("reclaim",)) == [("wide-1", "wide-0")]


def test_who_has_been_served_stands_in_no_line_of_later_phases() -> None:
    some = yard().nodes(2).queue("a", quota=8).queue("b").queue("c", quota=8)
    some.running("b", 8, on="node-1").running("c", 8, on="node-2").pending("a", 8).pending("c", priority=75)
    told = some.plan()
    assert len(told.placed("a")) == 8
    assert "c-8" in told.evicted
    assert told.node("c-9") == "node-2"


def test_a_gang_for_which_few_nodes_do_not_do_is_tried_on_longer_and_longer_rows_of_them() -> None:
    """Only the last of nine nodes has the CPU for one of its pods."""
    names = [f"node-{n}" for n in range(1, 10)]
    some = yard().queue("a", quota=72).queue("b", quota=0)
    for name in names:
        some.node(name, cpu=100 if name == names[-1] else 60).running("b", on=name, shape=Shape(gpus=8, cpu=1))
    sets = tried(some.gang("a", 2, name="wide", shape=Shape(gpus=8, cpu=100)), phases=("reclaim",))
    assert [len(row) for row in sets if "b-1" in row][:5] == [1, 2, 3, 5, 9]
