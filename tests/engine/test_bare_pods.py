"""Pods without an owner: moved only where the settings allow it, since somebody has to create them again."""

import pytest
from gpuyard.engine.model import Shape
from gpuyard.engine.model.results import Reason
from gpuyard.engine.placing.placement import Placer
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.stepwise import at_once

from tests.engine.builders import Told, Yard, yard

BARE = {"bare": True}


def fragmented(**pod: bool) -> Yard:
    """Two nodes of 4, half full each; the newer pod would have to move for one that needs a whole node."""
    some = yard().nodes(2, gpus=4).queue("a", quota=8)
    some.running("a", name="p1", gpus=2, on="node-1", preemptible=False)
    return some.running("a", name="p2", gpus=2, on="node-2", pod=pod).pending("a", name="big", gpus=4)


def both(some: Yard, **settings: bool) -> tuple[Told, Told]:
    """What happens without moves of bare pods, and with them."""
    return some.plan(**settings), some.plan(move_bare_pods=True, **settings)


@pytest.mark.row("X-77", case="consolidate")
def test_a_bare_pod_is_not_moved_to_make_room_unless_the_settings_allow_it() -> None:
    off, on = both(fragmented(**BARE))
    assert (off.evicted, off.reason("big")) == ([], Reason.FRAGMENTED)
    assert (on.moved, on.node("big")) == ({"p2": "node-1"}, "node-2")


def test_a_pod_with_an_owner_is_moved_whatever_the_settings_say() -> None:
    off, on = both(fragmented(bare=False))
    assert off.moved == on.moved == {"p2": "node-1"}


def test_of_two_pods_that_could_move_the_one_with_an_owner_moves() -> None:
    some = yard().nodes(2, gpus=4).queue("a", quota=8)
    some.running("a", name="owned", gpus=2, on="node-1").running("a", name="bare", gpus=2, on="node-2", pod=BARE)
    assert some.pending("a", name="big", gpus=4).plan().moved == {"owned": "node-2"}


def test_a_gang_with_one_bare_pod_is_not_moved() -> None:
    some = yard().nodes(2, gpus=4).queue("a", quota=8).running("a", gpus=2, on="node-1", preemptible=False)
    some.gang("a", 2, name="gang", gpus=1, running=2, on=("node-2",)).pod("gang-1", bare=True)
    assert some.pending("a", name="big", gpus=4).plan().evicted == []


@pytest.mark.row("X-77", case="keep-nodes-empty")
def test_a_bare_pod_is_not_moved_to_keep_a_node_empty_either() -> None:
    some = yard().nodes(3, gpus=4).queue("a", quota=12)
    some.running("a", gpus=2, on="node-1", preemptible=False).running("a", name="p2", gpus=2, on="node-2", pod=BARE)
    off, on = both(some.pending("a", name="big", gpus=4), keep_nodes_empty=True)
    assert (off.evicted, off.node("big")) == ([], "node-3")
    assert on.moved == {"p2": "node-1"}


def lent(**pod: bool) -> Yard:
    """A borrower on two nodes of 4, with room for one pod left on the other node; the owner wants one node."""
    some = yard().nodes(2, gpus=4).queue("lent").queue("own", quota=8)
    some.running("own", gpus=2, on="node-1", preemptible=False).running("lent", name="b", gpus=2, on="node-2", pod=pod)
    return some.pending("own", name="claim", gpus=4, priority=100, preemptible=False)


@pytest.mark.row("X-77", case="reclaim")
def test_what_a_bare_pod_holds_is_still_taken_back_and_the_pod_has_no_other_place() -> None:
    off, on = both(lent(**BARE), phases=("allocate", "reclaim"))  # type: ignore[arg-type]
    assert (off.evicted[:1], "b" in off.moved) == (["b"], False)
    assert (on.evicted, on.moved) == (["b"], {"b": "node-1"})


def test_a_bare_victim_that_need_not_go_stays_on_its_own_place() -> None:
    some = yard().nodes(2, gpus=4).queue("lent").queue("own", quota=4)
    some.running("lent", name="old", gpus=2, on="node-1", pod=BARE)
    some.running("lent", name="new", gpus=2, on="node-1", pod=BARE)
    some.running("own", gpus=2, on="node-2", preemptible=False)
    some.running("lent", name="other", gpus=2, on="node-2", pod=BARE)
    told = some.pending("own", name="claim", gpus=2).plan(phases=("allocate", "reclaim"))
    assert len(told.evicted) == 1
    assert told.moved == {}


def test_a_bare_pod_with_part_of_a_gpu_comes_back_to_its_own_gpu_or_not_at_all() -> None:
    half = Shape(fraction=500)
    some = yard().nodes(1, gpus=2).queue("lent").queue("own", quota=2)
    for name in ("one", "two"):
        some.running("lent", name=name, shape=half, on="node-1", pod=BARE | {"gpu_groups": (f"gpu-of-{name}",)})
    told = some.pending("own", name="claim", gpus=1).plan(phases=("allocate", "reclaim"))
    assert "claim" in told.placed()
    assert (len(told.evicted), told.moved) == (1, {})


@pytest.mark.parametrize(("within", "node"), [(None, "node-1"), ({"node-1", "node-2"}, "node-1"), ({"node-2"}, None)])
def test_the_only_place_of_a_pod_that_is_not_moved_is_its_own(within: set[str] | None, node: str | None) -> None:
    snapshot = yard().nodes(2).queue("a").running("a", name="p", on="node-1", pod=BARE).snapshot()
    scratch, pod = Scratch(snapshot, Accounts.of(snapshot, 0)), snapshot.pods["ns/p"]
    scratch.evict(pod)
    placer = Placer(scratch, PACK, {}, moves_bare=False)
    spot = at_once(placer.find(pod, None if within is None else frozenset(within)))
    assert (spot.node if spot else None) == node


def test_once_its_place_is_taken_a_pod_that_is_not_moved_has_none() -> None:
    some = yard().nodes(2, gpus=1).queue("a").running("a", name="p", on="node-1", pod=BARE)
    snapshot = some.pending("a", name="new").snapshot()
    scratch, pod = Scratch(snapshot, Accounts.of(snapshot, 0)), snapshot.pods["ns/p"]
    scratch.evict(pod)
    scratch.nominate(snapshot.pods["ns/new"], "node-1", ())
    assert at_once(Placer(scratch, PACK, {}, moves_bare=False).find(pod)) is None
