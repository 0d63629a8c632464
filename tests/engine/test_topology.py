"""Gangs that must, or would rather, stay within one domain."""

import pytest
from gpuyard.engine.model import Shape, TopologyConstraint
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle

from tests.engine.builders import Yard, yard


def racks() -> Yard:
    """Two zones of two racks of two nodes of 4 GPUs: nodes 1 and 2 are in the first rack."""
    some = yard().queue("a", quota=32).topology("net", "zone", "rack")
    for n in range(8):
        some.node(f"node-{n + 1}", gpus=4, labels={"zone": f"z{n // 4 + 1}", "rack": f"r{n // 2 + 1}"})
    return some


def within(*, required: str = "", preferred: str = "", topology: str = "net") -> TopologyConstraint:
    return TopologyConstraint(topology, required, preferred)


def racks_of(placed: dict[str, str]) -> set[int]:
    return {(int(node.removeprefix("node-")) - 1) // 2 for node in placed.values()}


def test_a_gang_stays_within_the_level_it_requires() -> None:
    some = racks().running("a", on="node-1").gang("a", 2, gpus=4, topology=within(required="rack"))
    started = some.plan().started
    assert len(started) == 2
    assert len(racks_of(started)) == 1
    assert 0 not in racks_of(started)


def test_the_domain_with_the_least_room_that_holds_the_gang_is_taken() -> None:
    some = racks().running("a", on="node-7").gang("a", 2, gpus=3, topology=within(required="rack"))
    assert racks_of(some.plan().started) == {3}


def test_a_gang_that_no_domain_holds_waits() -> None:
    told = racks().gang("a", 3, gpus=4, topology=within(required="rack")).plan()
    assert told.placed() == []


def test_a_preferred_level_is_left_for_a_wider_one_where_it_must() -> None:
    some = racks().gang("a", 3, gpus=4, topology=within(required="zone", preferred="rack"))
    assert len(some.plan().started) == 3


def test_without_a_required_level_the_gang_may_spread_over_everything() -> None:
    assert len(racks().gang("a", 6, gpus=4, topology=within(preferred="rack")).plan().started) == 6


def test_pods_that_run_pin_the_domain() -> None:
    some = racks().gang("a", 4, minimum=2, running=2, on=("node-3", "node-4"), topology=within(required="rack"))
    assert racks_of(some.plan().started) == {1}


@pytest.mark.parametrize("constraint", [within(required="row"), within(required="rack", topology="none"), within()])
def test_a_level_or_a_topology_that_does_not_exist_holds_nobody(constraint: TopologyConstraint) -> None:
    assert racks().gang("a", 2, topology=constraint).plan().placed() == []


def test_pods_with_and_without_gpus_are_counted_by_their_sum() -> None:
    some = racks().gang("a", 2, name="mixed", gpus=4, topology=within(required="rack"))
    some.pod("mixed-1", shape=Shape(cpu=1000))
    assert len(racks_of(some.plan().started)) == 1


def test_the_domains_of_many_nodes_are_looked_at_step_by_step() -> None:
    def steps(nodes: int) -> int:
        some = yard().queue("a", quota=32).topology("net", "rack")
        for n in range(nodes):
            some.node(f"node-{n}", gpus=4, labels={"rack": f"r{n // 100}"})
        some.gang("a", 101, gpus=4, topology=within(required="rack"))
        return sum(1 for _ in Cycle(some.snapshot(), Settings()).steps())

    assert steps(800) - steps(400) >= 2 * 400 // 8


def test_parts_of_gpus_find_room_on_shared_ones_of_the_domain() -> None:
    some = racks()
    some.running("a", gpus="0.5", on="node-1", pod={"gpu_groups": ("shared",)})
    some.gang("a", 2, gpus="0.5", topology=within(required="rack"))
    assert len(racks_of(some.plan().started)) == 1


def test_nodes_outside_the_topology_take_no_part() -> None:
    some = racks().node("node-9", gpus=8).gang("a", 2, gpus=4, topology=within(required="rack"))
    assert "node-9" not in some.plan().started.values()
