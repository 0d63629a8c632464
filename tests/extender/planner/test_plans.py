"""What a plan is, and how it ends."""

import msgspec
import pytest
from gpuyard.common.cluster.translate import Complaints
from gpuyard.common.plans.plan import TRANSITIONS, Event, Plan, State, promise
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.others import promises
from gpuyard.engine.model import NodeTerm, PodTerm, Requirement, Shape, Toleration

from tests.extender.planner.builders import place, plan, victim


def test_a_plan_written_is_read_back_the_same() -> None:
    made = plan(victim("b"), places=[place("a", owner="job", groups=("n1-0",))])
    assert msgspec.json.decode(msgspec.json.encode(made), type=Plan) == made


def test_what_a_pod_asks_for_is_read_back_in_every_detail() -> None:
    zone = Requirement("zone", "In", ("a", "b"))
    shape = Shape(
        gpus=2,
        selector=(("pool", "train"),),
        affinity=(NodeTerm(labels=(zone,)),),
        pod_anti_affinity=(PodTerm("kubernetes.io/hostname", (zone,)),),
        tolerations=(Toleration("gpu", "Exists"),),
    )
    made = plan(places=[msgspec.structs.replace(place("a"), shape=shape)])
    again = msgspec.json.decode(msgspec.json.encode(made), type=Plan)
    assert again.spec.promises[0].shape == shape
    assert hash(again.spec.promises[0].shape) == hash(shape)


def test_a_plan_without_a_status_runs() -> None:
    assert msgspec.json.decode(b'{"metadata": {"name": "p"}, "spec": {"phase": "reclaim"}}', type=Plan).runs


@pytest.mark.parametrize(
    ("event", "state"),
    [(Event.SETTLED, State.KEPT), (Event.HOPELESS, State.IMPOSSIBLE), (Event.OVERDUE, State.EXPIRED)],
)
def test_a_running_plan_ends_once(event: Event, state: State) -> None:
    ended = plan().ended(event, "because", "2026-01-01T00:00:00Z")
    assert (ended.status.state, ended.status.message, ended.runs) == (state, "because", False)
    again = ended.ended(Event.SETTLED, "because", "2026-01-02T00:00:00Z")
    assert again.status.state is state


def test_every_state_has_its_row_and_only_running_has_a_way_out() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {state for state in State if TRANSITIONS[state]} == {State.RUNNING}


def test_who_leaves_and_has_a_place_is_moved() -> None:
    made = plan(victim("b"), places=[place("a"), place("b")])
    assert [made.is_moved(one) for one in made.spec.promises] == [False, True]


def test_a_kept_place_is_a_promise_to_the_engine() -> None:
    made = plan(places=[place("a", node="n2", owner="job", gpus=4)])
    told = promise(made, made.spec.promises[0])
    assert (told.plan, told.pod, told.owner, told.node, told.shape.gpus) == (made.name, "ns/a", "job", "n2", 4)


@pytest.mark.row("B-70", case="files")
def test_an_elastic_plan_means_the_same_read_from_the_watch_and_from_a_file() -> None:
    body = {
        "metadata": {"name": "e", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "phase": "elastic",
            "workload": "ns/job",
            "queue": "other",
            "promises": [
                {"workload": "ns/job", "node": "n1", "amounts": {"gpus": 4, "cpu": 500, "memory": 7}, "priority": 75},
                {"workload": "ns/new", "node": "n2", "amounts": {"gpus": 1}, "queue": "team"},
            ],
        },
        "status": {"state": "Running", "accepted": True},
    }
    raw = msgspec.json.encode(body)
    live, complaints = msgspec.json.decode(raw, type=Plan), Complaints()
    filed = promises(msgspec.json.decode(raw, type=objects.Plan), complaints)
    assert [promise(live, place) for place in live.spec.promises] == filed
    assert len(filed) == 2
    assert not complaints


def test_a_status_that_says_nothing_of_acceptance_writes_nothing_of_it() -> None:
    assert msgspec.to_builtins(plan().status)["accepted"] is None, "which a merge patch leaves out"
