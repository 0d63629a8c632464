"""Who may use a queue or a priority class: rights that the real API server checks in pods, PodGroups and templates."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import SandboxError
from gpuyard.sandbox.rendering import MANIFESTS

from tests.cluster.admitting import (
    ANN,
    EXTENDER,
    MADE_FROM,
    NAMESPACE,
    NODE,
    Json,
    classed,
    create,
    group,
    job,
    labels,
    named,
    notes,
    pod,
    refused,
    unchangeable,
)
from tests.documents.blocks import DOCS, blocks
from tests.mock.daemons import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from gpuyard.sandbox import Cluster

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(admitting: Cluster) -> Cluster:
    """Ann may use queue `a` in one namespace."""
    return admitting


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


def granted(name: str, resource: str = "queues", group: str = "scheduling.run.ai") -> str:
    """What gives Ann a right to a queue, or to something else, in every namespace."""
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": ["use"]}
    common = {"apiVersion": f"{rbac}/v1", "metadata": {"name": f"use-{name}"}}
    role = common | {"kind": "ClusterRole", "rules": [rule]}
    binding = common | {
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": f"use-{name}"},
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


@pytest.fixture(scope="module")
def waiting(cluster: Cluster) -> str:
    """A pod of queue b without a node, created by somebody with the right."""
    create(cluster, named(pod("b", schedulingGates=[{"name": "example.com/later"}]), "waiting"))
    return "pod/waiting"


def test_who_changes_something_else_of_a_pod_needs_no_right(cluster: Cluster, waiting: str) -> None:
    assert unchangeable(cluster, waiting, notes({"note": "x"}), ANN) == ""


def test_a_pod_cannot_be_taken_into_a_queue_later(cluster: Cluster, waiting: str) -> None:
    assert "may not use queue c from" in unchangeable(cluster, waiting, labels({"kai.scheduler/queue": "c"}), ANN)
    assert unchangeable(cluster, waiting, labels({"kai.scheduler/queue": "a"}), ANN) == ""


def test_the_status_of_a_pod_is_no_way_to_name_a_queue_or_a_class(cluster: Cluster, waiting: str) -> None:
    assert "may not use queue c from" in unchangeable(cluster, waiting, labels({"kai.scheduler/queue": "c"}), *NODE)
    urgent = labels({"priorityClassName": "urgent"})
    assert "may not use PriorityClass urgent" in unchangeable(cluster, waiting, urgent, *NODE)


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


def in_a_group() -> Json:
    made = pod("", gpus=1, nodeName="node-1")
    made["metadata"]["annotations"] = {"pod-group-name": "gang"}
    return made


@pytest.mark.parametrize(
    "made", [parts_of_a_gpu(), asking_at_its_start(), in_a_group()], ids=["a-part", "init-container", "pod-group"]
)
def test_nor_may_one_that_asks_in_another_way(cluster: Cluster, made: Json) -> None:
    assert "may not set spec.nodeName" in refused(cluster, made)


@pytest.mark.parametrize("made", [pod("a", nodeName="node-1"), pod("", gpus=1, nodeName="node-1"), pod("a", gpus=1)],
                         ids=["without-gpu", "without-queue", "without-node"])  # fmt: skip
def test_all_other_pods_may(cluster: Cluster, made: Json) -> None:
    assert refused(cluster, made) == ""


# --- priority by label ---

CLASS_SENTENCE = (
    "user ann may not use PriorityClass urgent in the label priorityClassName of Pod train from namespace team-a: "
    "the right to `use` priorityclasses.scheduling.k8s.io urgent is missing; "
    "a RoleBinding in this namespace, or a ClusterRoleBinding, grants it"
)


@pytest.mark.row("X-56", case="pod")
def test_a_label_that_names_another_class_than_the_spec_takes_the_right_to_use_it(cluster: Cluster) -> None:
    assert CLASS_SENTENCE in refused(cluster, classed(named(pod("a"), "train"), label="urgent"))
    assert "PriorityClass urgent" in refused(cluster, classed(pod("a"), label="urgent", spec="train"))


@pytest.mark.row("X-56", case="same-class")
def test_a_label_that_names_the_class_of_the_spec_needs_no_right(cluster: Cluster) -> None:
    assert refused(cluster, classed(pod("a"), label="urgent", spec="urgent")) == ""
    assert refused(cluster, classed(pod("a"), spec="urgent")) == ""


@pytest.mark.row("X-56", case="template")
@pytest.mark.parametrize("make", MADE_FROM.values(), ids=MADE_FROM.keys())
def test_a_template_is_checked_for_its_class_too(cluster: Cluster, make: Any) -> None:  # noqa: ANN401 - builders
    assert "may not use PriorityClass urgent" in refused(cluster, classed(make("a"), label="urgent"))
    assert refused(cluster, classed(make("a"), label="urgent", spec="urgent")) == ""


@pytest.mark.row("X-56", case="pod-group")
def test_the_class_of_a_pod_group_takes_the_right_in_its_spec_and_in_its_label(cluster: Cluster) -> None:
    said = refused(cluster, named(group("a", priorityClassName="urgent"), "big"))
    assert "user ann may not use PriorityClass urgent in spec.priorityClassName of PodGroup big" in said
    assert "may not use PriorityClass urgent in the label" in refused(cluster, classed(group("a"), label="urgent"))


@pytest.mark.row("X-56", case="later")
def test_a_class_that_is_named_later_is_checked_as_well(cluster: Cluster, waiting: str) -> None:
    assert "may not use PriorityClass urgent" in unchangeable(
        cluster, waiting, labels({"priorityClassName": "urgent"}), ANN
    )


@pytest.mark.row("X-56", case="later")
def test_a_label_cannot_outlive_the_class_of_the_spec_that_allowed_it(cluster: Cluster) -> None:
    create(cluster, named(classed(MADE_FROM["ReplicaSet"]("a", replicas=0), label="urgent", spec="urgent"), "falling"))
    other = {"spec": {"template": {"spec": {"priorityClassName": "train"}}}}
    assert "may not use PriorityClass urgent" in unchangeable(cluster, "replicaset/falling", other, ANN)
    assert unchangeable(cluster, "replicaset/falling", {"spec": {"replicas": 1}}, ANN) == ""


@pytest.mark.row("X-57", case="live")
@pytest.mark.parametrize("name", ["train", "build-preemptible", "build", "inference"])
def test_everybody_may_use_the_shipped_classes(cluster: Cluster, name: str) -> None:
    assert refused(cluster, classed(pod("a"), label=name)) == ""
    assert refused(cluster, group("a", priorityClassName=name)) == ""


@pytest.mark.row("X-58", case="granted")
def test_a_user_with_the_right_may_name_a_class_by_label(cluster: Cluster) -> None:
    assert "may not use PriorityClass soon" in refused(cluster, classed(pod("a"), label="soon"))
    cluster.kubectl("apply", "-f", "-", stdin=granted("soon", "priorityclasses", "scheduling.k8s.io"))
    eventually(lambda: refused(cluster, classed(pod("a"), label="soon")) == "", within=60)
    assert refused(cluster, group("a", priorityClassName="soon")) == ""


@pytest.mark.row("X-58", case="controller")
def test_controllers_and_the_extender_may_use_every_class(cluster: Cluster) -> None:
    for account in ("kube-system:job-controller", "gpuyard:gpuyard-extender"):
        may = cluster.kubectl("auth", "can-i", "use", "priorityclasses/urgent", f"--as=system:serviceaccount:{account}")
        assert may.strip() == "yes"
    assert refused(cluster, classed(pod("b"), label="urgent"), EXTENDER) == ""


# --- the policies and the document ---


def test_the_policies_are_well_typed(cluster: Cluster) -> None:
    policies = json.loads(cluster.kubectl("get", "validatingadmissionpolicies", "-o", "json"))["items"]
    ours = {one["metadata"]["name"]: one for one in policies if one["metadata"]["name"].startswith("gpuyard-")}
    assert set(ours) == {
        "gpuyard-node-name",
        "gpuyard-placed-pods",
        "gpuyard-pod-groups",
        "gpuyard-priority-class-use",
        "gpuyard-queue-use",
    }

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


def followed(cluster: Cluster, folder: Path, section: str) -> str:
    """What the last command of a section of the document prints last."""
    said = ""
    for block in (each for each in blocks(DOCS / "security.md") if each.section == section):
        if block.language == "yaml":
            (folder / block.file).write_text(block.text)
        elif block.language == "sh":
            said = typed(cluster, folder, block.text)
    return said.splitlines()[-1]


def test_the_document_can_be_followed(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    assert followed(cluster, tmp_path, "Who may use a queue") == "yes"
    assert followed(cluster, tmp_path, "Priority by label") == "yes"
    for right in ("queues.scheduling.run.ai/vision", "priorityclasses.scheduling.k8s.io/urgent"):
        with pytest.raises(SandboxError):
            cluster.kubectl("auth", "can-i", "use", right, "--as=ann", "--namespace", "default")


def test_the_document_shows_the_sentence_that_is_said(cluster: Cluster) -> None:
    [shown] = [block.text for block in blocks(DOCS / "security.md") if block.language == "text"]
    assert " ".join(shown.split()) in refused(cluster, pod("vision"), namespace="default")
