"""What the values of the engine say of themselves."""

import pytest
from gpuyard.engine.model import Amounts, Gang, Node, Pod, Shape, State, Workload


def test_a_workload_and_its_pods_are_in_the_namespace_of_their_keys() -> None:
    assert Workload(key="team/job").namespace == Pod(key="team/job-0", shape=Shape()).namespace == "team"


@pytest.mark.parametrize(
    ("state", "holds", "active"),
    [
        (State.PENDING, False, False),
        (State.BOUND, True, True),
        (State.RUNNING, True, True),
        (State.TERMINATING, True, False),
        (State.SUCCEEDED, False, False),
        (State.FAILED, False, False),
    ],
)
def test_a_pod_on_its_way_out_still_holds_room_but_counts_no_more(state: State, *, holds: bool, active: bool) -> None:
    pod = Pod(key="ns/a", shape=Shape(), state=state)
    assert (pod.holds, pod.active) == (holds, active)


def test_a_node_in_a_dip_counts_for_the_shares_but_takes_no_pods() -> None:
    node = Node(name="node-1", gpus=6, stable_gpus=8, ready=False)
    assert node.dips
    assert node.counts
    assert not node.open


def test_a_gang_of_parts_stands_with_enough_parts_that_stand() -> None:
    gang = Gang(minimum=1, parts=(Gang(name="one", minimum=2), Gang(name="two", minimum=1)))
    assert gang.stands({"one": 2})
    assert gang.stands({"two": 1})
    assert not gang.stands({"one": 1})
    assert [leaf.name for leaf in gang.leaves] == ["one", "two"]


@pytest.mark.parametrize("shape", [Shape(gpus=1), Shape(fraction=500), Shape(gpu_memory=1024)])
def test_every_way_to_ask_for_a_gpu_asks_for_one(shape: Shape) -> None:
    assert shape.wants_gpu
    assert shape.shared is not bool(shape.gpus)


def test_amounts_are_added_and_taken_away_resource_by_resource() -> None:
    assert Amounts(3, 2, 1).plus(Amounts(1, 1, 1)).minus(Amounts(2, 2, 2)) == Amounts(2, 1, 0)
