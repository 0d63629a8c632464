"""What is advised has been tried: with it the pod runs, with one unit less it does not."""

from collections.abc import Iterator
from itertools import islice

import msgspec
import pytest
from gpuyard.engine.explain.advice import PLACED, Advice, advise
from gpuyard.engine.explain.changes import (
    HOSTNAME,
    AddNode,
    BoundKind,
    Change,
    Demand,
    Lapse,
    MakePreemptible,
    Raise,
    Relax,
    Shrink,
    SmallerGang,
    UseQueue,
    Wait,
)
from gpuyard.engine.model import PodTerm, Requirement, Shape
from gpuyard.engine.model.results import Reason
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.settle import settle

from tests.engine.builders import Yard, yard
from tests.engine.random_yards import NOW, RandomYard

ENOUGH = 200
SETTINGS = Settings()

CALM = {
    "limited": 0.0,
    "choosy": 0.0,
    "tainted": 0.0,
    "promised": 0.0,
    "hungry": 0.0,
    "small": 0.1,
    "fixed": 0.0,
    "gang": 0.0,
    "big": 0.0,
}
LIKELY: dict[type | BoundKind, dict[str, float]] = {
    Wait: CALM | {"protected": 1, "full": 0.97, "deserving": 0.97, "small": 0},
    Lapse: CALM | {"promised": 1, "full": 0.1},
    UseQueue: CALM | {"misspelt": 1, "full": 0.3},
    Relax: CALM | {"choosy": 1, "full": 0.2, "tainted": 0.5},
    "limit": CALM | {"limited": 1, "full": 0.5},
    "quota": CALM | {"fixed": 1, "full": 0.2},
    SmallerGang: CALM | {"gang": 1, "full": 0.9},
    Shrink: CALM | {"big": 1, "full": 0.6, "small": 0.3, "hungry": 0.1},
    MakePreemptible: CALM | {"fixed": 1, "full": 0.2},
    AddNode: {"full": 1, "limited": 0},
}


def runs(snapshot: Snapshot, pod: str) -> bool:
    return settle(snapshot, SETTINGS).final[pod].state in PLACED


def helped(kind: type | BoundKind) -> Iterator[tuple[RandomYard, list[Change]]]:
    """Clusters made by chance in which this kind of change helps, with the changes; of bounds one kind by its name."""
    for seed in range(2000):
        made = RandomYard(seed, **LIKELY[kind])
        advice = advise(made.snapshot, SETTINGS, made.pod, kinds=(kind if isinstance(kind, type) else Raise,))
        found = [option.change for option in advice.options] if advice is not None else []
        meant = [change for change in found if isinstance(kind, type) or getattr(change, "kind", "") == kind]
        if meant:
            yield made, meant


def verify(made: RandomYard, change: Change) -> None:
    """The pod waits; it runs with the change, and does not with one unit less."""
    assert not runs(made.snapshot, made.pod)
    assert runs(change.apply(made.snapshot), made.pod)
    less = change.weaker()
    assert less is None or not runs(less.apply(made.snapshot), made.pod)


@pytest.mark.chance
@pytest.mark.parametrize("kind", LIKELY, ids=lambda kind: getattr(kind, "__name__", kind))
def test_the_advice_makes_the_pod_run_and_one_unit_less_does_not(kind: type | BoundKind) -> None:
    clusters = 0
    for made, found in islice(helped(kind), ENOUGH):
        clusters += 1
        for change in found:
            verify(made, change)
    assert clusters == ENOUGH


def advised(made: Yard, pod: str) -> Advice:
    advice = advise(made.snapshot(), SETTINGS, f"ns/{pod}")
    assert advice is not None, f"{pod} does not wait"
    return advice


def changes(made: Yard, pod: str) -> list[Change]:
    return [option.change for option in advised(made, pod).options]


def test_a_pod_that_runs_needs_no_advice() -> None:
    made = yard().nodes(1).queue("a").pending("a")
    assert advise(made.snapshot(), SETTINGS, "ns/a-1") is None


def test_no_change_helps_a_pod_before_its_scheduling_gates_are_gone() -> None:
    made = yard().nodes(1).queue("a").pending("a").pod("a-1", gated=True)
    assert advise(made.snapshot(), SETTINGS, "ns/a-1") is None


