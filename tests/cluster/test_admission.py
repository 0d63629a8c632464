"""Who may use a queue, said by rights and held by the real API server: in pods, in PodGroups, in templates of pods."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import Cluster, SandboxError, Spec, down, up
from gpuyard.sandbox.rendering import MANIFESTS

from tests.documents.blocks import DOCS, blocks
from tests.mock.daemons import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]

Json = dict[str, Any]

NAMESPACE = "team-a"
RIGHTS = """
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Namespace, metadata: {name: team-a}}
  - {apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: work}
    rules:
      - {apiGroups: [""], resources: [pods, replicationcontrollers], verbs: [create, get, list, patch, update]}
      - {apiGroups: [apps, batch, scheduling.run.ai], resources: ["*"], verbs: [create, get, list, patch, update]}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: use-a}
    rules: [{apiGroups: [scheduling.run.ai], resources: [queues], resourceNames: [a], verbs: [use]}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata: {name: work}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: work}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: use-a, namespace: team-a}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: use-a}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
"""
ANN = "--as=ann"
EXTENDER = "--as=system:serviceaccount:gpuyard:gpuyard-extender"


@pytest.fixture(scope="module")
def cluster(sandbox_names: Iterator[str]) -> Iterator[Cluster]:
    """A sandbox with the extender's objects, the policies, and Ann, who may use queue `a` in one namespace."""
    name = next(sandbox_names)
    try:
        made = up(Spec(name=name, nodes=1, gpus=4))
        made.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / "overlays" / "default-scheduler"))
        made.kubectl("wait", "--for=condition=established", "--timeout=60s", "crd", "--all")
        made.kubectl("apply", "-f", "-", stdin=RIGHTS)
        made.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s", "--namespace", NAMESPACE)
        made.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / "overlays" / "admission"))
        eventually(lambda: in_force(made), within=120)
        yield made
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


def in_force(cluster: Cluster) -> bool:
    """Whether both policies act: they do so some seconds after they were applied."""
    return refused(cluster, pod("b")) != "" and refused(cluster, pod("a", gpus=1, nodeName="node-1")) != ""


def pod(queue: str, gpus: int = 0, label: str = "kai.scheduler/queue", **spec: object) -> Json:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "x", "resources": limits}
    meta = {"generateName": "p-", "labels": {label: queue} if queue else {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def group(queue: str) -> Json:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"generateName": "g-"},
        "spec": {"queue": queue, "minMember": 1},
    }


def template(queue: str) -> Json:
    made = pod(queue)
    return {"metadata": {"labels": {"app": "x", **made["metadata"]["labels"]}}, "spec": made["spec"]}


def job(queue: str, name: str = "") -> Json:
    made = template(queue)
    made["spec"]["restartPolicy"] = "Never"
    meta = {"name": name} if name else {"generateName": "j-"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": made}}


def cron_job(queue: str) -> Json:
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job(queue)["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"generateName": "c-"}, "spec": spec}


def controlled(kind: str, version: str, queue: str, **spec: object) -> Json:
    selector: Json = {"app": "x"} if kind == "ReplicationController" else {"matchLabels": {"app": "x"}}
    spec = {"selector": selector, "template": template(queue), **spec}
    return {"apiVersion": version, "kind": kind, "metadata": {"generateName": "w-"}, "spec": spec}


def refused(cluster: Cluster, thing: Json, who: str = ANN, namespace: str = NAMESPACE) -> str:
    """Why the API server does not take it; empty: it does."""
    arguments = ("create", "--dry-run=server", who, "--namespace", namespace, "-f", "-")
    try:
        cluster.kubectl(*arguments, stdin=json.dumps(thing))
    except SandboxError as error:
        return str(error)
    return ""


SENTENCE = (
    "user ann may not use queue b from namespace team-a: the right to `use` queues.scheduling.run.ai b is missing; "
    "a RoleBinding in this namespace, or a ClusterRoleBinding, grants it"
)


@pytest.mark.row("E-42", case="without-use")
def test_who_may_not_use_a_queue_cannot_name_it_in_a_pod_and_reads_what_is_missing(cluster: Cluster) -> None:
    assert SENTENCE in refused(cluster, pod("b"))


@pytest.mark.row("E-42", case="with-use")
def test_who_may_use_it_can(cluster: Cluster) -> None:
    assert refused(cluster, pod("a")) == ""


def test_a_right_in_one_namespace_is_none_in_another(cluster: Cluster) -> None:
    assert "may not use queue a from namespace elsewhere" in refused(cluster, pod("a"), namespace="elsewhere")


def granted(queue: str) -> str:
    """What gives Ann a right to a queue in every namespace."""
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["scheduling.run.ai"], "resources": ["queues"], "resourceNames": [queue], "verbs": ["use"]}
    common = {"apiVersion": f"{rbac}/v1", "metadata": {"name": f"use-{queue}"}}
    role = common | {"kind": "ClusterRole", "rules": [rule]}
    binding = common | {
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": f"use-{queue}"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "ann"}],
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [role, binding]})


