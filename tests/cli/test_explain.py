"""`gpuyard explain` on a cluster: what is asked, what comes back, what if there is no such pod."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.cluster import cluster
from tests.cli.shell import Run, run
from tests.engine.kube.written import node, pod, queue, with_meta

TRAIN: tuple[tuple[str, dict[str, Any]], ...] = (("train-abc", {"on": "node-1"}), ("train-xyz", {}))
GIVEN = (
    node(),
    queue(limit=5),
    pod("runs", 4, on="node-1"),
    pod("waits", 2),
    pod("other", 1, namespace="team-b"),
    *(with_meta(pod(name, 1, **more), ownerReferences=[{"kind": "Job", "name": "train"}]) for name, more in TRAIN),
)


def ask(folder: Path, *arguments: str, namespace: str = "") -> Run:
    with cluster(folder, *GIVEN, namespace=namespace) as kubeconfig:
        return run("explain", *arguments, "--kubeconfig", kubeconfig)


@pytest.mark.parametrize("written", ["pod/waits", "pods/waits", "po/waits", "waits"])
def test_a_pod_may_be_written_as_in_kubectl(tmp_path: Path, written: str) -> None:
    told = ask(tmp_path, written, "-n", "default")
    assert (told.code, "it waits: OverLimit" in told.out) == (0, True)


def test_of_a_job_it_is_the_first_pod_that_waits(tmp_path: Path) -> None:
    told = ask(tmp_path, "job/train")
    assert told.err == "job/train has 2 pods, 1 of them waiting: this is default/train-xyz\n"
    assert told.out.startswith("default/train-xyz\n")


def test_the_page_ends_with_what_would_help_and_has_no_colour_in_a_pipe(tmp_path: Path) -> None:
    told = ask(tmp_path, "pod/waits").out
    assert "raise the limit of queue team-a" in told[told.index("WHAT WOULD HELP") :]
    assert "\x1b" not in told


def test_for_programs_it_is_json(tmp_path: Path) -> None:
    told = ask(tmp_path, "pod/waits", "-o", "json").answer
    assert (told["pod"], told["reason"], told["kubeScheduler"]) == ("default/waits", "OverLimit", None)
    assert told["nodes"] == [{"node": "node-1", "freeGpus": 3, "cause": ""}]


def test_the_namespace_is_that_of_the_kubeconfigs_context(tmp_path: Path) -> None:
    assert ask(tmp_path, "other", namespace="team-b").code == 0


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("pod/wait",), "no pod wait in namespace default; did you mean waits?"),
        (("pod/other",), "there is one in team-b: say -n team-b"),
        (("pod/xyzzy",), "`kubectl get pods -n default` names those that there are"),
        (("job/waits",), "job/waits has no pods in namespace default; name a pod, or what made pods: a Job"),
        (("queue/team-a",), "queue/team-a has no pods in namespace default"),
        (("pod/",), "'pod/' is not KIND/NAME, as pod/train-7 or job/train"),
        (("/waits",), "is not KIND/NAME"),
        (("a/b/c",), "is not KIND/NAME"),
    ],
)
def test_what_is_not_there_ends_with_2_and_what_would_do(tmp_path: Path, arguments: tuple[str, ...], hint: str) -> None:
    told = ask(tmp_path, *arguments)
    assert (told.code, hint in told.err) == (2, True)


def test_without_a_cluster_it_says_so_and_ends_with_3() -> None:
    told = run("explain", "pod/p", "--kubeconfig", "/nowhere")
    assert (told.code, "/nowhere" in told.err) == (3, True)


def test_a_pod_that_no_eviction_helps_by_kube_schedulers_word_costs_nobody_its_place(tmp_path: Path) -> None:
    said = "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    given = (
        node(),
        queue(quota=8),
        queue("team-b", quota=0),
        *(pod(f"lent-{number}", 4, "team-b", on="node-1") for number in range(2)),
        pod("waits", 4),
    )
    check = ("--check", "default/waits", "--kubeconfig")
    with cluster(tmp_path, *given) as kubeconfig:
        assert "evicting default/lent-1" in run("plan", "--live", *check, kubeconfig).out
    *others, waits = given
    with cluster(tmp_path, *others, waits | {"status": {"phase": "Pending", "conditions": [condition]}}) as kubeconfig:
        planned = run("plan", "--live", *check, kubeconfig)
        told = run("explain", "pod/waits", "-n", "default", "--kubeconfig", kubeconfig).out
    assert (planned.code, "evicting" in planned.out, said.rstrip(".") in planned.out) == (1, False, True)
    assert "it waits: RefusedByScheduler: kube-scheduler offers it no node, and no eviction would change that" in told
    assert f"kube-scheduler said last: Unschedulable: {said}" in told
