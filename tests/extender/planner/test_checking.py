"""Whether a plan still holds when it is its turn."""

import pytest
from gpuyard.common.plans.plan import Place, Plan
from gpuyard.engine.model import Pod, Promise, Shape
from gpuyard.engine.placing.strategies.pack import PACK
from gpuyard.engine.placing.strategies.spread import SPREAD
from gpuyard.extender.planner.decide.recheck import has_room, still_holds
from msgspec.structs import replace

from tests.extender.builders import Bench, Json, node, pod, queue
from tests.extender.planner.builders import place, plan, victim

THEN = {"ns/a": Pod(key="ns/a", uid="uid-a", shape=Shape(gpus=1))}
TAKING = plan(victim("b"), places=[place("a")])


def holds(of: Plan, *pods: Json, doomed: str = "") -> bool:
    bench = Bench(node("n1"), queue("team"), *pods)
    return still_holds(of, bench.ledger.entries, THEN, {doomed})


def test_as_long_as_nothing_has_changed_it_does() -> None:
    assert holds(TAKING, pod("a", "team"), pod("b", "team", on="n1"))


@pytest.mark.parametrize(
    "there",
    [
        [pod("a", "team")],
        [pod("a", "team"), pod("b", "team")],
        [pod("a", "team"), pod("b", "team", on="n2")],
        [pod("a", "team"), pod("b", "team", on="n1", phase="Succeeded")],
        [pod("b", "team", on="n1")],
        [pod("a", "team", on="n1"), pod("b", "team", on="n1")],
    ],
    ids=["victim gone", "victim waits", "victim elsewhere", "victim done", "claimant gone", "claimant placed"],
)
def test_with_another_victim_or_claimant_it_does_not(there: list[Json]) -> None:
    assert not holds(TAKING, *there)


def test_a_claimant_that_was_let_through_needs_no_plan() -> None:
    bench = Bench(node("n1"), queue("team"), pod("a", "team"), pod("b", "team", on="n1"))
    assert bench.passes(pod("a", "team"))
    assert not still_holds(TAKING, bench.ledger.entries, THEN, ())


def test_whom_kube_scheduler_evicts_is_not_ours_to_evict() -> None:
    assert not holds(TAKING, pod("a", "team"), pod("b", "team", on="n1"), doomed="uid-b")


def test_who_is_moved_is_no_claimant() -> None:
    move = plan(victim("b"), places=[place("a"), place("b", "n1")])
    assert holds(move, pod("a", "team"), pod("b", "team", on="n1"))


def room(of: Plan, *promised: Promise) -> bool:
    pods = [pod("b", "team", 4, on="n1"), pod("c", "team", 2, on="n1")]
    return has_room(of, Bench(node("n1"), queue("team"), *pods).ledger.snapshot, promised, PACK)


def test_what_is_free_and_what_victims_leave_is_to_be_had() -> None:
    assert room(plan(victim("b"), places=[place("a", gpus=6)]))
    assert not room(plan(victim("b"), places=[place("a", gpus=7)]))


def test_what_is_promised_to_others_is_not() -> None:
    other = Promise(plan="other", pod="ns/x", shape=Shape(gpus=1), node="n1")
    assert room(plan(victim("b"), places=[place("a", gpus=5)]), other)
    assert not room(plan(victim("b"), places=[place("a", gpus=6)]), other)


def half(name: str, on: str = "", group: str = "g") -> Json:
    labels = {"runai-gpu-group": group} if on else {}
    return pod(name, "team", 0, on=on, annotations={"gpu-fraction": "0.5"}, labels=labels)


HALF = Shape(fraction=500)


def shared(*taken: Json, places: list[Place], promised: tuple[Promise, ...] = (), gone: str = "") -> bool:
    """Whether there is room for parts on a node with two GPUs."""
    of = plan(*([victim(gone)] if gone else []), places=places)
    return has_room(of, Bench(node("n1", 2), queue("team"), *taken).ledger.snapshot, promised, PACK)


def part(name: str, *groups: str) -> Place:
    return replace(place(name), shape=HALF, gpu_groups=groups)


def test_parts_of_gpus_are_counted_as_well() -> None:
    assert shared(half("b", "n1"), pod("c", on="n1"), places=[part("a", "g")])
    assert not shared(half("b", "n1"), half("c", "n1"), pod("d", on="n1"), places=[part("a", "g")])
    assert not shared(half("b", "n1"), pod("c", on="n1"), places=[part("a"), part("e")])


def test_a_part_that_a_victim_leaves_is_to_be_had() -> None:
    assert shared(half("b", "n1"), half("c", "n1"), pod("d", on="n1"), places=[part("a", "g")], gone="b")


def test_a_part_that_is_promised_to_others_is_not() -> None:
    other = Promise(plan="other", pod="ns/x", shape=HALF, node="n1", gpu_groups=("g",))
    assert not shared(half("b", "n1"), pod("c", on="n1"), places=[part("a", "g")], promised=(other,))
    elsewhere = replace(other, node="n2")
    assert shared(half("b", "n1"), pod("c", on="n1"), places=[part("a", "g")], promised=(elsewhere,))


def test_a_whole_gpu_is_not_to_be_had_while_a_part_of_it_is_taken() -> None:
    assert shared(half("b", "n1"), places=[place("a", gpus=1)])
    assert not shared(half("b", "n1"), places=[place("a", gpus=2)])


def test_on_a_node_that_is_gone_there_is_no_room() -> None:
    assert not room(plan(places=[place("a", "gone")]))


@pytest.mark.row("B-80", case="planner")
def test_a_promised_part_without_a_gpu_takes_the_one_that_the_strategy_gives_it() -> None:
    """Packed beside the part that runs it leaves a whole GPU; spread it takes that one, and no whole one is left."""
    whole = plan(places=[place("a", gpus=1)])
    promised = Promise(plan="other", pod="ns/x", shape=HALF, node="n1")
    snapshot = Bench(node("n1", 2), queue("team"), half("b", on="n1")).ledger.snapshot
    assert has_room(whole, snapshot, [promised], PACK)
    assert not has_room(whole, snapshot, [promised], SPREAD)
