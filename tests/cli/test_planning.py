"""`gpuyard plan`, option by option."""

import re
from pathlib import Path
from typing import cast

import msgspec
import pytest
import yaml
from gpuyard.cli.drawing import MOST_ROWS
from gpuyard.engine.model.settings import REMOVED, Removed

from tests.cli.demo import MOVES, demo
from tests.cli.shell import plan, run
from tests.engine.kube.written import NOON, Json, node, pod, queue, with_meta

TWO = (node(), queue(limit=8), pod("a", 6, on="node-1"), pod("b", 4))


def actions(answer: Json) -> list[str]:
    return [f"{a['do']} {a['pod']}" for cycle in answer["cycles"] for a in cycle["actions"]]


def test_the_answer_has_the_form_of_the_contract(tmp_path: Path) -> None:
    answer = plan(tmp_path, node(), queue(), pod("a", 2), args=("-o", "json")).answer
    assert answer == {
        "settled": True,
        "cycles": [
            {"actions": [{"do": "bind", "pod": "default/a", "node": "node-1", "gpus": ["0", "1"]}]},
            {"actions": []},
        ],
        "final": {"default/a": {"state": "Running", "node": "node-1", "gpus": ["0", "1"]}},
        "pending": {},
        "queues": {
            "team-a": {
                "fairShare": {"gpu": 2, "cpu": 0, "memory": 0},
                "allocated": {"gpu": 0, "cpu": 0, "memory": 0},
                "requested": {"gpu": 2, "cpu": 0, "memory": 0},
                "deserved": {"gpu": 8, "cpu": -1, "memory": -1},
            }
        },
    }


def test_an_eviction_names_its_phase_its_claimant_and_both_queues(tmp_path: Path) -> None:
    running = pod("b", 8, "team-b", on="node-1")
    answer = plan(
        tmp_path, node(), queue(quota=4), queue("team-b", 4), running, pod("a", 1), args=("-o", "json")
    ).answer
    (evicted,) = [a for a in answer["cycles"][0]["actions"] if a["do"] == "evict"]
    assert (evicted["phase"], evicted["for"]) == ("reclaim", "default/a")
    for name in ("team-a", "team-b"):
        assert re.search(rf"queue {name}: allocated \d GPUs?, quota 4 GPUs, fair share \d GPUs?", evicted["reason"])


def test_shared_gpus_are_named_by_their_group(tmp_path: Path) -> None:
    half = {"gpu-fraction": "0.5"}
    given = [pod("a", 0, on="node-1", notes=half, labels={"runai-gpu-group": "g1"}), pod("b", 0, notes=half)]
    answer = plan(tmp_path, node(), queue(), *given, args=("-o", "json")).answer
    assert {f["gpuGroup"] for f in answer["final"].values()} == {"g1"}
    assert answer["queues"]["team-a"]["allocated"]["gpu"] == 0.5


def test_jsonl_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    as_json = plan(tmp_path, *demo(), args=("-o", "json"))
    as_line = plan(tmp_path, *demo(), args=("-o", "jsonl"))
    as_yaml = plan(tmp_path, *demo(), args=("-o", "yaml"))
    assert as_line.out.count("\n") == 1
    assert as_json.answer == as_line.answer == yaml.safe_load(as_yaml.out)


@pytest.mark.row("Q-33")
@pytest.mark.parametrize("output", ["table", "json", "jsonl", "yaml", "story"])
def test_the_order_of_the_objects_does_not_change_a_byte(tmp_path: Path, output: str) -> None:
    given = demo()
    first = plan(tmp_path, *given, args=("-o", output))
    assert plan(tmp_path, *reversed(given), args=("-o", output)).out == first.out


def test_pods_that_stay_pending_are_no_failure(tmp_path: Path) -> None:
    result = plan(tmp_path, *TWO, args=("-o", "json"))
    assert result.code == 0
    assert result.answer["pending"]["default/b"]["reason"] == "OverLimit"


def test_check_answers_by_exit_code_and_says_at_whose_cost(tmp_path: Path) -> None:
    no = plan(tmp_path, *TWO, args=("--check", "default/b"))
    assert (no.code, no.out.splitlines()[0]) == (
        1,
        "no: default/b has no place: OverLimit: queue team-a has a limit of 8 GPUs (6 GPUs in use, 4 GPUs asked for)",
    )
    yes = plan(tmp_path, *TWO, args=("--check", "default/a"))
    assert (yes.code, yes.out.splitlines()[0]) == (0, "yes: default/a has a place on node-1, at nobody's cost")


