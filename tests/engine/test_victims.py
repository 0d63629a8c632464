"""Victims are found for a whole gang at once, and none that the plan can do without."""

from gpuyard.engine.model import Shape

from tests.engine.builders import yard


def test_a_victim_that_the_plan_can_do_without_keeps_its_place() -> None:
    """The newest is tried first; beside the one that must go it is not needed, and its queue could not take it back."""
    some = yard().nodes(1, gpus=5).queue("a", quota=4).queue("b", limit=0)
    told = some.running("b", gpus=4).running("b", gpus=1).pending("a", gpus=4).plan()
    assert told.evicted == ["b-1"]
    assert told.placed() == ["a-1", "b-2"]


def test_a_gang_over_many_nodes_gathers_its_victims_node_by_node() -> None:
    some = yard().nodes(5).queue("a", quota=40).queue("b").running("b", 5, gpus=8)
    told = some.gang("a", 5, gpus=8, name="wide").plan()
    assert sorted(told.evicted) == [f"b-{number}" for number in range(1, 6)]
    assert len(told.placed("wide")) == 5


def test_a_gang_takes_no_more_nodes_than_it_needs() -> None:
    some = yard().nodes(6).queue("a", quota=24).queue("b", quota=24).running("b", 6, gpus=8)
    told = some.gang("a", 3, gpus=8, name="wide").plan()
    assert sorted(told.evicted) == ["b-4", "b-5", "b-6"]


def test_a_gang_with_pods_of_two_sizes_finds_its_victims_by_trial_alone() -> None:
    some = yard().nodes(2).queue("a", quota=12).queue("b").running("b", 2, gpus=8)
    some.gang("a", 2, gpus=4, name="mixed").pod("mixed-0", shape=some.snapshot().pods["ns/b-1"].shape)
    told = some.plan()
    assert sorted(told.evicted) == ["b-1", "b-2"]
    assert len(told.placed("mixed")) == 2


def test_a_node_that_takes_no_pods_is_no_room_however_many_leave_it() -> None:
    some = yard().node("node-1", cordoned=True).node("node-2").queue("a", quota=16).queue("b")
    some.running("b", gpus=8, on="node-2").running("b", 8, on="node-1")
    assert some.pending("a", gpus=2).plan().evicted == ["b-1"]


def test_a_gang_of_which_one_pod_fits_nowhere_evicts_nobody() -> None:
    """For one of its pods a node could be cleared, and the GPUs of two would do: but only one has the CPU."""
    some = yard().node("node-1").node("node-2", cpu=10).node("node-3", cpu=10).queue("a", quota=16).queue("b")
    for node in ("node-1", "node-2", "node-3"):
        some.running("b", gpus=8, on=node)
    told = some.gang("a", 2, name="wide", shape=Shape(gpus=8, cpu=100)).plan()
    assert told.evicted == []
    assert len(told.waits("wide")) == 2


def test_a_victim_whose_own_place_is_still_free_stays_there() -> None:
    """Both pods of `x` are tried as victims; packing would place the second on node-0, but it need not move at all."""
    some = yard().node("node-0", gpus=4).node("node-1", gpus=4).node("node-2", gpus=4).queue("a", quota=4).queue("x")
    some.running("a", gpus=3, on="node-0", preemptible=False).running("a", on="node-2", preemptible=False)
    some.gang("x", 2, minimum=1, running=2, name="x", gpus=1, on=("node-1", "node-2")).pod("x-0", shape=Shape(gpus=2))
    told = some.pending("x", gpus=4, name="big").plan()
    assert told.node("big") == "node-1"
    assert told.evicted == ["x-0"]
    assert told.moved == {"x-0": "node-2"}


def test_a_victim_of_several_pods_finds_places_again_chunk_by_chunk() -> None:
    """First its core, then each pod above the minimum for which there is room."""
    some = yard().nodes(2).queue("a", quota=8).queue("b", quota=2)
    some.gang("b", 4, minimum=2, running=4, name="elastic", on=("node-1",))
    some.running("b", gpus=4, on="node-2", preemptible=False)
    told = some.pending("a", gpus=8, name="big").plan()
    assert told.node("big") == "node-1"
    assert told.moved == {f"elastic-{number}": "node-2" for number in range(4)}
