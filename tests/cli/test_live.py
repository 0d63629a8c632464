"""What is read of a live cluster: everything that decides about pods, and nothing secret."""

import json
from pathlib import Path

import pytest
from gpuyard.cli.live import KINDS, OWNERS, bare, document, standing
from gpuyard.engine.kube.decode import READ

from tests.cli.cluster import BUILT_IN, PATHS, cluster
from tests.cli.demo import demo
from tests.cli.shell import run
from tests.engine.kube.written import Json, node, pod, pod_group, queue, with_meta

SPREAD = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\nplacement: spread\n"


def saved(folder: Path, *given: Json, kinds: tuple[str, ...] = tuple(PATHS)) -> Json:
    with cluster(folder, *given, kinds=kinds) as kubeconfig:
        return run("snapshot", "save", "-", "--kubeconfig", kubeconfig).answer


def names(document: Json) -> list[str]:
    return [f"{thing['kind']} {thing['metadata']['name']}" for thing in document["items"]]


@pytest.mark.row("B-52")
def test_of_a_cluster_all_kinds_are_taken_along_of_which_a_snapshot_is_made() -> None:
    """The past use of queues is in no cluster: it comes from metrics."""
    assert {resource.kind for resource in (*KINDS, *OWNERS)} == READ - {"QueueUsage"}


def test_every_kind_is_read_page_by_page(tmp_path: Path) -> None:
    pods = [pod(f"p{n}", on="node-1") for n in range(5)]
    found = saved(tmp_path, node(), queue(), pod_group(), *pods)
    assert names(found) == [*(f"Pod p{n}" for n in range(5)), "PodGroup gang", "Queue team-a", "Node node-1"]


def test_a_cluster_without_our_crds_is_read_all_the_same(tmp_path: Path) -> None:
    assert names(saved(tmp_path, node(), pod(), kinds=BUILT_IN)) == ["Pod p", "Node node-1"]


def test_topologies_are_read_where_there_are_any_and_not_missed_elsewhere(tmp_path: Path) -> None:
    rack: Json = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "racks"}}
    assert names(saved(tmp_path, node(), rack)) == ["Node node-1", "Topology racks"]
    ours = tuple(kind for kind in PATHS if kind != "Topology")
    with cluster(tmp_path, node(), kinds=ours) as kubeconfig:
        assert run("snapshot", "save", "-", "--kubeconfig", kubeconfig).err == ""


def training(**spec: object) -> Json:
    replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": 2, "template": {"spec": "s3cret"}}}
    meta = {"name": "train", "namespace": "default", "uid": "uid-train"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": meta,
        "spec": {"pytorchReplicaSpecs": replicas, **spec},
    }


def job(name: str, **annotations: str) -> Json:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": "s3cret"}}


def test_owners_are_read_as_far_as_they_say_how_many_of_their_pods_start_together(tmp_path: Path) -> None:
    noted = job("noted", **{"kai.scheduler/batch-min-member": "3"})
    found = saved(tmp_path, node(), job("plain"), noted, training(), training(pytorchReplicaSpecs=7))
    assert names(found) == ["Node node-1", "Job noted", "PyTorchJob train"]
    assert "s3cret" not in json.dumps(found)


def test_who_may_not_read_owners_is_told_and_goes_on_without(tmp_path: Path) -> None:
    with cluster(tmp_path, node(), forbidden="Job") as kubeconfig:
        told = run("snapshot", "save", "-", "--kubeconfig", kubeconfig)
    assert names(told.answer) == ["Node node-1"]
    assert "what jobs say of their pods is not known" in told.err


@pytest.mark.parametrize(("nodes", "run_now"), [(2, 0), (3, 3)])
def test_a_training_job_starts_whole_or_not_at_all_in_a_plan_too(tmp_path: Path, nodes: int, run_now: int) -> None:
    members = [pod(name, 8) for name in ("train-master-0", "train-worker-0", "train-worker-1")]
    for member in members:
        member["metadata"]["ownerReferences"] = [{"kind": "PyTorchJob", "name": "train", "uid": "uid-train"}]
    there = [node(f"n{number}") for number in range(nodes)]
    with cluster(tmp_path, *there, queue(), training(), *members) as kubeconfig:
        told = run("plan", "--live", "--kubeconfig", kubeconfig, "-o", "json").answer
    assert [one["state"] for one in told["final"].values()].count("Running") == run_now


def test_what_may_be_secret_stays_in_the_cluster() -> None:
    secret: Json = {"name": "main", "env": [{"name": "KEY", "value": "s3cret"}], "command": ["s3cret"], "resources": {}}
    told = pod("p", containers=[secret], volumes=[{"name": "s3cret"}], imagePullSecrets=[{"name": "s3cret"}])
    told["metadata"] |= {
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "s3cret", "gpu-fraction": "0.5"},
        "managedFields": [{"manager": "s3cret"}],
    }
    told["status"] |= {"containerStatuses": [{"name": "main", "state": {"terminated": {"message": "s3cret"}}}]}
    kept = bare(told)
    assert "s3cret" not in json.dumps(kept)
    assert kept["spec"]["containers"] == [{"name": "main", "resources": {}}]
    assert kept["metadata"]["annotations"] == {"gpu-fraction": "0.5"}