@pytest.mark.row("Q-41", case="limit")
def test_a_limit_is_raised_by_just_what_is_asked() -> None:
    made = yard().nodes(2).queue("a", limit=8).running("a", 8).pending("a", gpus=2)
    assert Raise(queue="a", resource="gpu", kind="limit", to=10_000) in changes(made, "a-9")


def test_a_limit_is_raised_further_where_others_of_the_queue_go_first() -> None:
    made = yard().nodes(2).queue("a", limit=2).running("a", 2).pending("a", 3)
    assert Raise(queue="a", resource="gpu", kind="limit", to=5000) in changes(made, "a-5")


def test_the_department_is_named_where_its_limit_is_the_cause() -> None:
    made = yard().nodes(2).queue("d", limit=8).queue("a", parent="d").running("a", 8).pending("a")
    raised = [c for c in changes(made, "a-9") if isinstance(c, Raise)]
    assert raised == [Raise(queue="d", resource="gpu", kind="limit", to=9000)]


@pytest.mark.row("Q-41", case="quota")
def test_a_pod_that_may_not_pass_its_quota_may_do_so_when_preemptible() -> None:
    made = yard().nodes(1).queue("a", quota=2).pending("a", gpus=5, preemptible=False, priority=100)
    assert MakePreemptible(workload="ns/a-1") in changes(made, "a-1")
    assert Raise(queue="a", resource="gpu", kind="quota", to=5000) in changes(made, "a-1")
    assert Shrink(workload="ns/a-1", shape=Shape(gpus=5), field="gpus", to=2) in changes(made, "a-1")


def test_a_node_as_large_as_the_pod_is_enough_for_it() -> None:
    made = yard().nodes(2, gpus=4).queue("a").pending("a", gpus=6)
    assert AddNode(workload="ns/a-1", gpus=6) in changes(made, "a-1")


@pytest.mark.parametrize(
    ("demand", "app"),
    [("pod_affinity", Requirement("app", "In", ("y",))), ("pod_anti_affinity", Requirement("app", "Exists"))],
)
def test_an_affinity_that_keeps_the_pod_off_every_node_may_be_dropped(demand: Demand, app: Requirement) -> None:
    shape = msgspec.structs.replace(Shape(gpus=1), **{demand: (PodTerm("zone", (app,)),)})
    made = yard().nodes(1, labels={"zone": "east"}).queue("a").running("a", pod={"labels": {"app": "x"}})
    assert Relax(workload="ns/a-2", demand=demand) in changes(made.pending("a", shape=shape), "a-2")


HOST_TERM = PodTerm(HOSTNAME, (Requirement("app", "In", ("x",)),))


def on_a_host(shape: Shape, *, gpus: int) -> Yard:
    """One host with a pod of app x that stays there, and another one that waits, with a demand on hosts."""
    app = {"labels": {"app": "x"}}
    made = yard().nodes(1, labels={HOSTNAME: "node-1"}).queue("a", quota=8)
    return made.running("a", gpus=gpus, preemptible=False, pod=app).pending("a", shape=shape, pod=app)


@pytest.mark.parametrize(
    "shape",
    [Shape(gpus=1, selector=((HOSTNAME, "node-1"),)), Shape(gpus=1, pod_affinity=(HOST_TERM,))],
    ids=["selector", "affinity"],
)
def test_no_node_is_advised_for_a_pod_that_only_one_host_can_take(shape: Shape) -> None:
    assert AddNode not in map(type, changes(on_a_host(shape, gpus=8), "a-2"))


def test_a_node_is_advised_for_a_pod_that_wants_a_host_to_itself() -> None:
    made = on_a_host(Shape(gpus=1, pod_anti_affinity=(HOST_TERM,)), gpus=1)
    assert AddNode(workload="ns/a-2", gpus=1) in changes(made, "a-2")


def test_no_node_is_advised_for_a_pod_without_gpu() -> None:
    made = yard().nodes(1, cpu=1000).queue("a").pending("a", shape=Shape(cpu=2000))
    assert [type(change) for change in changes(made, "a-1")] == [Shrink]


