"""The phases of a cycle, and the settings that take one away."""

import gc

from gpuyard.engine.model import Shape
from gpuyard.engine.model.reporter import Recorder
from gpuyard.engine.model.results import Evict, Reason, Until
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle

from tests.engine.builders import NOW, Yard, yard


def scattered() -> Yard:
    """Eight GPUs are free, but only once one of two pods has moved to the other's node."""
    some = yard().nodes(2).queue("a", quota=16)
    return some.running("a", on="node-1", gpus=4).running("a", on="node-2", gpus=4).pending("a", gpus=8)


def test_a_pod_moves_to_make_a_whole_node_free() -> None:
    told = scattered().plan()
    assert len(told.moved) == 1
    assert told.waits() == []


def test_where_nobody_may_be_moved_the_room_stays_scattered() -> None:
    told = scattered().plan(max_moved=0)
    assert told.evicted == []
    assert told.waits() == ["a-3"]


def test_nobody_is_moved_for_a_workload_whose_delay_runs() -> None:
    some = scattered()
    told = some.pending("a", gpus=8, name="patient", preemption_delay=5000).pod("a-3", gated=True).plan()
    assert told.evicted == []
    assert told.reason("patient") is Reason.PREEMPTION_DELAY
    assert told.facts("patient") == Until(until=NOW - 996 + 5000, who="ns/patient")


def test_a_delay_does_not_keep_a_workload_from_free_room() -> None:
    assert yard().nodes(1).queue("a").pending("a", preemption_delay=5000).plan().placed() == ["a-1"]


def test_what_cannot_be_preempted_is_not_consolidated_for() -> None:
    told = scattered().pod("a-3", gated=True).pending("a", gpus=8, name="hard", preemptible=False).plan()
    assert told.evicted == []
    assert told.waits("hard") == ["hard"]


def test_for_whom_a_bound_holds_back_nobody_is_even_tried() -> None:
    some = yard().nodes(4).queue("full", limit=1).queue("others", quota=16)
    for number in range(1, 5):
        some.running("others", gpus=4, on=f"node-{number}")
    heard = Recorder()
    Cycle(some.running("full").pending("full", gpus=2).snapshot(), Settings(), heard).run()
    assert [step for step in heard.steps if step.what == "tried"] == []


def test_a_gang_that_runs_in_part_does_not_move_itself() -> None:
    some = yard().nodes(2).queue("a", quota=16).running("a", gpus=4, on="node-2", preemptible=False)
    some.gang("a", 2, minimum=1, running=1, gpus=4, name="own", on=("node-1",)).pod("own-1", shape=Shape(gpus=8))
    assert some.plan().evicted == []


def test_with_no_moves_allowed_an_empty_node_is_opened_at_once() -> None:
    some = yard().nodes(2, gpus=4).queue("a", quota=8).running("a", gpus=3, on="node-1").pending("a", gpus=2, name="p")
    assert some.plan(keep_nodes_empty=True, max_moved=0).started == {"p": "node-2"}


def test_where_nodes_are_kept_empty_a_gang_that_lacks_pods_for_one_part_stops_nobody() -> None:
    some = yard().nodes(3, gpus=4).queue("a", quota=12)
    some.running("a", gpus=2, on="node-1").running("a", gpus=2, on="node-2")
    some.pending("a", gpus=4, name="first", priority=60)
    some.gang("a", 0, name="gang", parts={"whole": (1, 1), "short": (1, 2)}, needs=1)
    told = some.plan(keep_nodes_empty=True)
    assert told.started == {"gang-0": "node-3"}
    assert told.nominated == {"first": "node-2", "a-2": "node-1"}


def test_where_consolidation_is_no_phase_nobody_moves_for_the_sake_of_empty_nodes() -> None:
    some = (
        yard().nodes(3, gpus=4).queue("a", quota=12).running("a", gpus=2, on="node-1").running("a", gpus=2, on="node-2")
    )
    told = some.pending("a", gpus=4, name="p").plan(keep_nodes_empty=True, phases=("allocate",))
    assert told.evicted == []
    assert told.started == {"p": "node-3"}


def test_phases_run_in_the_order_in_which_they_are_named() -> None:
    assert scattered().plan(phases=("allocate",)).evicted == []
    assert scattered().plan(phases=("consolidate",)).waits() == []


def test_who_was_evicted_once_is_spared_from_then_on() -> None:
    snapshot = yard().nodes(1).queue("a", quota=4).queue("b", quota=4).running("b", 8).pending("a").snapshot()
    actions = Cycle(snapshot, Settings(), spared=["ns/b-8"]).run().actions
    assert [action.pod for action in actions if isinstance(action, Evict)] == ["ns/b-7"]


def test_only_a_workload_that_can_be_in_line_waits() -> None:
    some = yard().nodes(1).queue("a").pending("a", name="lost").gang("a", 2, name="part").pod("part-1", gated=True)
    some.pending("gone", name="stray").pending("a", name="fine")
    cycle = some.cycle(phases=())
    assert [team.workload.key for team in cycle.waiting()] == ["ns/fine", "ns/lost"]


def test_few_places_change_between_two_pauses_even_for_a_large_gang_and_its_victims() -> None:
    """Each change is an entry or three on the scratch; who is answered between two pauses waits for no more."""
    some = yard().nodes(20).queue("a", quota=160).queue("b", weight=0).running("b", 160)
    cycle = Cycle(some.gang("a", 20, gpus=8, name="wide").snapshot(), Settings())
    before = most = 0
    for _ in cycle.steps():
        after = cycle.scratch.mark()
        before, most = after, max(most, abs(after - before))
    assert len(cycle.record.evictions) == 160
    assert most <= 8


def test_a_cycle_that_is_taken_apart_leaves_nothing_to_the_garbage_collector() -> None:
    some = yard().nodes(20).queue("a", quota=80).queue("b", weight=0).running("b", 160)
    snapshot = some.gang("a", 10, gpus=4, name="wide").pending("a", 2, gpus=8).snapshot()
    gc.collect()
    gc.disable()
    try:
        cycle = Cycle(snapshot, Settings())
        assert len(cycle.run().actions) > 10
        assert sum(1 for _ in cycle.dissolve()) > 160 // 32
        assert vars(cycle) == {}
        del cycle
        assert gc.collect() == 0
    finally:
        gc.enable()