def test_check_names_those_who_lose_or_change_their_place(tmp_path: Path) -> None:
    moved = plan(tmp_path, *demo(cordoned="node-4"), args=(*MOVES, "--check", "project-c/training-job-a"))
    assert "yes: project-c/training-job-a has a place on node-1, moving project-c/training-job-2" in moved.out
    running = pod("b", 8, "team-b", on="node-1")
    taken = plan(tmp_path, node(), queue(quota=4), queue("team-b", 4), running, pod("a"), args=("--check", "default/a"))
    assert "yes: default/a has a place on node-1, evicting default/b" in taken.out


def test_a_job_can_be_checked_before_it_is_submitted(tmp_path: Path) -> None:
    cluster, job = tmp_path / "cluster.yaml", tmp_path / "new-job.json"
    cluster.write_text(yaml.safe_dump_all([node(), queue()]), encoding="utf-8")
    job.write_bytes(msgspec.json.encode(pod("new", 2)))
    assert run("plan", "-f", cluster, "-f", job, "--check", "default/new").code == 0


def test_a_pod_to_check_or_explain_must_be_there(tmp_path: Path) -> None:
    result = plan(tmp_path, *TWO, args=("--check", "default/bb"))
    assert (result.code, result.out) == (2, "")
    assert "--check default/bb: there is no such pod in the input; did you mean default/b?" in result.err


def test_explain_tells_gates_queues_nodes_and_what_would_help(tmp_path: Path) -> None:
    out = plan(tmp_path, *TWO, args=("--explain", "default/b")).out
    assert out.startswith("default/b waits: OverLimit: queue team-a has a limit of 8 GPUs")
    for heading in ("GATES", "QUEUES ON THE WAY UP", "NODES", "WHAT THE ENGINE DID", "WHAT WOULD HELP"):
        assert heading in out
    assert "bounds  refused: OverLimit" in out
    assert "ask for at most 2 GPUs in each pod: it would run on node-1" in out


def test_explain_tells_of_a_pod_that_runs_where_it_runs(tmp_path: Path) -> None:
    assert plan(tmp_path, *TWO, args=("--explain", "default/a")).out.startswith("default/a: Running on node-1")


def test_explain_names_every_node_of_a_large_cluster_and_the_pods_own(tmp_path: Path) -> None:
    many = [node(f"node-{n:02}") for n in range(MOST_ROWS + 5)]
    out = plan(tmp_path, *many, queue(), pod("a", 6, on="node-03"), args=("--explain", "default/a")).out
    assert "node-03  2          its own place" in out
    assert "node-44  8          fits" in out


def test_explain_tells_who_was_tried_for_a_pod(tmp_path: Path) -> None:
    out = plan(tmp_path, *demo(cordoned="node-4"), args=(*MOVES, "--explain", "project-c/training-job-a")).out
    assert "consolidate: without project-c/training-job-2" in out


def test_explain_tells_for_whose_failure_nobody_was_tried(tmp_path: Path) -> None:
    running = pod("r", 8, on="node-1", priority=50)
    given = (node(), queue(), running, pod("a", 9, priority=75), pod("b", 9, priority=75))
    out = plan(tmp_path, *given, args=("--explain", "default/b")).out
    assert "preempt: nobody was tried, as default/a asks for no more and found no room" in out


def test_explain_tells_programs_the_same_beside_the_plan(tmp_path: Path) -> None:
    answer = plan(tmp_path, *TWO, args=("--explain", "default/b", "-o", "json")).answer
    told = answer["explain"]
    assert answer["pending"]["default/b"] == {"reason": told["reason"], "message": told["message"]}
    assert (told["pod"], told["state"]) == ("default/b", "Pending")
    assert [(g["gate"], g["passed"]) for g in told["gates"]] == [("queue", True), ("gang", True), ("bounds", False)]
    assert told["gates"][-1]["reason"] == "OverLimit"
    (stand,) = told["queues"]
    assert (stand["queue"], stand["limit"]["gpu"], stand["allocated"]["gpu"]) == ("team-a", 8, 6)
    assert told["nodes"] == [{"node": "node-1", "freeGpus": 2, "fits": False, "cause": "too few free GPUs"}]
    assert any(step.startswith("default/b is not let through: OverLimit") for step in told["steps"])
    assert "ask for at most 2 GPUs in each pod: it would run on node-1" in told["advice"]


