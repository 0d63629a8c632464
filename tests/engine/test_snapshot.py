"""The next snapshot is the one that would be built anew, and shares with the one before what did not change."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pytest
from gpuyard.engine.model import Budget, Node, Pod, PodTerm, Promise, Queue, Shape, State, Workload
from gpuyard.engine.model.counting import UNUSED, claim, share_of_gpu
from gpuyard.engine.model.snapshot import Draft, Snapshot
from msgspec.structs import replace

from tests.engine.builders import NOW, Yard, yard

A_GPU = Shape(gpus=1)
TEN_GIB = Shape(gpu_memory=10_240)


def busy() -> Yard:
    """Two nodes with GPUs of two sizes, a tree of queues, and pods in every state that an index knows."""
    some = yard().node("node-1", gpu_memory=81_920).node("node-2", gpu_memory=40_960)
    some.queue("d", quota=8).queue("a", parent="d", quota=4).queue("b")
    some.running("a", on="node-1", shape=TEN_GIB, pod={"gpu_groups": ("gpu-0",)})
    some.gang("a", 3, running=1, on=("node-2",), preemptible=False)
    some.running("b", on="node-1", state=State.TERMINATING)
    some.pending("b", pod={"nominated": "node-2"})
    some.running("b", on="node-1", shape=Shape(gpus=1, pod_anti_affinity=(PodTerm("zone"),)))
    return some.foreign("node-2", gpus=2)


def anew(changed: Snapshot) -> Snapshot:
    """The same objects, built at once."""
    return Snapshot.build(
        now=changed.now,
        nodes=changed.fleet.nodes.values(),
        queues=changed.queues.values(),
        workloads=changed.workloads.values(),
        pods=changed.pods.values(),
        budgets=changed.budgets.values(),
        promises=changed.promises,
    )


def content(of: Snapshot) -> dict[str, Any]:
    """Everything in a snapshot; an index entry that holds nothing is no entry."""
    fields = {field: getattr(of, field) for field in of.__struct_fields__ if field != "fleet"}
    for field in ("waiting", "victims", "slots"):
        fields[field] = {key: set(inner) for key, inner in fields[field].items() if inner}
    for field in ("own", "use"):
        fields[field] = {name: use for name, use in fields[field].items() if use != UNUSED}
    fleet = of.fleet
    return fields | {"fleet": (dict(fleet.nodes), fleet.capacity, fleet.smallest_gpu, fleet.largest_gpu)}


def shared(before: Snapshot, after: Snapshot) -> set[str]:
    """The mappings that both snapshots hold as one and the same object."""
    pairs = ((f, getattr(before, f), getattr(after, f)) for f in before.__struct_fields__)
    return {field for field, old, new in pairs if isinstance(old, Mapping) and old is new}


def node(name: str, *, gpus: int = 8, gpu_memory: int = 81_920, ready: bool = True) -> Node:
    return Node(name=name, gpus=gpus, cpu=10**6, memory=10**13, gpu_memory=gpu_memory, ready=ready)


def pod(key: str, workload: str = "ns/a-1", shape: Shape = A_GPU, state: State = State.RUNNING) -> Pod:
    return Pod(key=key, workload=workload, shape=shape, state=state, node="node-1")


CHANGES: dict[str, Any] = {
    "a new pod": lambda s: s.with_pod(pod("ns/new")),
    "a pod of nobody": lambda s: s.with_pod(pod("ns/new", workload="")),
    "a pod that ends": lambda s: s.with_pod(pod("ns/a-1", shape=TEN_GIB, state=State.SUCCEEDED)),
    "pods that go": lambda s: s.draft().drop_pods(["ns/a-2-0", "ns/b-1", "ns/b-3"]).done(),
    "the pod of nobody that goes": lambda s: s.draft().drop_pods([k for k in s.pods if "foreign" in k][:1]).done(),
    "a new node": lambda s: s.with_node(node("node-3")),
    "a node that loses GPUs": lambda s: s.with_node(node("node-1", gpus=4)),
    "a node that is not ready": lambda s: s.with_node(node("node-1", ready=False)),
    "a node with other GPUs": lambda s: s.with_node(node("node-1", gpu_memory=20_480)),
    "a node with larger GPUs, not the smallest": lambda s: s.with_node(node("node-1", gpu_memory=163_840)),
    "a node that goes, with the smallest GPUs": lambda s: s.draft().drop_node("node-2").done(),
    "a node that goes, with other GPUs": lambda s: s.draft().drop_node("node-1").done(),
    "a new queue": lambda s: s.with_queue(Queue(name="c", parent="d")),
    "a queue with another quota": lambda s: s.with_queue(msgspec.structs.replace(s.queues["a"], priority=7)),
    "a queue that moves in the tree": lambda s: s.with_queue(Queue(name="b", parent="d")),
    "a queue that goes": lambda s: s.draft().drop_queue("b").done(),
    "a new workload": lambda s: s.with_workload(Workload(key="ns/c-1", queue="c")),
    "a workload that changes queue": lambda s: s.with_workload(Workload(key="ns/a-1", queue="b", priority=60)),
    "a workload that nobody may evict": lambda s: s.with_workload(Workload(key="ns/b-3", queue="b", preemptible=False)),
    "a workload that goes with its pods": lambda s: s.draft().drop_workload("ns/a-2").done(),
    "other budgets": lambda s: s.with_budgets([Budget("ns/b", frozenset({"ns/b-1"}), 1)]),
    "other promises": lambda s: s.with_promises([promise("ns/b-2"), promise("ns/b-1")]),
    "a later moment": lambda s: s.at(NOW + 60),
}


def promise(of: str) -> Promise:
    return Promise(plan="plan-1", pod=of, shape=A_GPU, node="node-2", queue="b")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_snapshot_equals_one_built_anew(change: Any) -> None:  # noqa: ANN401 - Snapshot to Snapshot
    changed = change(busy().snapshot())
    assert content(changed) == content(anew(changed))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_leaves_the_snapshot_before_it_as_it_was(change: Any) -> None:  # noqa: ANN401 - Snapshot to Snapshot
    before = busy().snapshot()
    change(before)
    assert content(before) == content(busy().snapshot())


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.draft().drop_pods(["ns/nobody"]).done(),
        lambda s: s.draft().drop_node("node-9").done(),
        lambda s: s.draft().drop_queue("nobody").done(),
        lambda s: s.draft().drop_workload("ns/nobody").done(),
        lambda s: s.draft().done(),
    ],
    ids=["pod", "node", "queue", "workload", "draft"],
)
def test_taking_away_what_is_not_there_changes_nothing(change: Any) -> None:  # noqa: ANN401 - Snapshot to Snapshot
    before = busy().snapshot()
    assert content(change(before)) == content(before)


def test_several_changes_of_a_draft_are_one_next_snapshot() -> None:
    before = busy().snapshot()
    draft = before.draft().put_nodes([node("node-3")]).drop_workload("ns/b-1").put_queue(Queue(name="c"))
    changed = draft.put_workload(Workload(key="ns/c-1", queue="c")).put_pods([pod("ns/c-1", "ns/c-1")]).done()
    assert content(changed) == content(anew(changed))
    assert changed.use["c"].allocated.gpu == 1000


DRAFTS: dict[str, Callable[[Draft], Draft]] = {
    "nothing": lambda d: d,
    "a pod that comes": lambda d: d.put_pods([pod("ns/new")]),
    "a pod that comes, nobody knows where to": lambda d: d.put_pods([replace(pod("ns/new"), node="")]),
    "a pod that waits": lambda d: d.put_pods([replace(pod("ns/new"), node="", state=State.PENDING)]),
    "a pod that moves": lambda d: d.put_pods([replace(pod("ns/b-1", "ns/b-1"), node="node-2")]),
    "a pod that goes": lambda d: d.drop_pods(["ns/b-1"]),
    "a pod that comes and goes": lambda d: d.put_pods([pod("ns/new")]).drop_pods(["ns/new"]),
    "a workload that goes": lambda d: d.drop_workload("ns/a-2"),
    "a node that comes, and a pod to it": lambda d: d.put_nodes([node("new")]).put_pods(
        [replace(pod("ns/new"), node="new")]
    ),
    "a node that loses GPUs": lambda d: d.put_nodes([node("node-1", gpus=4)]),
    "a node that goes": lambda d: d.drop_node("node-1"),
}


@pytest.mark.parametrize("change", DRAFTS.values(), ids=DRAFTS)
def test_a_draft_knows_what_is_left_of_the_nodes_before_it_is_done(change: Callable[[Draft], Draft]) -> None:
    nodes = ["node-2", "node-1", "new", "nobody"]
    left = change(busy().snapshot().draft()).room(nodes)
    done = change(busy().snapshot().draft()).done()
    assert list(left.items()) == [(name, done.room.get(name)) for name in nodes]


def test_to_ask_a_draft_what_is_left_changes_nothing() -> None:
    draft = busy().snapshot().draft().put_pods([pod("ns/new")]).drop_pods(["ns/b-1"])
    assert draft.room(["node-1"]) == draft.room(["node-1"])
    changed = draft.done()
    assert content(changed) == content(anew(changed))


def test_a_pod_on_no_node_that_anybody_knows_stands_nowhere() -> None:
    after = busy().snapshot().with_pod(replace(pod("ns/new"), node=""))
    assert "" not in after.on_node
    assert after.with_pod(pod("ns/new")).room["node-1"].idle == busy().snapshot().room["node-1"].idle - 1


def test_a_pod_that_comes_and_goes_leaves_no_trace() -> None:
    before = busy().snapshot()
    assert content(before.with_pod(pod("ns/new")).draft().drop_pods(["ns/new"]).done()) == content(before)


def test_a_pod_whose_node_went_first_takes_all_that_it_counted_with_it() -> None:
    """Without its node a part of a GPU counts by the smallest one, so it must be taken away by that, too."""
    without = busy().snapshot().draft().drop_node("node-1").done().draft().drop_workload("ns/a-1").done()
    assert content(without) == content(anew(without))


def test_a_new_pod_shares_what_belongs_to_nodes_and_queues_elsewhere() -> None:
    before = busy().snapshot()
    after = before.with_pod(pod("ns/new"))
    kept = {"queues", "workloads", "topologies", "budgets", "history", "namespaces", "offers"}
    assert shared(before, after) >= kept | {"terminating", "nominated", "avoiding"}
    assert after.room["node-2"] is before.room["node-2"]
    assert after.fleet is before.fleet


def test_a_waiting_pod_shares_every_index_of_nodes() -> None:
    before = busy().snapshot()
    after = before.with_pod(Pod(key="ns/new", workload="ns/a-1", shape=A_GPU))
    assert shared(before, after) >= {"on_node", "room", "slots", "sharing"}


def test_another_moment_shares_everything() -> None:
    before = busy().snapshot()
    assert shared(before, before.at(NOW + 1)) == mappings(before)


def mappings(of: Snapshot) -> set[str]:
    return {field for field in of.__struct_fields__ if isinstance(getattr(of, field), Mapping)}


def test_promises_stand_in_one_order_whoever_gives_them() -> None:
    def pods(promises: Iterable[Promise]) -> list[str]:
        return [p.pod for p in promises]

    snapshot = busy().snapshot().with_promises([promise("ns/b-2"), promise("ns/b-1")])
    assert pods(snapshot.promises) == ["ns/b-1", "ns/b-2"]


def test_the_path_of_a_queue_leads_to_the_root_and_of_none_nowhere() -> None:
    snapshot = busy().snapshot()
    assert snapshot.path("a") == ("a", "d")
    assert snapshot.path(None) == snapshot.path("nobody") == ()


def test_a_request_in_gpu_memory_counts_by_the_gpus_that_it_stands_on_or_by_the_smallest() -> None:
    snapshot = busy().snapshot()
    there = snapshot.pods["ns/a-1"]
    assert snapshot.claim_of(there).gpu == 125
    assert snapshot.claim_of(msgspec.structs.replace(there, state=State.PENDING)).gpu == 250


def test_a_request_in_gpu_memory_fits_no_gpu_of_unknown_size_and_counts_as_a_whole_one() -> None:
    assert share_of_gpu(TEN_GIB, 0) > 1000
    assert claim(TEN_GIB, 0).gpu == 1000


def test_what_nobody_here_governs_is_not_there_to_share() -> None:
    snapshot = busy().snapshot()
    assert snapshot.total.gpu == 16_000 - 2000


def test_of_several_changes_to_one_pod_the_last_counts() -> None:
    before = busy().snapshot()
    draft = before.draft().put_pods([pod("ns/new"), pod("ns/new", shape=Shape(gpus=2))])
    assert content(draft.done()) == content(before.with_pod(pod("ns/new", shape=Shape(gpus=2))))
    draft = before.draft().put_pods([pod("ns/new")]).drop_pods(["ns/new"])
    assert content(draft.done()) == content(before)