def test_a_queue_whose_name_is_misspelt_is_set_right() -> None:
    made = yard().nodes(1).queue("vision").pending("vison")
    assert changes(made, "vison-1") == [UseQueue(workload="ns/vison-1", queue="vision")]


def test_the_cost_is_told_with_the_option() -> None:
    made = yard().nodes(1).queue("a", weight=0).queue("b", quota=4).running("b", 8).pending("a")
    [raised] = [o for o in advised(made, "a-1").options if isinstance(o.change, Raise)]
    assert raised.evicted == ("ns/b-8",)
    assert raised.node == "node-1"


def test_who_would_wait_instead_is_told_with_the_option() -> None:
    made = yard().nodes(1, gpus=8).queue("a").pending("a", gpus=9, name="big").pending("a", gpus=2, name="small")
    [smaller] = [o for o in advised(made, "big").options if isinstance(o.change, Shrink)]
    assert smaller.change == Shrink(workload="ns/big", shape=Shape(gpus=9), field="gpus", to=8)
    assert smaller.displaced == ("ns/small",)


def test_where_no_single_change_helps_both_causes_are_named() -> None:
    made = yard().nodes(1).queue("d", limit=4).queue("a", limit=2, parent="d").running("a", 2)
    made.queue("b", parent="d").running("b", 2).pending("a")
    advice = advised(made, "a-3")
    assert advice.options == ()
    assert [c.reason for c in advice.causes] == [Reason.OVER_LIMIT, Reason.OVER_LIMIT]
    assert [getattr(c.facts, "queue", "") for c in advice.causes] == ["a", "d"]


def test_where_two_causes_stand_in_the_way_two_changes_help_together() -> None:
    made = yard().nodes(1).queue("d", limit=4).queue("a", limit=2, parent="d").running("a", 2)
    made.queue("b", parent="d").running("b", 2).pending("a")
    first, *others = advised(made, "a-3").pairs
    assert first.change == Raise(queue="a", resource="gpu", kind="limit", to=3000)
    assert first.also == Raise(queue="d", resource="gpu", kind="limit", to=5000)
    assert first.node == "node-1"
    assert not first.evicted
    assert all(other.evicted for other in others), "what costs others their places comes last"


def test_of_two_changes_together_each_is_as_small_as_it_may_be() -> None:
    made = yard().nodes(1).queue("a", limit=6).running("a", gpus=6).pending("a", gpus=4)
    pairs = [(pair.change, pair.also) for pair in advised(made, "a-2").pairs]
    limits = [change.to for change, _ in pairs if isinstance(change, Raise)]
    assert limits == [8000, 10_000]
    assert [also.to for _, also in pairs if isinstance(also, Shrink)] == [2]
    assert [also.gpus for _, also in pairs if isinstance(also, AddNode)] == [4]


@pytest.mark.chance
def test_pairs_in_clusters_made_by_chance_let_the_pod_run() -> None:
    found = 0
    for seed in range(150):
        made = RandomYard(seed, **(CALM | {"limited": 1, "full": 1, "small": 0.5}))
        advice = advise(made.snapshot, SETTINGS, made.pod)
        for pair in advice.pairs if advice is not None else ():
            assert pair.also is not None
            assert runs(pair.change.apply(pair.also.apply(made.snapshot)), made.pod)
            assert not runs(pair.change.apply(made.snapshot), made.pod)
            found += 1
    assert found > 10


def test_for_a_pod_that_the_plan_evicts_changes_are_tried_on_what_the_plan_leaves() -> None:
    made = yard().nodes(1).queue("a", quota=4).queue("b", quota=4).running("b", gpus=8).pending("a")
    assert AddNode(workload="ns/b-1", gpus=1) in changes(made, "b-1"), "the one that took its place moves there"


def test_only_the_kinds_asked_for_are_tried() -> None:
    made = yard().nodes(1).queue("a", quota=2).pending("a", gpus=5, preemptible=False, priority=100)
    advice = advise(made.snapshot(), SETTINGS, "ns/a-1", kinds=(Shrink,))
    assert advice is not None
    assert {type(o.change) for o in advice.options} == {Shrink}


def test_random_clusters_are_the_same_for_the_same_seed() -> None:
    assert RandomYard(7).snapshot.pods == RandomYard(7).snapshot.pods
    assert RandomYard(7).snapshot.now == NOW
