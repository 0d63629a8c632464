"""Victims are found for a whole gang at once, and none that the plan can do without."""

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
