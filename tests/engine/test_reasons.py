"""The reason of a waiting pod, where neither a gate nor a count of nodes gives it."""

from gpuyard.engine.model import Offer
from gpuyard.engine.plan import Cycle
from gpuyard.engine.reasons import node_cause, waiting_reasons
from gpuyard.engine.result import Reason, Waiting
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
