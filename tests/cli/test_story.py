"""The demo told line by line; and told otherwise when anything in it is other."""

from pathlib import Path

import pytest

from tests.cli.demo import MOVES, as_written, demo, nodes
from tests.cli.shell import plan, sample
from tests.engine.kube.written import Json, container, node, pod, queue, with_meta

STEP_1 = """\
Allocating 4 GPUs to training-job-1 on node node-1
Allocating 2 GPUs to training-job-2 on node node-1
Allocating 6 GPUs to training-job-3 on node node-2
Allocating 5 GPUs to interactive-job on node node-3
"""
STEP_2 = """\
New workload submitted: training-job-b (Project A, Priority 150)
New workload submitted: training-job-a (Project C, Priority 150)

Attempting to schedule training-job-b (3 GPUs)
Found suitable node: node-3 (3 GPUs available)
Allocating 3 GPUs to training-job-b on node node-3

Attempting to schedule training-job-a (4 GPUs)
Insufficient contiguous GPUs on any node
Initiating resource consolidation
"""
STEP_3 = """\
Starting allocation phase
Training Job B (3 GPUs) scheduled on Node 3
Training Job A (4 GPUs) pending - insufficient resources

Starting consolidation phase
Moving training-job-2 (2 GPUs) from node-1 to node-2
Creating 4 contiguous GPUs on node-1
Scheduling training-job-a (4 GPUs) on node-1
"""
STORY = ("-o", "story")
KEEP_EMPTY = (*MOVES, "--set", "consolidation.keepNodesEmpty=true")


@pytest.mark.row("Q-35")
def test_the_demo_is_told_line_by_line(tmp_path: Path) -> None:
    told = plan(tmp_path, *demo(), args=(*STORY, *KEEP_EMPTY))
    assert told.out == f"{STEP_1}\n{STEP_2}\n{STEP_3}"


@pytest.mark.row("Q-35")
def test_the_demo_moves_one_job_of_two_gpus_and_ends_with_an_empty_node(tmp_path: Path) -> None:
    answer = plan(tmp_path, *demo(), args=("-o", "json", *KEEP_EMPTY)).answer
    evicted = [a["pod"] for c in answer["cycles"] for a in c["actions"] if a["do"] == "evict"]
    assert evicted == ["project-c/training-job-2"]
    assert (answer["settled"], len(answer["cycles"])) == (True, 2)
    assert {pod.partition("/")[2]: f["node"] for pod, f in answer["final"].items()} == {
        "training-job-1": "node-1",
        "training-job-a": "node-1",
        "training-job-3": "node-2",
        "training-job-2": "node-2",
        "interactive-job": "node-3",
        "training-job-b": "node-3",
    }


@pytest.mark.row("Q-36")
def test_a_cordoned_node_gives_the_same_story_without_the_mode(tmp_path: Path) -> None:
    told = plan(tmp_path, *demo(cordoned="node-4"), args=(*STORY, *MOVES))
    assert told.out == f"{STEP_1}\n{STEP_2}\n{STEP_3}"


@pytest.mark.row("Q-34")
def test_by_default_the_empty_node_is_used_and_nothing_moves(tmp_path: Path) -> None:
    told = plan(tmp_path, *demo(), args=STORY)
    assert (
        "Found suitable node: node-4 (8 GPUs available)\nAllocating 4 GPUs to training-job-a on node node-4" in told.out
    )
    assert "Moving" not in told.out
    answer = plan(tmp_path, *demo(), args=("-o", "json")).answer
    shares = {name: q["fairShare"]["gpu"] for name, q in answer["queues"].items()}
    assert shares == {
        "department-1": 13,
        "department-2": 11,
        "project-a": 7,
        "project-b": 6,
        "project-c": 6,
        "project-d": 5,
    }


def test_the_first_step_alone_is_told_by_what_starts(tmp_path: Path) -> None:
    one = next(p for p in sample("2-initial-state.yaml") if p["metadata"]["name"] == "training-job-3")
    told = plan(tmp_path, *nodes(), *sample("1-queues.yaml"), one, args=STORY)
    assert "Allocating 6 GPUs to training-job-3 on node node-1\n" in told.out


def test_other_names_and_numbers_give_other_lines(tmp_path: Path) -> None:
    def changed(of: Json) -> Json:
        if of["metadata"]["name"] == "training-job-2":
            return with_meta(of, name="tuning", annotations={})
        if of["metadata"]["name"] == "training-job-a":
            return of | {"spec": of["spec"] | {"containers": [container(3)]}}
        return of

    told = plan(tmp_path, *map(changed, demo()), args=(*STORY, *KEEP_EMPTY)).out
    assert "Allocating 2 GPUs to tuning on node node-1" in told
    assert "Training Job A (3 GPUs) pending - insufficient resources" in told
    assert told.endswith(
        "Moving tuning (2 GPUs) from node-1 to node-2\n"
        "Creating 4 contiguous GPUs on node-1\n"
        "Scheduling training-job-a (3 GPUs) on node-1\n"
    )


def test_a_story_on_other_nodes_is_told_with_the_numbers_of_the_written_one() -> None:
    """Several clusters' stories are compared with this one; which of their empty nodes is opened first is chance."""
    other = STEP_1 + STEP_2 + STEP_3
    for old, new in ("1x", "21", "32", "43", "x4"):
        other = other.replace(f"node-{old}", f"node-{new}").replace(f"Node {old}", f"Node {new}")
    assert other != STEP_1 + STEP_2 + STEP_3
    assert as_written(other) == STEP_1 + STEP_2 + STEP_3


def test_the_display_names_are_the_workloads_own(tmp_path: Path) -> None:
    waiting = with_meta(pod("job", 2), annotations={"gpuyard.io/display-name": "My Job"})
    told = plan(tmp_path, node("gpu-worker-7"), queue(), waiting, pod("plain", 1), args=STORY)
    assert "My Job (2 GPUs) scheduled on Gpu Worker 7\nplain (1 GPU) scheduled on Gpu Worker 7" in told.out


def test_who_waits_for_another_reason_is_told_it(tmp_path: Path) -> None:
    told = plan(tmp_path, node(), queue(limit=1), pod("job", 2), pod("lost", queue="nowhere"), args=STORY)
    assert "New workload submitted: lost (no queue nowhere)" in told.out
    assert "job (2 GPUs) pending - queue team-a has a limit of 1 GPU" in told.out


def test_a_reclaim_is_told_with_its_evictions(tmp_path: Path) -> None:
    mine = [pod(f"b{n}", 4, "team-b", on="node-1") for n in range(2)]
    told = plan(tmp_path, node(), queue(quota=4), queue("team-b", 4), *mine, pod("a", 4), args=STORY)
    assert "Initiating reclaim from other queues" in told.out
    assert "Starting reclaim phase\nEvicting b1 (4 GPUs) from node-1\nCreating 4 contiguous GPUs on node-1" in told.out


def test_nothing_to_tell_is_an_empty_story(tmp_path: Path) -> None:
    assert plan(tmp_path, node(), args=STORY).out == "\n"
