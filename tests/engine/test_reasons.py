"""The reason of a waiting pod, where neither a gate nor a count of nodes gives it."""

import pytest
from gpuyard.engine.model import Offer, PodTerm, Requirement, Shape
from gpuyard.engine.model.results import FinalState, NodeCounts, Reason, Verdict, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.reasons import node_cause, waiting_reasons
from gpuyard.engine.search.settle import settle

from tests.engine.builders import Yard, with_offer, yard

IN_VAIN = "0/1 nodes are available: 1 node(s) didn't match pod affinity rules"
DEFAULTS = Settings()


def test_a_waiting_pod_of_no_workload_has_no_queue() -> None:
    some = yard().nodes(1).queue("a").pending("a").pod("a-1", workload="")
    assert waiting_reasons(some.cycle()) == {"ns/a-1": Waiting(Reason.QUEUE_MISSING)}


REFUSE = Settings(pods_without_queue="refuse")


def why(some: Snapshot, settings: Settings = DEFAULTS) -> Waiting:
    return settle(some, settings).pending["ns/p"]


@pytest.mark.row("B-35", case="full")
@pytest.mark.parametrize("workload", ["", "ns/p"])
def test_on_a_full_cluster_a_pod_of_no_queue_is_told_of_the_nodes(workload: str) -> None:
    some = yard().nodes(2, gpus=4).queue("a").running("a", 2, gpus=4)
    some.pending(None, name="p", gpus=2).pod("p", workload=workload)
    assert why(some.snapshot()) == Waiting(Reason.NO_NODE_FITS, NodeCounts(causes={"gpus": 2}, asked=2000))


@pytest.mark.row("B-35", case="full")
def test_where_enough_gpus_are_free_in_sum_a_pod_of_no_queue_is_told_so() -> None:
    some = yard().nodes(2, gpus=4).queue("a").running("a", gpus=3, on="node-1").running("a", gpus=3, on="node-2")
    assert why(some.pending(None, name="p", gpus=2).snapshot()).reason is Reason.FRAGMENTED


@pytest.mark.row("B-35", case="affinity")
def test_a_pod_of_no_queue_is_told_of_its_own_affinity() -> None:
    beside = PodTerm(topology_key="host", selector=(Requirement("app", "In", ("none",)),))
    some = yard().nodes(1).pending(None, name="p", shape=Shape(gpus=1, pod_affinity=(beside,)))
    assert why(some.snapshot()).facts == NodeCounts(causes={"affinity": 1}, free=8000, largest=8000, asked=1000)


@pytest.mark.row("B-35", case="promised")
def test_a_pod_of_no_queue_is_told_for_whom_the_room_is_kept() -> None:
    some = yard().nodes(1, gpus=1).queue("a", quota=1).promise("node-1", to="expected", queue="a")
    assert why(some.pending(None, name="p").snapshot()).reason is Reason.PROMISED_TO_OTHER


@pytest.mark.row("B-35", case="kube-scheduler")
def test_a_pod_of_no_queue_is_told_what_kube_scheduler_has_against_all_nodes() -> None:
    offer = Offer(in_vain=IN_VAIN, nodes=frozenset())
    some = with_offer(yard().nodes(1).pending(None, name="p").snapshot(), "ns/p", offer)
    assert why(some) == Waiting(Reason.REFUSED_BY_SCHEDULER, Verdict(said=IN_VAIN))


@pytest.mark.row("B-35", case="refuse")
def test_where_pods_without_a_queue_are_refused_that_is_what_keeps_one_waiting_on_a_full_cluster() -> None:
    some = yard().nodes(1, gpus=4).queue("a").running("a", gpus=4)
    some.pending(None, name="p").pending(None, name="q").pod("q", workload="")
    assert why(some.snapshot(), REFUSE).reason is Reason.QUEUE_MISSING
    assert settle(some.snapshot(), REFUSE).pending["ns/q"].reason is Reason.QUEUE_MISSING


def test_a_node_with_room_that_kube_scheduler_leaves_out_is_not_offered() -> None:
    snapshot = with_offer(yard().nodes(2).queue("a").pending("a").snapshot(), "ns/a-1", Offer(nodes=frozenset()))
    cycle = Cycle(snapshot, Settings())
    cycle.run()
    assert node_cause(cycle, snapshot.pods["ns/a-1"], "node-1") == "not-offered"


def test_who_is_offered_no_node_is_told_so_and_nothing_of_an_affinity_that_it_does_not_have() -> None:
    some = yard().nodes(2, gpus=1).queue("a").running("a", on="node-1").pending("a", name="p").snapshot()
    found = settle(with_offer(some, "ns/p", Offer(nodes=frozenset())), Settings()).pending["ns/p"].facts
    assert isinstance(found, NodeCounts)
    assert found.causes == {"gpus": 1, "not-offered": 1}