def test_explain_tells_programs_of_a_pod_that_runs_where_it_runs(tmp_path: Path) -> None:
    told = plan(tmp_path, *TWO, args=("--explain", "default/a", "-o", "json")).answer["explain"]
    assert (told["state"], told["node"], told["advice"]) == ("Running", "node-1", [])
    assert all(gate["passed"] for gate in told["gates"])
    assert told["nodes"] == [{"node": "node-1", "freeGpus": 2, "fits": True}]


@pytest.mark.parametrize("output", ["jsonl", "yaml"])
def test_explain_says_the_same_in_every_form_for_programs(tmp_path: Path, output: str) -> None:
    as_json = plan(tmp_path, *TWO, args=("--explain", "default/b", "-o", "json"))
    other = plan(tmp_path, *TWO, args=("--explain", "default/b", "-o", output))
    assert yaml.safe_load(other.out) == as_json.answer


def test_explain_is_no_story(tmp_path: Path) -> None:
    result = plan(tmp_path, *TWO, args=("--explain", "default/b", "-o", "story"))
    assert (result.code, result.out) == (2, "")
    assert "--explain is about one snapshot, and no story" in result.err


def test_explain_and_check_may_be_asked_together(tmp_path: Path) -> None:
    result = plan(tmp_path, *TWO, args=("--explain", "default/b", "--check", "default/b"))
    assert result.code == 1
    assert [line.partition(":")[0] for line in result.out.splitlines()[:2]] == ["no", "default/b waits"]


def test_only_the_phases_that_are_named_are_run(tmp_path: Path) -> None:
    running = pod("b", 8, "team-b", on="node-1")
    given = (node(), queue(quota=4), queue("team-b", 4), running, pod("a", 1))
    assert actions(plan(tmp_path, *given, args=("--phases", "allocate", "-o", "json")).answer) == []
    assert "evict default/b" in actions(plan(tmp_path, *given, args=("--phases", "reclaim", "-o", "json")).answer)


@pytest.mark.parametrize("phases", ["", "allocate,allocate", "sleep", "allocate, reclaim"])
def test_phases_that_do_not_exist_are_refused(tmp_path: Path, phases: str) -> None:
    assert plan(tmp_path, *TWO, args=("--phases", phases)).code == 2


def test_cycles_are_counted_and_one_cycle_shows_what_is_under_way(tmp_path: Path) -> None:
    answer = plan(tmp_path, node(), queue(), pod("a"), args=("--cycles", "1", "-o", "json")).answer
    assert (len(answer["cycles"]), answer["settled"], answer["final"]["default/a"]["state"]) == (1, False, "Bound")


def test_the_clock_can_be_set(tmp_path: Path) -> None:
    given = (
        node(),
        queue(quota=4),
        queue("team-b", 4, reclaimMinRuntime="10m"),
        pod("b", 8, "team-b", on="node-1", status={"startTime": NOON}),
        pod("a", 1),
    )
    early = plan(tmp_path, *given, args=("--now", "2026-03-01T12:04:00Z", "-o", "json")).answer
    assert early["pending"]["default/a"]["reason"] == "ProtectedByMinRuntime"
    late = plan(tmp_path, *given, args=("--now", "2026-03-01T12:10:00Z", "-o", "json")).answer
    assert "default/a" not in late["pending"]
    assert plan(tmp_path, *given, args=("--now", "noon")).code == 2


@pytest.mark.parametrize(
    "spread",
    [
        pytest.param(("--placement", "spread"), marks=pytest.mark.row("B-81", case="option")),
        pytest.param(("--set", "placement=spread"), marks=pytest.mark.row("B-81", case="set")),
    ],
)
def test_placement_packs_or_spreads(tmp_path: Path, spread: tuple[str, str]) -> None:
    given = (node("node-1"), node("node-2"), queue(), pod("a", 1, on="node-1"), pod("b", 1))
    assert plan(tmp_path, *given, args=("-o", "json")).answer["final"]["default/b"]["node"] == "node-1"
    assert plan(tmp_path, *given, args=("-o", "json", *spread)).answer["final"]["default/b"]["node"] == "node-2"


