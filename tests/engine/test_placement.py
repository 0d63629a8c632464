"""Pods without GPUs: the place that the indexes find is the one that looking at every node would find."""

from random import Random

import pytest
from gpuyard.engine.model import Node, Pod, PodTerm, Requirement, Shape
from gpuyard.engine.placing.node_room import Room
from gpuyard.engine.placing.placement import Placer, Spot
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.placing.strategies import STRATEGIES, Strategy
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.stepwise import at_once

from tests.engine.builders import yard

ONE_CORE = Shape(cpu=1000)


def nodes(chance: Random) -> list[Node]:
    return [
        Node(
            name=f"node-{n}",
            gpus=chance.choice([0, 8]),
            cpu=chance.randrange(1, 6) * 1000,
            memory=chance.choice([0, 10]),
            pods=chance.choice([1, 9]),
            cordoned=chance.random() < 0.1,
        )
        for n in range(12)
    ]


def placer(scratch: Scratch, strategy: Strategy = PACK) -> Placer:
    return Placer(scratch, strategy, {})


def scratch_of(*some: Node) -> Scratch:
    snapshot = yard().queue("a", quota=8).pending("a", shape=ONE_CORE).snapshot().with_node(*some)
    return Scratch(snapshot, Accounts.of(snapshot, 0))


def looked_for(scratch: Scratch, shape: Shape, strategy: Strategy) -> str | None:
    """The best of all nodes by the list of the module."""

    def rank(room: Room) -> tuple[bool, bool, int, str]:
        return not room.fits_now(shape), bool(room.node.gpus), strategy.rank(room.cpu_later), room.node.name

    rooms = map(scratch.rooms.__getitem__, scratch.rooms.names())
    best = min((rank(room) for room in rooms if room.node.open and room.fits_later(shape)), default=None)
    return best[-1] if best else None


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("seed", range(20))
def test_a_pod_without_gpus_gets_the_place_that_looking_at_all_nodes_would_give(seed: int, strategy: Strategy) -> None:
    chance = Random(seed)
    scratch = scratch_of(*nodes(chance))
    places = placer(scratch, strategy)
    while True:
        shape = Shape(cpu=chance.choice([0, 1000, 2000]), memory=chance.choice([0, 1]))
        spot = at_once(places.find(Pod(key="ns/new", workload="ns/a-1", shape=shape)))
        assert (spot.node if spot else None) == looked_for(scratch, shape, strategy)
        if spot is None:
            return
        scratch.rooms.shift(spot.node, shape, (), chance.choice([0, -1]), -1)


def test_a_node_without_gpus_comes_before_one_that_is_fuller() -> None:
    scratch = scratch_of(Node(name="gpus", gpus=8, cpu=1000), Node(name="plain", cpu=9000))
    assert scratch.rooms.names()
    spot = at_once(placer(scratch).find(Pod(key="ns/new", shape=ONE_CORE)))
    assert spot is not None
    assert spot.node == "plain"


def test_who_asks_for_nothing_fits_where_more_is_used_than_there_is() -> None:
    scratch = scratch_of(Node(name="plain", cpu=500))
    scratch.rooms.shift("plain", ONE_CORE, (), -1, -1)
    places = placer(scratch)
    assert at_once(places.find(Pod(key="ns/new", shape=ONE_CORE))) is None
    assert places.find(Pod(key="ns/new", shape=Shape())) is not None


def test_the_index_is_made_with_pauses_and_only_for_who_needs_it() -> None:
    scratch = scratch_of(Node(name="plain", cpu=5000))
    places = placer(scratch)
    assert list(places.prepare(scratch.team("ns/a-1")))
    assert not list(places.prepare(scratch.team("ns/a-1")))


def test_a_node_that_does_not_suit_the_pod_is_passed_over() -> None:
    scratch = scratch_of(Node(name="best", cpu=1000), Node(name="other", cpu=9000))
    spot = at_once(placer(scratch).find(Pod(key="ns/new", shape=ONE_CORE), frozenset({"other"})))
    assert spot is not None
    assert spot.node == "other"


# --- pods with an affinity


def random_hosts(chance: Random) -> Scratch:
    """Nodes with GPUs, some shared, some with pods that others seek or avoid."""
    some = yard().queue("a", quota=99)
    for n in range(8):
        zone = {"host": str(n), "zone": str(n % 3)}
        some.node(f"node-{n}", gpus=4, labels=zone, cpu=chance.randrange(1, 4) * 1000)
    for _ in range(10):
        on, labels = f"node-{chance.randrange(8)}", {"app": chance.choice(["web", "db"])}
        shape = Shape(fraction=300) if chance.random() < 0.4 else Shape(cpu=200)
        some.running("a", shape=shape, on=on, pod={"labels": labels, "gpu_groups": ("g",) if shape.shared else ()})
    snapshot = some.pending("a").snapshot()
    return Scratch(snapshot, Accounts.of(snapshot, 0))


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("seed", range(30))
def test_where_only_required_affinity_decides_the_index_finds_what_looking_at_all_nodes_would(
    seed: int, strategy: Strategy
) -> None:
    chance = Random(seed)
    scratch = random_hosts(chance)
    term = PodTerm(chance.choice(["host", "zone"]), (Requirement("app", "In", ("web",)),))
    field = chance.choice(["pod_affinity", "pod_anti_affinity"])
    asked = chance.choice([{"gpus": 1}, {"gpus": 3}, {"fraction": 400}, {"cpu": 500}])
    # A preference that no node fulfils ranks none, but has all of them looked at.
    nobody = PodTerm("host", (Requirement("app", "In", ("none",)),), weight=1)

    def found(*terms: PodTerm) -> Spot | None:
        shape = Shape(**asked, **{field: terms})  # type: ignore[arg-type]
        return at_once(placer(scratch, strategy).find(Pod(key="ns/new", workload="ns/a-1", shape=shape)))

    assert found(term) == found(term, nobody)
