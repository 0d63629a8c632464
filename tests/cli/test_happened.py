"""What was really done is told as what would be done: the same lines, out of pods and Plan objects."""

from gpuyard.cli.happened import happened

from tests.cli.demo import nodes, running
from tests.cli.shell import sample
from tests.cli.test_story import STEP_1, STEP_2, STEP_3
from tests.engine.kube.written import Json, container, node, pod, queue, with_meta


def known(thing: Json) -> Json:
    """An object as the API server has it."""
    return with_meta(thing, uid=f"uid-{thing['metadata']['name']}")


def on(thing: Json, where: str) -> Json:
    return thing | {"spec": thing["spec"] | {"nodeName": where}, "status": {"phase": "Running"}}


BEFORE = [*nodes(), *sample("1-queues.yaml"), *map(known, running())]
JOB_B, JOB_A = map(known, sample("3-new-workloads.yaml"))


def place(key: str, where: str) -> Json:
    return {"pod": key, "node": where, "shape": {"gpus": 1}}


def move(*, evicted: bool = True, victim: str = "training-job-2") -> Json:
    """The plan that moves job 2 to node-2 and job A to its place."""
    leaves = f"project-c/{victim}"
    return {
        "apiVersion": "gpuyard.io/v1alpha1",
        "kind": "Plan",
        "metadata": {"name": "consolidate-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "phase": "consolidate",
            "evictions": [{"pod": leaves, "uid": f"uid-{victim}", "node": "node-1"}],
            "promises": [place("project-c/training-job-a", "node-1"), place(leaves, "node-2")],
        },
        "status": {"state": "Kept", "evicted": [f"uid-{victim}"] if evicted else []},
    }


def after(*more: Json, moved: str = "training-job-2") -> list[Json]:
    """The cluster with job 2 at its new place, made anew there, and others."""
    stay = [thing for thing in BEFORE if thing["metadata"]["name"] != moved]
    old = next(thing for thing in BEFORE if thing["metadata"]["name"] == moved)
    notes = old["metadata"].get("annotations", {}) | {"gpuyard.io/moved-from": f"uid-{moved}"}
    return [*stay, on(with_meta(old, uid="uid-anew", annotations=notes), "node-2"), *more]


def test_the_demo_as_it_happened_is_told_line_by_line() -> None:
    then = after(on(JOB_B, "node-3"), on(JOB_A, "node-1"), move())
    assert happened(BEFORE, then) == f"{STEP_1}\n{STEP_2}\n{STEP_3}"


def test_room_that_somebody_else_reserved_is_nothing_that_was_decided() -> None:
    kept = {"workload": "project-c/job", "node": "node-1", "amounts": {"gpus": 1}}
    reserved = move() | {"metadata": {"name": "elastic-1"}, "spec": {"phase": "elastic", "promises": [kept]}}
    then = after(on(JOB_B, "node-3"), on(JOB_A, "node-1"), move())
    assert happened(BEFORE, [*then, reserved]) == happened(BEFORE, then)


def test_where_nobody_moves_nobody_is_said_to_have_moved() -> None:
    told = happened(BEFORE, [*BEFORE, on(JOB_B, "node-3"), on(JOB_A, "node-4")])
    assert "Training Job B (3 GPUs) scheduled on Node 3\nTraining Job A (4 GPUs) scheduled on Node 4\n" in told
    assert "Moving" not in told


def test_other_names_and_numbers_give_other_lines() -> None:
    def renamed(things: list[Json]) -> list[Json]:
        return [
            with_meta(one, name="tuning", annotations={}) if one["metadata"]["name"] == "training-job-2" else one
            for one in things
        ]

    small = JOB_A | {"spec": JOB_A["spec"] | {"containers": [container(3)]}}
    stay = [thing for thing in renamed(BEFORE) if thing["metadata"]["name"] != "tuning"]
    plan = move()
    plan["spec"]["evictions"][0]["pod"] = plan["spec"]["promises"][1]["pod"] = "project-c/tuning"
    told = happened(renamed(BEFORE), [*stay, on(small, "node-1"), plan])
    assert told.endswith(
        "Moving tuning (2 GPUs) from node-1 to node-2\n"
        "Creating 4 contiguous GPUs on node-1\n"
        "Scheduling training-job-a (3 GPUs) on node-1\n"
    )


def test_who_was_planned_to_go_and_stayed_is_not_said_to_have_gone() -> None:
    told = happened(BEFORE, [*BEFORE, on(JOB_B, "node-3"), JOB_A, move(evicted=False)])
    assert "Moving" not in told
    assert "Scheduling training-job-a" not in told


def test_plans_of_before_are_not_told_again() -> None:
    told = happened([*BEFORE, move()], [*BEFORE, move(), on(JOB_B, "node-3")])
    assert "Moving" not in told


def test_who_still_waits_is_told_why() -> None:
    given = [node(), queue(limit=0)]
    told = happened(given, [*given, pod("p", 1)])
    assert "pending - queue team-a has a limit of 0 GPUs" in told
