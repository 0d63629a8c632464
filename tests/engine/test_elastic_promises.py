"""Room that is reserved for a workload on a node: any pod of it may have it, up to what was promised."""

import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.others import promises
from gpuyard.engine.model import Pod, Promise, Shape, State
from gpuyard.engine.model.results import Reason
from gpuyard.engine.rules.promises import inherits, untaken
from msgspec.structs import replace

from tests.engine.builders import NOW, Yard, yard
from tests.engine.kube.written import Heard, Json, seen

PROMISE = Promise(plan="p", workload="ns/job", shape=Shape(gpus=4, cpu=8000, memory=100), node="n1", since=NOW)


def member(gpus: int = 1, *, on: str = "n1", state: State = State.RUNNING, at: int = NOW, cpu: int = 0) -> Pod:
    """A pod of the workload that was made and started at one moment."""
    shape = Shape(gpus=gpus, cpu=cpu, memory=10)
    return Pod(key="ns/x", workload="ns/job", shape=shape, state=state, node=on, created=at, started=at)


# --- who inherits ---


@pytest.mark.row("B-71", case="answered")
def test_a_pod_that_was_created_since_is_of_the_next_round_however_slow_the_clock_of_its_node_is() -> None:
    slow = replace(member(4), started=NOW - 20)
    assert untaken(PROMISE, [slow]) is None


@pytest.mark.row("B-70", case="rule")
@pytest.mark.parametrize("gpus", [0, 1, 4, 8])
def test_any_pod_of_the_workload_inherits_whatever_its_name_and_shape(gpus: int) -> None:
    assert inherits(PROMISE, Pod(key="ns/any", workload="ns/job", shape=Shape(gpus=gpus, cpu=1)), "team")


@pytest.mark.row("B-70", case="rule")
@pytest.mark.parametrize("workload", ["ns/other", "elsewhere/job", ""])
def test_a_pod_of_another_workload_does_not_inherit(workload: str) -> None:
    assert not inherits(PROMISE, Pod(key="ns/job", workload=workload, shape=PROMISE.shape), "team")


def test_a_promise_to_nobody_is_for_nobody() -> None:
    nobody = Promise(plan="p", shape=Shape(gpus=1), node="n1")
    assert not inherits(nobody, Pod(key="ns/x", shape=Shape(gpus=1)), "")


@pytest.mark.row("B-70", case="rule")
@pytest.mark.parametrize(("named", "queue", "may"), [("", "any", True), ("team", "team", True), ("team", "any", False)])
def test_the_queue_is_compared_where_the_promise_names_one(named: str, queue: str, *, may: bool) -> None:
    promise = Promise(plan="p", workload="ns/job", shape=Shape(gpus=1), node="n1", queue=named)
    assert inherits(promise, member(), queue) is may


# --- how much is left ---


@pytest.mark.row("B-70", case="rule")
def test_pods_that_came_since_take_of_it_together() -> None:
    left = untaken(PROMISE, [member(1, cpu=1000), member(2, cpu=9000)])
    assert left is not None
    assert left.shape == Shape(gpus=1, cpu=0, memory=80)
    assert untaken(PROMISE, [member(1), member(2), member(1)]) is None
    assert untaken(PROMISE, [member(3), member(3), member(1)]) is None


@pytest.mark.row("B-71", case="answered")
@pytest.mark.parametrize(
    "pod",
    [
        member(4, at=NOW - 1),
        member(4, on="n2"),
        member(4, on="", state=State.PENDING),
        member(4, state=State.TERMINATING),
    ],
    ids=["before", "elsewhere", "waits", "leaves"],
)
def test_a_pod_that_has_not_come_for_it_takes_nothing(pod: Pod) -> None:
    assert untaken(PROMISE, [pod]) == PROMISE


def test_a_pod_that_waited_before_the_plan_and_was_placed_since_takes_of_it() -> None:
    waited = Pod(key="ns/x", workload="ns/job", shape=Shape(gpus=4), state=State.RUNNING, node="n1", started=NOW)
    assert untaken(PROMISE, [waited]) is None


def test_a_pod_that_has_not_started_counts_by_its_age() -> None:
    bound = Pod(key="ns/x", workload="ns/job", shape=Shape(gpus=4), state=State.BOUND, node="n1", created=NOW)
    assert untaken(PROMISE, [bound]) is None


# --- in a cycle ---


def two_nodes() -> Yard:
    return yard().node("small", gpus=2).node("large", gpus=4).queue("a", quota=8)


@pytest.mark.row("B-70", case="planner")
def test_the_pods_of_the_workload_go_where_its_room_is_kept() -> None:
    some = two_nodes().gang("a", 2, name="job", minimum=1).reserved("large", workload="job", gpus=2)
    assert some.plan().started == {"job-0": "large", "job-1": "large"}


@pytest.mark.row("B-70", case="planner")
def test_others_get_what_is_beside_the_promise_and_no_more() -> None:
    some = yard().node("n", gpus=4).queue("a", quota=8).reserved("n", workload="job", gpus=3, queue="a")
    told = some.pending("a", 2, name="").plan()
    assert len(told.started) == 1
    assert len(told.waits()) == 1


