"""The whole trace of one pod is what the engine decided, told by the engine."""

import pytest
from gpuyard.engine.explain.pod import Explanation, explain
from gpuyard.engine.model import Pod, Shape, State, Taint
from gpuyard.engine.model.results import Reason
from gpuyard.engine.model.settings import Settings

from tests.engine.builders import NOW, Yard, yard

REFUSE = Settings(pods_without_queue="refuse")


def explained(made: Yard, pod: str) -> Explanation:
    return explain(made.snapshot(), Settings(), f"ns/{pod}")


def test_a_pod_that_runs_has_passed_every_gate() -> None:
    told = explained(yard().nodes(1).queue("a").pending("a"), "a-1")
    assert [(g.name, g.refusal) for g in told.gates] == [("queue", None), ("gang", None), ("bounds", None)]
    assert told.waiting is None
    assert told.advice is None


def test_a_pod_that_runs_is_told_of_a_bound_that_was_lowered_since() -> None:
    told = explained(yard().nodes(1).queue("a", limit=1).running("a", 2), "a-1")
    assert [g.refusal.reason for g in told.gates if g.refusal] == [Reason.OVER_LIMIT]


def test_a_pod_that_has_left_its_place_to_nobody_is_asked_no_bounds() -> None:
    some = yard().nodes(1).queue("a").gang("a", 2, minimum=1, running=2)
    told = explained(some.pod("a-1-1", state=State.TERMINATING, deleted_at=NOW - 200), "a-1-1")
    assert [g.name for g in told.gates] == ["queue", "gang"]


def test_a_pod_that_no_queue_governs_is_told_so_and_of_the_nodes() -> None:
    free = Pod(key="ns/free", shape=Shape(gpus=1))
    told = explain(yard().nodes(1).snapshot().with_pod(free), REFUSE, "ns/free")
    assert [g.refusal.reason for g in told.gates if g.refusal] == [Reason.QUEUE_MISSING]
    assert (told.queues, told.advice) == ((), None)
    assert [n.node for n in told.nodes] == ["node-1"]


@pytest.mark.row("B-35", case="full")
def test_a_pod_that_passes_all_gates_for_want_of_a_queue_is_told_of_none_and_gets_no_advice() -> None:
    some = yard().nodes(1, gpus=1).queue("a").running("a").pending(None, name="p")
    told = explained(some, "p")
    assert (told.gates, told.queues, told.advice) == ((), (), None)
    assert told.waiting is not None
    assert told.waiting.reason is Reason.NO_NODE_FITS


def test_every_node_answers_a_pod_that_has_a_place_as_well() -> None:
    some = yard().nodes(2).queue("a").running("a", gpus=8, on="node-2").pending("a", gpus=6)
    assert {n.node: n.cause for n in explained(some, "a-2").nodes} == {"node-1": "", "node-2": "gpus"}


def test_a_pod_that_is_done_asks_no_node() -> None:
    some = yard().nodes(1).queue("a").running("a", state=State.SUCCEEDED)
    assert explained(some, "a-1").nodes == ()


def test_the_gate_that_refuses_is_the_last_one_told() -> None:
    told = explained(yard().nodes(1).queue("a", limit=2).running("a", 2).pending("a"), "a-3")
    assert [g.name for g in told.gates] == ["queue", "gang", "bounds"]
    assert told.gates[-1].refusal == told.waiting
    assert told.waiting is not None
    assert told.waiting.reason is Reason.OVER_LIMIT


def test_a_pod_in_no_queue_gets_no_further_than_the_first_gate() -> None:
    told = explained(yard().nodes(1).queue("a").pending("b"), "b-1")
    assert [g.name for g in told.gates] == ["queue"]
    assert told.queues == ()


def test_a_gang_that_is_not_whole_gets_no_further_than_the_second() -> None:
    told = explained(yard().nodes(1).queue("a").gang("a", 2, minimum=3), "a-1-0")
    assert [g.name for g in told.gates] == ["queue", "gang"]
    assert told.gates[-1].refusal == told.waiting


def test_the_queues_are_told_from_the_leaf_to_the_root() -> None:
    told = explained(yard().nodes(1).queue("d", quota=8).queue("a", quota=3, parent="d").pending("a"), "a-1")
    assert [(q.name, q.quota.gpu) for q in told.queues] == [("a", 3000), ("d", 8000)]


def test_every_node_says_why_it_does_not_take_a_waiting_pod() -> None:
    made = yard().node("full", gpus=1).node("tainted", taints=(Taint("dedicated"),)).node("unready", ready=False)
    made.node("cordoned", cordoned=True).node("elsewhere", labels={"zone": "b"})
    made.queue("a").running("a", on="full").pending("a", shape=Shape(gpus=1))
    made.pending("a", shape=Shape(gpus=9, selector=(("zone", "b"),)))
    told = explained(made, "a-3")
    assert {n.node: n.cause for n in told.nodes} == {
        "full": "selector",
        "tainted": "selector",
        "unready": "not-ready",
        "cordoned": "cordoned",
        "elsewhere": "gpus",
    }


def test_a_node_with_room_says_so_to_a_pod_that_waits_for_another_reason() -> None:
    told = explained(yard().nodes(1).queue("a", limit=0).pending("a"), "a-1")
    assert [(n.cause, n.free) for n in told.nodes] == [("", 8)]


def test_the_steps_are_those_of_the_pods_own_workload() -> None:
    made = yard().nodes(1).queue("a", quota=4).queue("b", quota=4).running("b", 8).pending("a", 2)
    told = explained(made, "a-2")
    assert {step.about for step in told.steps} == {"ns/a-2"}
    assert [step.what for step in told.steps if step.what == "tried"]
