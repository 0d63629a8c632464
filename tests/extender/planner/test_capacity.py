"""A node that reports fewer GPUs for a while counts as before."""

import asyncio

import pytest
from gpuyard.engine.model import Node, Pod, Shape, State
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.extender.planner.look import capacity as module
from gpuyard.extender.planner.look.capacity import Capacity, keep_watch

GRACE = 300


def node(gpus: int, *, ready: bool = True, held: int = 0, capacity: int = -1) -> Snapshot:
    """A node, and a pod on it that holds so many GPUs."""
    pod = Pod(key="ns/a", uid="a", shape=Shape(gpus=held), state=State.RUNNING, node="n")
    return Snapshot.build(nodes=[Node(name="n", gpus=gpus, ready=ready, capacity=capacity)], pods=[pod] if held else [])


def stable(found: list[Node]) -> list[tuple[int, int]]:
    assert all(one.dips and one.counts and not one.open for one in found)
    return [(one.gpus, one.stable_gpus) for one in found]


def test_a_node_that_is_well_does_not_dip() -> None:
    capacity = Capacity()
    assert [stable(capacity.dipping(node(8), now, GRACE)) for now in (0, 1)] == [[], []]


def test_fewer_gpus_are_a_dip_for_the_grace_and_a_loss_afterwards() -> None:
    capacity = Capacity()
    capacity.dipping(node(8), 0, GRACE)
    assert stable(capacity.dipping(node(0), 10, GRACE)) == [(0, 8)]
    assert capacity.next_end(GRACE) == 310
    assert stable(capacity.dipping(node(2, capacity=8), 309, GRACE)) == [(2, 8)]
    assert stable(capacity.dipping(node(2, capacity=8), 310, GRACE)) == []
    assert stable(capacity.dipping(node(0), 311, GRACE)) == [(0, 2)]


@pytest.mark.row("B-33", case="lowered")
@pytest.mark.parametrize("held", [0, 10])
@pytest.mark.parametrize("capacity", [10, -1])
def test_a_lowered_count_that_covers_what_the_pods_hold_is_believed_at_once(held: int, capacity: int) -> None:
    seen = Capacity()
    seen.dipping(node(1000, held=held), 0, GRACE)
    assert seen.dipping(node(10, held=held, capacity=capacity), 10, GRACE) == []
    assert stable(seen.dipping(node(0, held=held), 20, GRACE)) == [(0, 10)]


@pytest.mark.row("B-33", case="restart")
def test_a_lower_count_after_a_restart_is_believed_as_well() -> None:
    capacity = Capacity()
    capacity.dipping(node(1000), 0, GRACE)
    assert stable(capacity.dipping(node(0, capacity=1000), 10, GRACE)) == [(0, 1000)]
    assert capacity.dipping(node(10), 20, GRACE) == []


@pytest.mark.row("B-33", case="dip")
@pytest.mark.parametrize(
    "reported",
    [node(0), node(6, capacity=8), node(6, held=7), node(6, ready=False)],
    ids=["none", "one-unhealthy", "fewer-than-held", "not-ready"],
)
def test_a_lower_count_that_may_be_a_restart_or_a_fault_is_a_dip(reported: Snapshot) -> None:
    capacity = Capacity()
    capacity.dipping(node(8), 0, GRACE)
    assert [found.stable_gpus for found in capacity.dipping(reported, 10, GRACE)] == [8]


def test_whoever_is_back_in_time_starts_anew() -> None:
    capacity = Capacity()
    capacity.dipping(node(8), 0, GRACE)
    capacity.dipping(node(0), 10, GRACE)
    assert stable(capacity.dipping(node(8), 20, GRACE)) == []
    assert capacity.next_end(GRACE) == float("inf")
    assert stable(capacity.dipping(node(0), 400, GRACE)) == [(0, 8)]


def test_a_node_that_is_not_ready_dips_whatever_it_reports() -> None:
    capacity = Capacity()
    capacity.dipping(node(8), 0, GRACE)
    assert stable(capacity.dipping(node(8, ready=False), 10, GRACE)) == [(0, 8)]


def test_what_was_never_seen_well_is_not_missed() -> None:
    capacity = Capacity()
    capacity.dipping(node(8, ready=False), 0, GRACE)
    assert capacity.dipping(node(8, ready=False), 1, GRACE) == []
    assert capacity.dipping(node(8), 2, GRACE) == []


def test_one_that_begins_during_a_dip_sees_by_the_pods_what_the_node_had() -> None:
    capacity = Capacity()
    assert stable(capacity.dipping(node(0, held=6), 100, GRACE)) == [(0, 6)]
    assert capacity.next_end(GRACE) == 400
    assert stable(capacity.dipping(node(0, held=6), 400, GRACE)) == []


async def test_whoever_stands_by_sees_dips_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0)
    capacity, seen = Capacity(), [node(8)]
    watching = asyncio.create_task(keep_watch(capacity, lambda: seen[-1], lambda: GRACE, lambda: 10))
    await asyncio.sleep(0.01)
    seen.append(node(0))
    while capacity.next_end(GRACE) == float("inf"):
        await asyncio.sleep(0)
    watching.cancel()
    assert stable(capacity.dipping(node(0), 20, GRACE)) == [(0, 8)]
