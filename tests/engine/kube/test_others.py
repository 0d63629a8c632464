"""Disruption budgets, topologies and plans."""

import msgspec
import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.others import budget, promises, rule, topology
from gpuyard.engine.model import Pod, Promise, Shape

from tests.engine.kube import written
from tests.engine.kube.written import Heard, Json, seen

SHAPE = Shape(gpus=2, selector=(("zone", "a"),))
PODS = [
    Pod(key="default/web", shape=SHAPE, labels={"app": "web", "tier": "front"}),
    Pod(key="default/db", shape=SHAPE, labels={"app": "db"}),
]


def pdb(selector: Json | None, status: Json | None) -> objects.PodDisruptionBudget:
    given = {"metadata": written.meta("pdb", "default"), "spec": {"selector": selector}, "status": status}
    return seen(objects.PodDisruptionBudget, given)


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        ({}, {"default/web", "default/db"}),
        (None, set()),
        ({"matchLabels": {"app": "web"}}, {"default/web"}),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, {"default/db"}),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, {"default/web"}),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, {"default/db"}),
    ],
    ids=["all", "none", "label", "not-in", "exists", "does-not-exist"],
)
def test_a_budget_covers_the_pods_that_its_selector_chooses(selector: Json | None, covered: set[str]) -> None:
    about = rule(pdb(selector, {"disruptionsAllowed": 1}), Heard())
    assert {one.key for one in PODS if about.covers(one)} == covered


def test_a_budget_allows_what_its_status_says() -> None:
    made = budget(pdb({}, {"disruptionsAllowed": 1}), ["default/web"])
    assert (made.name, made.pods, made.allowed) == ("default/pdb", frozenset({"default/web"}), 1)


def test_a_budget_without_status_allows_nothing() -> None:
    assert budget(pdb({}, None), []).allowed == 0


def test_a_topology_has_its_levels_the_widest_first() -> None:
    given = {"metadata": {"name": "rows"}, "spec": {"levels": [{"nodeLabel": "row"}, {"nodeLabel": "rack"}]}}
    assert topology(seen(objects.Topology, given), Heard()).levels == ("row", "rack")


@pytest.mark.parametrize("levels", [[], [{"nodeLabel": "row"}, {"nodeLabel": "row"}]], ids=["none", "twice"])
def test_levels_that_are_no_levels_are_a_fault(levels: list[Json]) -> None:
    heard = Heard()
    topology(seen(objects.Topology, {"metadata": {"name": "rows"}, "spec": {"levels": levels}}), heard)
    assert [field for field, _ in heard] == ["spec.levels"]


def plan(state: str | None, shape: object = None, **status: object) -> objects.Plan:
    promise = {
        "pod": "default/web",
        "node": "node-1",
        "shape": msgspec.to_builtins(SHAPE) if shape is None else shape,
        "owner": "u",
        "workload": "default/w",
        "queue": "team-a",
        "priority": 75,
        "gpuGroups": ["g"],
    }
    return seen(
        objects.Plan,
        {"metadata": {"name": "plan-1"}, "spec": {"promises": [promise]}, "status": {"state": state, **status}},
    )


@pytest.mark.parametrize("state", [None, "Running"])
def test_the_promises_of_an_unfinished_plan_stand(state: str | None) -> None:
    assert promises(plan(state), Heard()) == [
        Promise(
            plan="plan-1",
            pod="default/web",
            owner="u",
            workload="default/w",
            shape=SHAPE,
            node="node-1",
            gpu_groups=("g",),
            queue="team-a",
            priority=75,
        )
    ]


@pytest.mark.parametrize("state", ["Kept", "Impossible", "Expired"])
def test_a_finished_plan_promises_nothing(state: str) -> None:
    assert promises(plan(state), Heard()) == []


def test_a_place_that_was_taken_and_left_again_is_promised_no_longer() -> None:
    assert promises(plan("Running", deserted=["default/web"]), Heard()) == []


def test_a_promise_that_cannot_be_read_is_a_fault() -> None:
    heard = Heard()
    assert promises(plan(None, {"gpus": "two"}), heard) == []
    assert [field for field, _ in heard] == ["spec.promises[0].shape.gpus"]


@pytest.mark.parametrize(
    ("shape", "field", "why"),
    [
        ({"gpus": -8}, ".gpus", "-8 is less than 0"),
        ({"gpus": 1, "cpu": -1}, ".cpu", "-1 is less than 0"),
        ({"memory": -1}, ".memory", "-1 is less than 0"),
        ({"gpu_memory": -5}, ".gpu_memory", "-5 is less than 0"),
        ({"fraction": 1001}, ".fraction", "1001 is more than 1000"),
        ({"fraction": 500, "devices": 0}, ".devices", "0 is less than 1"),
        ({"fraction": 500, "devices": 4097}, ".devices", "4097 is more than 4096"),
        ({"gpus": 1, "fraction": 500}, "", "only one of gpus, fraction and gpu_memory may be set"),
    ],
)
def test_a_promise_of_what_no_pod_can_ask_for_is_a_fault(shape: Json, field: str, why: str) -> None:
    heard = Heard()
    assert promises(plan(None, shape), heard) == []
    assert list(heard) == [(f"spec.promises[0].shape{field}", why)]


@pytest.mark.parametrize("shape", [{"fraction": 1000, "devices": 4096}, {"gpus": 0}, {"gpu_memory": 1}])
def test_a_promise_of_the_least_and_of_the_most_stands(shape: Json) -> None:
    assert len(promises(plan(None, shape), Heard())) == 1
