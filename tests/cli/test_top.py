"""`gpuyard top` on a cluster."""

from pathlib import Path

from tests.cli.cluster import BUILT_IN, cluster
from tests.cli.shell import run
from tests.engine.kube.written import node, pod, queue


def test_it_prints_queues_nodes_and_pods_without_colour_in_a_pipe(tmp_path: Path) -> None:
    with cluster(tmp_path, node(), queue(), pod("p", 2, on="node-1")) as kubeconfig:
        told = run("top", "--kubeconfig", kubeconfig)
    assert told.code == 0
    assert [line for line in told.out.splitlines() if line.isupper() and not line.startswith(" ")] == [
        "QUEUES (GPUS)",
        "NODES",
        "PODS",
    ]
    assert "\x1b" not in told.out


def test_for_programs_it_is_json(tmp_path: Path) -> None:
    with cluster(tmp_path, node(), queue(), pod("p", 2, on="node-1")) as kubeconfig:
        told = run("top", "-o", "json", "--kubeconfig", kubeconfig).answer
    assert told["queues"][0]["fairShare"]["gpu"] == 2
    assert told["nodes"][0]["free"] == 6
    assert told["pods"][0]["pod"] == "default/p"


def test_without_our_crds_it_says_so_and_shows_the_rest(tmp_path: Path) -> None:
    with cluster(tmp_path, node(), pod(on="node-1"), kinds=BUILT_IN) as kubeconfig:
        told = run("top", "--kubeconfig", kubeconfig)
    assert told.code == 0
    assert "has no queues (scheduling.run.ai/v2): gpuyard's CRDs are not installed, see docs/install.md" in told.err
    assert "node-1" in told.out


def test_without_a_cluster_it_says_so_and_ends_with_3() -> None:
    told = run("top", "--kubeconfig", "/nowhere")
    assert (told.code, "/nowhere" in told.err) == (3, True)


def test_one_part_of_it_can_be_asked_for(tmp_path: Path) -> None:
    with cluster(tmp_path, node(), queue(), pod("p", 2, on="node-1")) as kubeconfig:
        rows = run("top", "pods", "--no-headers", "--kubeconfig", kubeconfig)
        named = run("top", "nodes", "-o", "name", "--kubeconfig", kubeconfig)
        whole = run("top", "nodes", "-o", "json", "--kubeconfig", kubeconfig).answer
    assert rows.out.split() == ["default/p", "team-a", "2", "Running", "node-1"]
    assert named.out == "node/node-1\n"
    assert (whole["queues"], whole["nodes"][0]["name"]) == ([], "node-1")
