"""A change alters one thing of a snapshot, and knows the next smaller change of its kind."""

import msgspec
import pytest
from gpuyard.engine.explain.changes import (
    HOSTNAME,
    AddNode,
    Change,
    Lapse,
    MakePreemptible,
    Raise,
    Relax,
    Shrink,
    SmallerGang,
    UseQueue,
    Wait,
    asked_for,
)
from gpuyard.engine.model import Amounts, Shape
from gpuyard.engine.model.snapshot import Snapshot

from tests.engine.builders import yard

CHOOSY = Shape(gpus=2, selector=(("zone", "east"), ("disk", "fast")))


@pytest.fixture
def snapshot() -> Snapshot:
    some = yard().nodes(1, gpus=4, cpu=1000, memory=10**9).queue("a", quota=1, limit=2).queue("b")
    some.gang("a", 3, name="job", shape=CHOOSY, running=1, preemptible=False, priority=100)
    return some.promise("node-1", to="expected", queue="b").snapshot()


def test_a_bound_is_raised_in_one_queue_and_one_resource(snapshot: Snapshot) -> None:
    raised = Raise(queue="a", resource="gpu", kind="limit", to=5000).apply(snapshot).queues["a"]
    assert raised.limit == snapshot.queues["a"].limit._replace(gpu=5000)
    assert raised.quota == snapshot.queues["a"].quota


def test_only_the_pods_that_wait_ask_for_less(snapshot: Snapshot) -> None:
    pods = Shrink(workload="ns/job", shape=CHOOSY, field="gpus", to=1).apply(snapshot).pods
    assert [pods[f"ns/job-{n}"].shape.gpus for n in range(3)] == [2, 1, 1]


def test_pods_of_another_shape_keep_theirs(snapshot: Snapshot) -> None:
    assert Shrink(workload="ns/job", shape=Shape(gpus=7), field="gpus", to=1).apply(snapshot).pods == snapshot.pods


def test_a_gang_that_may_start_smaller(snapshot: Snapshot) -> None:
    assert SmallerGang(workload="ns/job", to=2).apply(snapshot).workloads["ns/job"].gang.minimum == 2


def test_a_preemptible_class_is_the_highest_of_the_known_ones(snapshot: Snapshot) -> None:
    workload = MakePreemptible(workload="ns/job").apply(snapshot).workloads["ns/job"]
    assert (workload.preemptible, workload.priority, workload.priority_class) == (True, 75, "build-preemptible")


def test_a_new_node_suits_the_workload_and_has_all_that_it_needs_beside_gpus(snapshot: Snapshot) -> None:
    nodes = AddNode(workload="ns/job", gpus=3).apply(snapshot).fleet.nodes
    [new] = nodes.keys() - snapshot.fleet.nodes.keys()
    assert nodes[new].gpus == 3
    assert nodes[new].labels == dict(CHOOSY.selector) | {HOSTNAME: new}
    assert nodes[new].cpu == 1000


def test_a_new_node_has_more_cpu_and_memory_than_others_where_the_workload_asks_for_more() -> None:
    some = yard().nodes(1, cpu=1000, memory=10**9).queue("a").gang("a", 2, shape=Shape(gpus=1, cpu=800, memory=10**8))
    new = AddNode(workload="ns/a-1", gpus=2).node(some.snapshot())
    assert (new.cpu, new.memory) == (1600, 10**9)


def test_a_new_node_looks_like_another_but_has_its_own_host_name() -> None:
    some = yard().nodes(1, labels={HOSTNAME: "node-1", "zone": "east"}).queue("a").pending("a")
    assert AddNode(workload="ns/a-1", gpus=1).node(some.snapshot()).labels == {HOSTNAME: "new-node-0", "zone": "east"}


def test_one_label_of_the_selector_is_dropped_and_the_other_stays(snapshot: Snapshot) -> None:
    pods = Relax(workload="ns/job", demand="selector", key="zone").apply(snapshot).pods
    assert pods["ns/job-1"].shape.selector == (("disk", "fast"),)


def test_another_queue_counts_the_workload_from_then_on(snapshot: Snapshot) -> None:
    moved = UseQueue(workload="ns/job", queue="b").apply(snapshot)
    assert moved.use["b"].requested.gpu == 6000
    assert moved.use["a"].requested.gpu == 0


def test_waiting_changes_nothing_but_the_time(snapshot: Snapshot) -> None:
    later = Wait(until=snapshot.now + 5).apply(snapshot)
    assert later.now == snapshot.now + 5
    assert later.pods == snapshot.pods


def test_the_promises_of_one_plan_lapse(snapshot: Snapshot) -> None:
    assert Lapse(plan="plan-1").apply(snapshot).promises == ()
    assert Lapse(plan="another").apply(snapshot).promises == snapshot.promises


def test_what_a_workload_asks_for_is_that_of_its_waiting_pods(snapshot: Snapshot) -> None:
    assert asked_for(snapshot, "ns/job") == Amounts(gpu=4000)


@pytest.mark.parametrize(
    ("change", "field", "less"),
    [
        pytest.param(Raise(queue="a", resource="gpu", kind="limit", to=5000), "to", 4999, id="a milli-GPU"),
        pytest.param(Raise(queue="a", resource="memory", kind="quota", to=5 * 10**6), "to", 4 * 10**6, id="a megabyte"),
        pytest.param(Shrink(workload="ns/job", shape=CHOOSY, field="gpus", to=1), "to", 2, id="a larger request"),
        pytest.param(SmallerGang(workload="ns/job", to=2), "to", 3, id="a larger gang"),
        pytest.param(AddNode(workload="ns/job", gpus=3), "gpus", 2, id="a smaller node"),
        pytest.param(Wait(until=100), "until", 99, id="a second"),
    ],
)
def test_one_unit_less_of_a_change(change: Change, field: str, less: int) -> None:
    weaker = change.weaker()
    assert weaker == msgspec.structs.replace(change, **{field: less})


@pytest.mark.parametrize(
    "change",
    [
        MakePreemptible(workload="ns/job"),
        Relax(workload="ns/job", demand="selector", key="zone"),
        UseQueue(workload="ns/job", queue="b"),
        Lapse(plan="plan-1"),
    ],
    ids=lambda change: type(change).__name__,
)
def test_some_changes_are_made_or_not(change: Change) -> None:
    assert change.weaker() is None
