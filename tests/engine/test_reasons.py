"""The reason of a waiting pod, where neither a gate nor a count of nodes gives it."""

from gpuyard.engine.model import Offer, Shape
from gpuyard.engine.plan import Cycle
from gpuyard.engine.reasons import node_cause, waiting_reasons
from gpuyard.engine.result import NodeCounts, Reason, Waiting
from gpuyard.engine.settings import Settings

from tests.engine.builders import yard


def test_a_waiting_pod_of_no_workload_has_no_queue() -> None:
    some = yard().nodes(1).queue("a").pending("a").pod("a-1", workload="")
    assert waiting_reasons(some.cycle()) == {"ns/a-1": Waiting(Reason.QUEUE_MISSING)}


def test_a_node_with_room_that_kube_scheduler_leaves_out_is_not_offered() -> None:
    snapshot = yard().nodes(2).queue("a").pending("a").snapshot().with_offer("ns/a-1", Offer(nodes=frozenset()))
    cycle = Cycle(snapshot, Settings())
    cycle.run()
    assert node_cause(cycle, snapshot.pods["ns/a-1"], "node-1") == "not-offered"


def test_a_node_with_room_that_is_offered_has_no_cause_against_it() -> None:
    snapshot = yard().nodes(2).queue("a").pending("a").snapshot()
    cycle = Cycle(snapshot, Settings())
    cycle.run()
    assert node_cause(cycle, snapshot.pods["ns/a-1"], "node-2") == ""


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