def test_a_right_that_is_granted_later_is_one(cluster: Cluster) -> None:
    assert "may not use queue later" in refused(cluster, pod("later"))
    cluster.kubectl("apply", "-f", "-", stdin=granted("later"))
    eventually(lambda: refused(cluster, pod("later")) == "", within=60)
    assert refused(cluster, pod("later"), namespace="elsewhere") == ""


def test_a_pod_without_a_queue_needs_no_right(cluster: Cluster) -> None:
    assert refused(cluster, pod("")) == ""


def test_the_older_label_is_asked_about_too(cluster: Cluster) -> None:
    assert "may not use queue b" in refused(cluster, pod("b", label="runai/queue"))
    assert refused(cluster, pod("a", label="runai/queue")) == ""


@pytest.mark.row("E-42", case="pod-group")
def test_a_pod_group_is_asked_about_likewise(cluster: Cluster) -> None:
    assert SENTENCE in refused(cluster, group("b"))
    assert refused(cluster, group("a")) == ""


MADE_FROM = {
    "Job": job,
    "CronJob": cron_job,
    "Deployment": partial(controlled, "Deployment", "apps/v1"),
    "ReplicaSet": partial(controlled, "ReplicaSet", "apps/v1"),
    "DaemonSet": partial(controlled, "DaemonSet", "apps/v1"),
    "StatefulSet": partial(controlled, "StatefulSet", "apps/v1", serviceName="x"),
    "ReplicationController": partial(controlled, "ReplicationController", "v1"),
}


@pytest.mark.parametrize("make", MADE_FROM.values(), ids=MADE_FROM.keys())
def test_what_pods_are_made_from_is_no_way_around(cluster: Cluster, make: Any) -> None:  # noqa: ANN401 - builders
    assert SENTENCE in refused(cluster, make("b"))
    assert refused(cluster, make("a")) == ""
    assert refused(cluster, make("")) == ""


def test_the_controllers_of_kubernetes_make_the_pods_of_who_was_let_in(cluster: Cluster) -> None:
    cluster.kubectl("create", ANN, "--namespace", NAMESPACE, "-f", "-", stdin=json.dumps(job("a", "train")))

    def made() -> list[str]:
        found = cluster.kubectl("get", "pods", "--namespace", NAMESPACE, "-l", "job-name=train", "-o", "name")
        return found.split()

    eventually(lambda: len(made()) == 1, within=60)


def test_the_extender_may_make_a_moved_pod_anew_in_every_queue(cluster: Cluster) -> None:
    assert refused(cluster, pod("b"), EXTENDER) == ""


@pytest.fixture
def standing(cluster: Cluster) -> str:
    """A pod of queue b that somebody with the right has made."""
    body = pod("b") | {"metadata": {"name": "standing", "labels": {"kai.scheduler/queue": "b"}}}
    cluster.kubectl("apply", "--namespace", NAMESPACE, "-f", "-", stdin=json.dumps(body))
    return "standing"