def test_a_node_with_room_that_is_offered_has_no_cause_against_it() -> None:
    snapshot = yard().nodes(2).queue("a").pending("a").snapshot()
    cycle = Cycle(snapshot, Settings())
    cycle.run()
    assert node_cause(cycle, snapshot.pods["ns/a-1"], "node-2") == ""


def vain(some: Yard, pod: str = "ns/a-1") -> Snapshot:
    return with_offer(some.snapshot(), pod, Offer(in_vain=IN_VAIN))


@pytest.mark.parametrize("settings", [Settings(), Settings(keep_nodes_empty=True)])
def test_nobody_is_evicted_for_a_pod_that_no_eviction_helps_by_kube_schedulers_word(settings: Settings) -> None:
    some = yard().nodes(1).queue("a", quota=8).queue("b").running("b", count=8).pending("a")
    assert settle(some.snapshot(), settings).final["ns/a-1"].state is FinalState.RUNNING
    told = settle(vain(some), settings)
    assert not any(cycle.actions for cycle in told.cycles)
    assert told.pending["ns/a-1"] == Waiting(Reason.REFUSED_BY_SCHEDULER, Verdict(said=IN_VAIN))


def test_room_that_is_free_is_for_a_pod_that_no_eviction_helps_all_the_same() -> None:
    assert settle(vain(yard().nodes(1).queue("a").pending("a")), Settings()).final["ns/a-1"].state is FinalState.RUNNING


def test_for_another_pod_than_the_one_that_no_eviction_helps_room_is_made() -> None:
    some = yard().nodes(1).queue("a", quota=8).queue("b").running("b", count=8).pending("a", count=2)
    told = settle(vain(some), Settings())
    assert {key for key, waiting in told.pending.items() if waiting.reason is Reason.REFUSED_BY_SCHEDULER} == {"ns/a-1"}
    assert told.final["ns/a-2"].state is FinalState.RUNNING


def test_what_the_engine_itself_has_against_all_nodes_is_told_before_kube_schedulers_word() -> None:
    elsewhere = Shape(gpus=1, selector=(("zone", "b"),))
    some = yard().nodes(1).queue("a", quota=8).queue("b").running("b", count=8).pending("a", shape=elsewhere)
    assert settle(vain(some), Settings()).pending["ns/a-1"].reason is Reason.NO_NODE_FITS


def test_a_pod_that_is_not_counted_on_because_no_eviction_helps_waits_for_that_reason() -> None:
    none = Offer(nodes=frozenset(), in_vain=IN_VAIN)
    snapshot = with_offer(yard().nodes(1).queue("a").pending("a").snapshot(), "ns/a-1", none)
    told = settle(snapshot, Settings()).pending["ns/a-1"]
    assert told == Waiting(Reason.REFUSED_BY_SCHEDULER, Verdict(said=IN_VAIN))


def test_nobody_is_moved_for_a_pod_that_no_eviction_helps() -> None:
    some = yard().nodes(2, gpus=2).queue("a", quota=4).queue("b", quota=4)
    some = some.running("b", on="node-1").running("b", on="node-2").pending("a", gpus=2)
    assert settle(some.snapshot(), Settings()).final["ns/a-1"].state is FinalState.RUNNING
    assert not any(cycle.actions for cycle in settle(vain(some), Settings()).cycles)


def test_room_that_is_promised_on_a_closed_node_is_not_the_cause() -> None:
    some = yard().node("shut", cordoned=True).node("full", gpus=1).queue("a", quota=2).running("a", on="full")
    told = some.promise("shut", to="expected", queue="a").pending("a", name="p").plan()
    assert told.reason("p") is Reason.NO_NODE_FITS


def test_a_request_in_gpu_memory_names_the_label_that_no_node_has() -> None:
    some = yard().nodes(1, gpu_memory=0).node("no-gpus", gpus=0).queue("a", quota=4)
    told = some.pending("a", shape=Shape(gpu_memory=50)).plan()
    assert told.sentence("a-1") == (
        "no node fits (1 GPU asked for; nodes: 1 not labelled nvidia.com/gpu.memory, which requests in GPU memory need,"
        " 1 too few free GPUs)"
    )


def test_for_parts_of_gpus_the_rest_of_shared_ones_is_free_too() -> None:
    some = yard().nodes(1, gpus=2, cpu=100).queue("a", quota=4).running("a", pod={"devices": (1,)})
    some.running("a", gpus="0.7", pod={"gpu_groups": ("g",)})
    told = some.pending("a", shape=Shape(fraction=500), name="p").plan()
    assert told.facts("p") == NodeCounts(causes={"gpus": 1}, free=300, largest=300, asked=500)


def test_who_protects_the_victims_is_told_before_the_count_of_nodes() -> None:
    some = yard().nodes(1, gpus=2).queue("a", quota=2).queue("b", reclaim_min_runtime=5000).running("b", 2)
    assert some.pending("a").plan().reason("a-1") is Reason.PROTECTED_BY_MIN_RUNTIME