@pytest.mark.row("B-81", case="refused")
@pytest.mark.parametrize("bad", [("--placement", "dense"), ("--set", "placement=dense")])
def test_a_placement_that_there_is_not_is_refused_with_those_that_there_are(
    tmp_path: Path, bad: tuple[str, str]
) -> None:
    told = plan(tmp_path, *TWO, args=bad)
    assert (told.code, told.out) == (2, "")
    assert "placement: 'dense' is none of pack, spread" in told.err


def test_settings_have_the_names_of_the_documentation(tmp_path: Path) -> None:
    given = (node(), queue(), pod("a", queue=None))
    answer = plan(tmp_path, *given, args=("--set", "defaultQueue=team-a", "-o", "json")).answer
    assert answer["final"]["default/a"]["state"] == "Running"


@pytest.mark.row("B-36", case="plan")
@pytest.mark.parametrize("key", ["promise.ttl", "capacity.grace", "verdict.ttl"])
def test_a_setting_that_changes_no_plan_is_warned_of_once(tmp_path: Path, key: str) -> None:
    told = plan(tmp_path, *TWO, args=("--set", f"{key}=9m", "--set", f"{key}=8m"))
    warning = f"warning: --set {key} has no effect: it is for the running extender and changes no plan\n"
    assert (told.code, told.err.count(warning)) == (0, 1)
    assert told.out == plan(tmp_path, *TWO).out


@pytest.mark.row("B-83", case="plan")
def test_a_removed_setting_is_warned_of_with_what_to_do_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cast("dict[str, Removed]", REMOVED), "speed", Removed("nothing is needed", "0.3"))
    told = plan(tmp_path, *TWO, args=("--set", "speed=9", "--set", "speed=8"))
    warning = "warning: --set speed: removed, without effect; nothing is needed; refused from version 0.3 on\n"
    assert (told.code, told.err.count(warning)) == (0, 1)


USAGE: Json = {"apiVersion": "gpuyard.io/v1alpha1", "kind": "QueueUsage", "metadata": {"name": "usage"}}


@pytest.mark.row("B-36", case="no-history")
def test_a_weight_of_past_use_is_warned_of_where_none_is_known(tmp_path: Path) -> None:
    weight = ("--set", "fairshare.k=2")
    assert plan(tmp_path, *TWO, args=weight).err.count("fairshare.k has no effect") == 1
    past = USAGE | {"queues": {"team-a": {"gpu": 0.5}}}
    assert "fairshare.k" not in plan(tmp_path, *TWO, past, args=weight).err
    assert "fairshare.k" not in plan(tmp_path, *TWO).err