@pytest.mark.row("B-70", case="planner")
def test_what_pods_have_taken_is_kept_no_longer() -> None:
    some = yard().node("n", gpus=4).queue("a", quota=8)
    some.gang("a", 2, running=2, name="job", created=NOW).reserved("n", workload="job", gpus=3, queue="a", since=NOW)
    some.pending("a", name="other").pending("a", name="late")
    told = some.plan()
    assert told.placed("other") == ["other"], "two of three are taken, so one is kept of the two that are free"
    assert told.reason("late") is Reason.PROMISED_TO_OTHER


@pytest.mark.row("B-70", case="planner")
def test_a_promise_that_is_taken_keeps_nothing() -> None:
    some = yard().node("n", gpus=4).queue("a", quota=8)
    some.gang("a", 1, running=1, gpus=3, name="job", created=NOW).reserved("n", workload="job", gpus=3)
    assert some.pending("a", name="other").plan().placed("other") == ["other"]


def test_a_pod_that_may_not_go_to_the_node_gets_none_of_it() -> None:
    elsewhere = Shape(gpus=1, selector=(("zone", "b"),))
    some = yard().node("n1", gpus=1).node("n2", gpus=1, labels={"zone": "b"}).queue("a", quota=8)
    some.gang("a", 1, name="job", shape=elsewhere).reserved("n1", workload="job", gpus=1, queue="a")
    told = some.pending("a", name="other").plan()
    assert told.started == {"job": "n2"}
    assert told.reason("other") is Reason.PROMISED_TO_OTHER


def test_the_queue_of_a_promise_that_names_none_is_that_of_its_workload() -> None:
    some = yard().node("n", gpus=2).queue("a", quota=8)
    some.gang("a", 1, running=1, gpus=1, name="job").reserved("n", workload="job", gpus=1)
    assert some.pending("a", name="other").plan().reason("other") is Reason.PROMISED_TO_OTHER


def test_room_for_a_workload_of_which_nothing_is_known_is_kept_as_well() -> None:
    some = yard().node("n", gpus=2).queue("a", quota=8).reserved("n", workload="job", gpus=1)
    told = some.pending("a", name="other").pending("a", name="late").plan()
    assert told.placed() == ["other"]
    assert told.reason("late") is Reason.PROMISED_TO_OTHER


def test_a_promise_in_a_queue_that_is_gone_keeps_nothing() -> None:
    some = yard().node("n", gpus=1).queue("a", quota=8).reserved("n", workload="job", gpus=1, queue="gone")
    assert some.pending("a", name="other").plan().placed() == ["other"]


# --- in files ---


def elastic(promise: Json | None = None, *, accepted: bool | None = True, state: str = "Running") -> objects.Plan:
    kept = {"workload": "ns/job", "node": "n1", "amounts": {"gpus": 4, "cpu": 8000, "memory": 100}} | (promise or {})
    return seen(
        objects.Plan,
        {
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"phase": "elastic", "promises": [kept]},
            "status": {"state": state, "accepted": accepted},
        },
    )


@pytest.mark.row("B-70", case="files")
def test_an_accepted_plan_in_a_file_promises_what_it_asks_for() -> None:
    [made] = promises(elastic({"queue": "team", "priority": 75}), Heard())
    assert made == Promise(
        plan="p", workload="ns/job", shape=PROMISE.shape, node="n1", queue="team", priority=75, since=1_767_225_600
    )


@pytest.mark.row("B-70", case="files")
def test_a_plan_that_is_not_accepted_or_has_ended_promises_nothing() -> None:
    assert promises(elastic(accepted=None), Heard()) == []
    assert promises(elastic(accepted=False), Heard()) == []
    assert promises(elastic(state="Kept"), Heard()) == []


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"pod": "ns/x"}, "spec.promises[0]"),
        ({"workload": ""}, "spec.promises[0]"),
        ({"amounts": None}, "spec.promises[0]"),
        ({"amounts": {"gpus": 0}}, "spec.promises[0].amounts"),
        ({"amounts": {"gpus": 1, "cpu": -1}}, "spec.promises[0].amounts"),
        ({"amounts": {"gpus": 1, "memory": -1}}, "spec.promises[0].amounts"),
    ],
)
def test_an_elastic_plan_that_promises_something_else_is_a_fault(wrong: Json, field: str) -> None:
    heard = Heard()
    assert promises(elastic(wrong), heard) == []
    assert [where for where, _ in heard] == [field]


def test_a_promise_without_a_pod_is_one_of_elastic_plans_only() -> None:
    heard = Heard()
    kept = {"workload": "ns/job", "node": "n1", "amounts": {"gpus": 4}}
    plan = seen(objects.Plan, {"metadata": {"name": "p"}, "spec": {"phase": "reclaim", "promises": [kept]}})
    assert promises(plan, heard) == []
    assert [where for where, _ in heard] == ["spec.promises[0].pod"]