def test_pods_of_a_node_that_has_gone_are_left_out() -> None:
    assert names({"items": standing([pod("a", on="gone"), pod("b"), pod("c", on="node-1"), node()])}) == [
        "Pod b",
        "Pod c",
        "Node node-1",
    ]


def test_an_empty_cluster_is_a_document_too() -> None:
    assert json.loads(document([])) == {"apiVersion": "v1", "kind": "List", "items": []}


@pytest.mark.parametrize("output", ["json", "story"])
def test_the_plan_of_a_saved_cluster_is_that_of_its_objects(tmp_path: Path, output: str) -> None:
    given, file = demo(), tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": given}))
    at = ("--now", "2026-11-18T12:00:00Z", "-o", output)
    with cluster(tmp_path, *given) as kubeconfig:
        assert run("snapshot", "save", tmp_path / "saved", "--kubeconfig", kubeconfig).code == 0
        live = run("plan", "--live", "--kubeconfig", kubeconfig, *at)
    assert run("plan", "-f", tmp_path / "saved", *at).out == live.out == run("plan", "-f", file, *at).out


@pytest.mark.parametrize(("gpus", "code", "verdict"), [(2, 0, "yes: default/mine"), (9, 1, "no: default/mine")])
def test_what_if_i_submitted_this(tmp_path: Path, gpus: int, code: int, verdict: str) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(json.dumps(pod("mine", gpus)))
    with cluster(tmp_path, node(), queue(), pod("other", 4, on="node-1")) as kubeconfig:
        told = run("plan", "--live", "--kubeconfig", kubeconfig, "-f", mine, "--check", "default/mine")
    assert told.code == code
    assert told.out.startswith(verdict)


@pytest.mark.row("B-81", case="cluster")
@pytest.mark.parametrize(("args", "expected"), [((), "node-2"), (("--placement", "pack"), "node-1")])
def test_pods_are_placed_as_the_cluster_is_set_unless_told_otherwise(
    tmp_path: Path, args: tuple[str, ...], expected: str
) -> None:
    given = (node("node-1"), node("node-2"), queue(), pod("a", on="node-1"), pod("b"))
    with cluster(tmp_path, *given, config=SPREAD) as kubeconfig:
        told = run("plan", "--live", "--kubeconfig", kubeconfig, "-o", "json", *args).answer
    assert told["final"]["default/b"]["node"] == expected


def test_what_is_there_already_is_not_submitted_again(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(json.dumps(pod("a")))
    with cluster(tmp_path, node(), queue(), pod("a")) as kubeconfig:
        told = run("plan", "--live", "--kubeconfig", kubeconfig, "-f", mine)
    assert (told.code, "the cluster: Pod default/a: metadata.name: given twice" in told.err) == (2, True)


def test_what_one_may_not_list_is_named_with_the_right_that_it_takes(tmp_path: Path) -> None:
    with cluster(tmp_path, node(), forbidden="Plan") as kubeconfig:
        told = run("plan", "--live", "--kubeconfig", kubeconfig)
    assert told.code == 3
    assert "you may not (403 Forbidden); ask for the right to list plans in all namespaces" in told.err


@pytest.mark.parametrize("asked", [("plan", "--live"), ("snapshot", "save", "-")])
def test_without_a_cluster_it_says_so_and_ends_with_3(asked: tuple[str, ...]) -> None:
    told = run(*asked, "--kubeconfig", "/nowhere")
    assert (told.code, "/nowhere" in told.err) == (3, True)


def test_what_is_submitted_goes_to_the_namespace_that_kubectl_would_take(tmp_path: Path) -> None:
    mine = tmp_path / "job.yaml"
    template = "template: {spec: {containers: [{name: main}]}}"
    mine.write_text(f"{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{{template}}}}}")
    with cluster(tmp_path, node(), namespace="team-a") as kubeconfig:
        told = run("plan", "--live", "--kubeconfig", kubeconfig, "-f", mine, "--check", "deploy/web", "-o", "json")
    assert list(told.answer["final"]) == ["team-a/web-0"]


@pytest.mark.parametrize(("said", "code", "answer"), [((), 1, "no: team-b/train"), (("-n", "team-a"), 2, "say which")])
def test_what_is_submitted_comes_before_what_is_there_unless_another_namespace_is_said(
    tmp_path: Path, said: tuple[str, ...], code: int, answer: str
) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(json.dumps(pod("train", 9, namespace="team-b")))
    old = with_meta(pod("train", on="node-1", namespace="team-a"), uid="u-1")
    with cluster(tmp_path, node(), queue(), old, namespace="team-a") as kubeconfig:
        told = run("plan", "--live", "--kubeconfig", kubeconfig, *said, "-f", new, "--check", "pod/train")
    assert (told.code, answer in told.out + told.err) == (code, True)