@pytest.mark.row("B-36", case="no-history")
def test_of_many_snapshots_a_weight_of_past_use_is_warned_of_once(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": TWO}))
    told = run("plan", "--each", tmp_path, "--set", "fairshare.k=2", "-o", "jsonl")
    assert (told.code, told.err.count("fairshare.k has no effect")) == (0, 1)


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        ("defaultqueue=x", "defaultqueue: no such setting; known are defaultQueue,"),
        ("consolidation.maxMoved", "KEY=VALUE is needed"),
        ("consolidation.maxMoved=many", "'many' is not a whole number"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(tmp_path: Path, pair: str, why: str) -> None:
    result = plan(tmp_path, *TWO, args=("--set", pair))
    assert (result.code, result.out) == (2, "")
    assert why in result.err


def test_something_must_be_read() -> None:
    assert "say what to read" in run("plan", "-o", "json").err
    assert run("plan").code == 2


def test_bad_input_prints_every_fault_and_no_plan(tmp_path: Path) -> None:
    given = [node(gpus="many"), queue(quota=-3), pod("a", on="gone")]
    result = plan(tmp_path, *given)
    assert (result.code, result.out) == (2, "")
    path = tmp_path / "cluster.json"
    assert result.err.splitlines() == [
        f"{path}: Node node-1: status.allocatable.nvidia.com/gpu: 'many' is not a quantity, as 2, 500m or 1.5Gi",
        f"{path}: Pod default/a: spec.nodeName: there is no node 'gone' in the input",
        f"{path}: Queue team-a: spec.resources.gpu.quota: '-3' is negative",
    ]


def test_what_is_passed_over_and_what_looks_wrong_is_told_aside(tmp_path: Path) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    both = pod("a", labels={"runai/queue": "old"})
    result = plan(tmp_path, node(), queue(), service, both, args=("-o", "json"))
    assert result.code == 0
    assert "skipped 1 of Service (v1)" in result.err
    assert "warning: " in result.err
    assert result.answer["settled"]


def snapshots(folder: Path, **files: Json) -> Path:
    folder.mkdir()
    for name, given in files.items():
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(given))
    (folder / "below").mkdir()
    (folder / "below" / "x.json").write_text("{")
    return folder


def listed(*items: Json) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def test_each_file_of_a_folder_is_answered_in_the_order_of_the_names(tmp_path: Path) -> None:
    folder = snapshots(tmp_path / "all", b=listed(*TWO), a=listed(node()))
    result = run("plan", "--each", folder, "-o", "jsonl")
    assert result.code == 0
    answers = [msgspec.json.decode(line) for line in result.out.splitlines()]
    assert [a["file"] for a in answers] == ["a.json", "b.json"]
    assert answers[1]["pending"].keys() == {"default/b"}


@pytest.mark.parametrize("output", ["jsonl", "json", "yaml", "table", "story"])
def test_one_broken_file_does_not_keep_the_others_from_being_answered(tmp_path: Path, output: str) -> None:
    folder = snapshots(tmp_path / "all", a=queue(quota=-3), b=listed(*TWO))
    result = run("plan", "--each", folder, "-o", output)
    assert result.code == 2
    assert "-3" in result.out
    assert "gpu" in result.out.partition("negative")[2].lower()


def test_a_broken_snapshot_has_a_line_with_its_faults(tmp_path: Path) -> None:
    folder = snapshots(tmp_path / "all", a=queue(quota=-3))
    (line,) = run("plan", "--each", folder, "-o", "jsonl").out.splitlines()
    answer = msgspec.json.decode(line)
    assert answer.keys() == {"file", "error"}
    assert answer["error"][0].endswith("Queue team-a: spec.resources.gpu.quota: '-3' is negative")


def test_a_pod_to_check_that_one_file_lacks_does_not_keep_the_others_from_being_answered(tmp_path: Path) -> None:
    folder = snapshots(tmp_path / "all", a=listed(node(), queue(), pod("b")), b=listed(*TWO))
    result = run("plan", "--each", folder, "-o", "jsonl", "--check", "default/a")
    first, second = map(msgspec.json.decode, result.out.splitlines())
    why = "a.json: --check default/a: there is no such pod in the input; did you mean default/b?"
    assert (first, second["file"], result.code) == ({"file": "a.json", "error": [why]}, "b.json", 2)


def test_a_folder_that_is_not_there_is_bad_usage(tmp_path: Path) -> None:
    assert run("plan", "--each", tmp_path / "gone").code == 2


def test_the_newest_time_of_the_input_is_the_clock(tmp_path: Path) -> None:
    old = with_meta(pod("b", 8, "team-b", on="node-1", status={"startTime": NOON}), creationTimestamp=NOON)
    new = with_meta(pod("a", 1), creationTimestamp="2026-03-01T12:09:59Z")
    given = (node(), queue(quota=4), queue("team-b", 4, reclaimMinRuntime="10m"), old, new)
    assert "ProtectedByMinRuntime" in plan(tmp_path, *given).out


def job(pods: int = 4, gpus: int = 4, **labels: str) -> Json:
    made = pod("unused", gpus)
    template = {"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"]}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "labels": labels}, "spec": spec}


FULL = (node(), queue("team-b", 0), pod("lent", 8, "team-b", on="node-1"), queue())


def test_the_pods_that_a_job_would_make_are_planned_for(tmp_path: Path) -> None:
    done = plan(tmp_path, node(), queue(), job(), args=("-o", "json"))
    assert (done.code, done.err) == (0, "")
    assert actions(done.answer) == ["bind default/train-0", "bind default/train-1"]
    assert list(done.answer["pending"]) == ["default/train-2", "default/train-3"]


