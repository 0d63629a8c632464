"""A node that reports fewer GPUs for a while counts as before."""

from gpuyard.engine.model import Node
from gpuyard.extender.planner.capacity import Capacity

GRACE = 300


def node(gpus: int, *, ready: bool = True) -> dict[str, Node]:
    return {"n": Node(name="n", gpus=gpus, ready=ready)}


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
    assert stable(capacity.dipping(node(2), 309, GRACE)) == [(2, 8)]
    assert stable(capacity.dipping(node(2), 310, GRACE)) == []
    assert stable(capacity.dipping(node(0), 311, GRACE)) == [(0, 2)]


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
