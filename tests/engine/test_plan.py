"""Settings that take a phase away."""

from tests.engine.builders import Yard, yard


def scattered() -> Yard:
    """Eight GPUs are free, but only once one of two pods has moved to the other's node."""
    some = yard().nodes(2).queue("a", quota=16)
    return some.running("a", on="node-1", gpus=4).running("a", on="node-2", gpus=4).pending("a", gpus=8)


def test_a_pod_moves_to_make_a_whole_node_free() -> None:
    told = scattered().plan()
    assert len(told.moved) == 1
    assert told.waits() == []


def test_where_nobody_may_be_moved_the_room_stays_scattered() -> None:
    told = scattered().plan(max_moved=0)
    assert told.evicted == []
    assert told.waits() == ["a-3"]