def test_who_changes_something_else_of_a_pod_needs_no_right(cluster: Cluster, standing: str) -> None:
    cluster.kubectl("annotate", "pod", standing, "note=x", "--overwrite", ANN, "--namespace", NAMESPACE)


def test_a_pod_cannot_be_taken_into_a_queue_later(cluster: Cluster, standing: str) -> None:
    relabel = ("label", "pod", standing, "--overwrite", ANN, "--namespace", NAMESPACE)
    with pytest.raises(SandboxError, match="may not use queue c from"):
        cluster.kubectl(*relabel, "kai.scheduler/queue=c")
    cluster.kubectl(*relabel, "kai.scheduler/queue=a")


# --- spec.nodeName ---


@pytest.mark.row("E-42", case="node-name")
def test_a_gpu_pod_of_a_queue_may_not_name_its_node(cluster: Cluster) -> None:
    said = refused(cluster, pod("a", gpus=1, nodeName="node-1"))
    assert "a pod of a queue that asks for GPUs may not set spec.nodeName (node-1)" in said
    assert "spec.nodeSelector" in said


def parts_of_a_gpu() -> Json:
    made = pod("a", nodeName="node-1")
    made["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    return made


def asking_at_its_start() -> Json:
    made = pod("a", nodeName="node-1")
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    made["spec"]["initContainers"] = [{"name": "first", "image": "x", "resources": limits}]
    return made


@pytest.mark.parametrize("made", [parts_of_a_gpu(), asking_at_its_start()], ids=["a-part", "init-container"])
def test_nor_may_one_that_asks_in_another_way(cluster: Cluster, made: Json) -> None:
    assert "may not set spec.nodeName" in refused(cluster, made)


@pytest.mark.parametrize("made", [pod("a", nodeName="node-1"), pod("", gpus=1, nodeName="node-1"), pod("a", gpus=1)],
                         ids=["without-gpu", "without-queue", "without-node"])  # fmt: skip
def test_all_other_pods_may(cluster: Cluster, made: Json) -> None:
    assert refused(cluster, made) == ""


def test_the_policies_are_well_typed(cluster: Cluster) -> None:
    policies = json.loads(cluster.kubectl("get", "validatingadmissionpolicies", "-o", "json"))["items"]
    ours = {one["metadata"]["name"]: one for one in policies if one["metadata"]["name"].startswith("gpuyard-")}
    assert set(ours) == {"gpuyard-queue-use", "gpuyard-node-name"}

    def warnings() -> list[Any]:
        found = json.loads(cluster.kubectl("get", "validatingadmissionpolicies", *ours, "-o", "json"))["items"]
        checked = [one["status"] for one in found if "typeChecking" in one.get("status", {})]
        return [
            len(checked),
            [each for status in checked for each in status["typeChecking"].get("expressionWarnings", [])],
        ]

    eventually(lambda: warnings()[0] == len(ours), within=60)
    assert warnings()[1] == []


def typed(cluster: Cluster, folder: Path, script: str) -> str:
    """What a shell prints in which somebody follows the document."""
    path = f"{cluster.program('kubectl').parent}:{os.defpath}"
    variables = {"PATH": path, "HOME": str(folder), "KUBECONFIG": str(cluster.kubeconfig)}
    command = ["/bin/sh", "-eu", "-c", script]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_document_can_be_followed(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    said = []
    for block in (each for each in blocks(DOCS / "security.md") if each.section == "Who may use a queue"):
        if block.language == "yaml":
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "sh":
            said.append(typed(cluster, tmp_path, block.text))
    assert said[-1].splitlines()[-1] == "yes"
    with pytest.raises(SandboxError):
        cluster.kubectl("auth", "can-i", "use", "queues.scheduling.run.ai/vision", "--as=ann", "--namespace", "default")


def test_the_document_shows_the_sentence_that_is_said(cluster: Cluster) -> None:
    [shown] = [block.text for block in blocks(DOCS / "security.md") if block.language == "text"]
    assert " ".join(shown.split()) in refused(cluster, pod("vision"), namespace="default")