@pytest.mark.parametrize("name", ["job/train", "default/train"])
def test_a_job_is_checked_as_a_whole(tmp_path: Path, name: str) -> None:
    yes = plan(tmp_path, node(), queue(), job(2), args=("--check", name))
    no = plan(tmp_path, node(), queue(), job(4), args=("--check", name))
    assert (yes.code, no.code) == (0, 1)
    assert f"yes: all 2 pods of {name} have places, on node-1, at nobody's cost" in yes.out
    assert f"no: 2 of the 4 pods of {name} have places; default/train-2 has no place: " in no.out


def test_of_two_jobs_of_one_name_the_namespace_says_which_is_meant(tmp_path: Path) -> None:
    two = (node(), queue(), *(with_meta(job(pods), namespace=there) for pods, there in ((2, "team-a"), (4, "team-b"))))
    neither = plan(tmp_path, *two, args=("--check", "job/train"))
    assert (neither.code, "it may be team-a/job/train or team-b/job/train: say which" in neither.err) == (2, True)
    for said in (("-n", "team-a", "--check", "job/train"), ("--check", "team-a/Job/train")):
        assert "yes: all 2 pods of " in plan(tmp_path, *two, args=said).out
    assert "0 of the 4 pods of job/train" in plan(tmp_path, *two, args=("-n", "team-b", "--check", "job/train")).out


def test_of_two_jobs_of_one_name_the_one_that_is_being_submitted_is_meant(tmp_path: Path) -> None:
    owner = {"kind": "Job", "name": "train", "controller": True}
    there = with_meta(pod("train-abc", on="node-1", namespace="team-b"), ownerReferences=[owner], uid="u-1")
    told = plan(tmp_path, node(), queue(), there, job(1), args=("--check", "job/train"))
    assert (told.code, "yes: default/train-0 has a place" in told.out) == (0, True)


def test_where_n_says_another_namespace_than_what_is_being_submitted_no_old_job_answers_for_it(tmp_path: Path) -> None:
    owner = {"kind": "Job", "name": "train", "controller": True}
    old = with_meta(pod("train-abc", on="node-1", namespace="team-a"), ownerReferences=[owner], uid="u-1")
    new = with_meta(job(40), namespace="team-b")
    told = plan(tmp_path, node(), queue(), old, new, args=("-n", "team-a", "--check", "job/train"))
    assert (told.code, "it may be team-a/job/train or team-b/job/train: say which" in told.err) == (2, True)


def test_a_job_that_the_api_server_would_name_can_be_asked_about(tmp_path: Path) -> None:
    nameless = job(1) | {"metadata": {"generateName": "train-"}}
    asked = ("--check", "job/train-x", "--check", "job/train-x2")
    told = plan(tmp_path, node(), queue(), nameless, nameless, args=asked)
    assert (told.code, "yes: default/train-x2-0 has a place" in told.out) == (0, True)


def test_a_job_without_a_name_is_told_once(tmp_path: Path) -> None:
    told = plan(tmp_path, node(), job(1) | {"metadata": {}})
    assert (told.code, told.err.count("metadata.name: missing")) == (2, 1)


def test_a_submitted_pod_that_names_its_node_is_planned_for_with_a_warning(tmp_path: Path) -> None:
    named = {key: value for key, value in pod("p", on="node-1").items() if key != "status"}
    told = plan(tmp_path, node(), queue(), named, args=("--check", "default/p"))
    assert (told.code, told.err.count("Pod default/p: spec.nodeName: with it the pod starts there at once")) == (0, 1)
    assert told.err.startswith("warning: ")


def test_who_pays_for_a_job_is_told(tmp_path: Path) -> None:
    told = plan(tmp_path, *FULL, job(2), args=("--check", "job/train"))
    assert "yes: all 2 pods of job/train have places, on node-1, evicting default/lent" in told.out


def test_of_a_job_the_first_pod_that_waits_is_explained(tmp_path: Path) -> None:
    told = plan(tmp_path, node(), queue(), job(4), args=("--explain", "job/train", "-o", "json")).answer
    assert told["explain"]["pod"] == "default/train-2"


def test_a_job_goes_where_the_namespace_is_said(tmp_path: Path) -> None:
    told = plan(tmp_path, node(), queue(), job(1), args=("-n", "team-a", "--check", "team-a/train"))
    assert (told.code, "yes: team-a/train-0 has a place" in told.out) == (0, True)
