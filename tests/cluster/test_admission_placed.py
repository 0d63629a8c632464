"""With the overlay `admission` nobody changes what a placed pod counts, or how a PodGroup counts; other edits go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.admitting import (
    BINDER,
    EXTENDER,
    MADE_FROM,
    NAMESPACE,
    NODE,
    Json,
    carrier,
    create,
    group,
    labels,
    named,
    notes,
    pod,
    unchangeable,
    wait_for_node,
)
from tests.manifests.keys import ANNOTATIONS, GROUP_FIELDS, GROUP_LABELS, LABELS
from tests.mock.daemons import eventually

if TYPE_CHECKING:
    from gpuyard.sandbox import Cluster

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]

FULL = dict.fromkeys(sorted(LABELS), "x") | {"runai-gpu-group/second": "gpu-2"}
"""All labels that count, and one of a pod on several shared GPUs."""
NOTES = dict.fromkeys(sorted(ANNOTATIONS), "1")
ALL_LABELS = {f"label {key}" for key in FULL}
ALL_NOTES = {f"annotation {key}" for key in NOTES}


@pytest.fixture(scope="module")
def cluster(admitting: Cluster) -> Cluster:
    """Ed has the role `edit`; the pod `full` has a node and all keys that count, `bare` has none of them."""
    full = named(pod("a", gpus=1), "full")
    full["metadata"] |= {"labels": FULL, "annotations": NOTES}
    create(admitting, full, named(pod("", gpus=1), "bare"), waiting())
    wait_for_node(admitting, "full", "bare")
    return admitting


def waiting() -> Json:
    """A pod that has no node, with all keys that count."""
    made = named(pod("a", schedulingGates=[{"name": "example.com/later"}]), "open")
    made["metadata"] |= {"labels": FULL, "annotations": NOTES}
    return made


def owned() -> Json:
    """A patch that puts a pod under a Job of the user's own."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "mine", "uid": "11111111-2222-3333-4444-555555555555"}
    return {"metadata": {"ownerReferences": [owner]}}


# --- what was tried on running pods ---


@pytest.mark.row("X-50", case="queue")
def test_the_queue_label_of_a_placed_pod_cannot_be_removed(cluster: Cluster) -> None:
    said = unchangeable(cluster, "pod/placed", labels({"kai.scheduler/queue": None}))
    assert "label kai.scheduler/queue of pod team-a/placed may not be added, changed or removed" in said


@pytest.mark.row("X-50", case="fraction")
@pytest.mark.parametrize("fraction", ["0.001", "NaN"])
def test_a_placed_pod_cannot_be_made_to_count_a_part_of_its_gpus(cluster: Cluster, fraction: str) -> None:
    said = unchangeable(cluster, "pod/placed", notes({"gpu-fraction": fraction}))
    assert "annotation gpu-fraction of pod team-a/placed may not" in said


@pytest.mark.row("X-50", case="preemptibility")
def test_a_placed_pod_cannot_be_declared_non_preemptible(cluster: Cluster) -> None:
    said = unchangeable(cluster, "pod/placed", labels({"kai.scheduler/preemptibility": "non-preemptible"}))
    assert "label kai.scheduler/preemptibility of pod team-a/placed may not" in said


@pytest.mark.row("X-50", case="owner")
def test_a_placed_pod_cannot_be_given_another_owner(cluster: Cluster) -> None:
    said = unchangeable(cluster, "pod/placed", owned())
    assert "ownerReferences of pod team-a/placed may not be added, changed or removed" in said
    assert "user ed needs the right to `adopt` pods" in said


@pytest.mark.row("X-51")
def test_a_refusal_names_the_key_the_pod_its_node_and_the_remedy(cluster: Cluster) -> None:
    said = unchangeable(cluster, "pod/placed", labels({"kai.scheduler/queue": "c"}))
    assert (
        "label kai.scheduler/queue of pod team-a/placed may not be added, changed or removed, because the pod is on "
        "node node-1 and counts in its queue as it was when it got that node; delete the pod and create it again with "
        "the values that it should have"
    ) in said


# --- every key ---


@pytest.mark.row("X-52", case="added")
def test_no_key_that_counts_can_be_added_to_a_placed_pod(cluster: Cluster) -> None:
    assert spoken_of(unchangeable(cluster, "pod/bare", labels(FULL))) == ALL_LABELS
    assert spoken_of(unchangeable(cluster, "pod/bare", notes(NOTES))) == ALL_NOTES


@pytest.mark.row("X-52", case="changed")
def test_no_key_that_counts_can_be_changed_in_a_placed_pod(cluster: Cluster) -> None:
    assert spoken_of(unchangeable(cluster, "pod/full", labels(dict.fromkeys(FULL, "y")))) == ALL_LABELS
    assert spoken_of(unchangeable(cluster, "pod/full", notes(dict.fromkeys(NOTES, "2")))) == ALL_NOTES


@pytest.mark.row("X-52", case="removed")
def test_no_key_that_counts_can_be_removed_from_a_placed_pod(cluster: Cluster) -> None:
    assert spoken_of(unchangeable(cluster, "pod/full", labels(dict.fromkeys(FULL)))) == ALL_LABELS
    assert spoken_of(unchangeable(cluster, "pod/full", notes(dict.fromkeys(NOTES)))) == ALL_NOTES


def spoken_of(refusal: str) -> set[str]:
    """The keys that a refusal names."""
    words = {*ALL_LABELS, *ALL_NOTES}
    return {word for word in words if f"{word}, " in refusal or f"{word} of pod" in refusal}


@pytest.mark.row("X-52", case="status")
def test_the_status_of_a_placed_pod_is_no_way_to_write_its_keys(cluster: Cluster) -> None:
    said = unchangeable(cluster, "pod/placed", notes({"gpu-fraction": "0.1"}), *NODE)
    assert "annotation gpu-fraction of pod team-a/placed may not" in said


# --- who may ---


@pytest.mark.row("X-53", case="extender")
def test_the_extender_may_write_the_keys_of_a_placed_pod(cluster: Cluster) -> None:
    assert unchangeable(cluster, "pod/full", labels({"runai-gpu-group": "other"}), EXTENDER) == ""


@pytest.mark.row("X-53", case="kai-binder")
def test_the_binder_of_kai_may_write_the_keys_of_a_placed_pod(cluster: Cluster) -> None:
    assert unchangeable(cluster, "pod/full", labels({"runai-gpu-group": "other"}), BINDER) == ""


def owners(cluster: Cluster, name: str) -> list[str]:
    """The names of the owners of a pod."""
    meta = json.loads(cluster.kubectl("get", "pod", name, "--namespace", NAMESPACE, "-o", "json"))["metadata"]
    return [one["name"] for one in meta.get("ownerReferences", [])]


@pytest.mark.row("X-53", case="controllers")
def test_controllers_adopt_placed_pods_and_the_garbage_collector_releases_them(cluster: Cluster) -> None:
    orphan, app = named(pod("a"), "orphan"), {"app": "orphan"}
    adopting = named(MADE_FROM["ReplicaSet"]("a", replicas=1, selector={"matchLabels": app}), "adopting")
    for labelled in (orphan, carrier(adopting)):
        labelled["metadata"]["labels"] |= app
    create(cluster, orphan)
    wait_for_node(cluster, "orphan")
    create(cluster, adopting)
    eventually(lambda: owners(cluster, "orphan") == ["adopting"], within=60)
    cluster.kubectl("delete", "replicaset", "adopting", "--cascade=orphan", "--namespace", NAMESPACE)
    eventually(lambda: owners(cluster, "orphan") == [], within=60)


# --- what goes on ---


@pytest.mark.row("X-54", case="metadata")
@pytest.mark.parametrize(
    "patch",
    [labels({"stage": "two"}), notes({"note": "x"}), notes({"gpuyard.io/poke": "1.5"})],
    ids=["label", "annotation", "poke"],
)
def test_other_labels_and_annotations_of_a_placed_pod_may_change(cluster: Cluster, patch: Json) -> None:
    assert unchangeable(cluster, "pod/full", patch) == ""


@pytest.mark.row("X-54", case="same-value")
def test_a_key_that_is_written_again_with_its_value_is_no_change(cluster: Cluster) -> None:
    assert unchangeable(cluster, "pod/full", labels({"kai.scheduler/queue": FULL["kai.scheduler/queue"]})) == ""


@pytest.mark.row("X-54", case="status")
def test_the_node_goes_on_to_report_the_status_of_its_pods(cluster: Cluster) -> None:
    status = {"status": {"conditions": [{"type": "example.com/seen", "status": "True"}]}}
    assert unchangeable(cluster, "pod/full", status, *NODE) == ""
    phases = cluster.kubectl("get", "pods", "full", "bare", "-o", "jsonpath={.items[*].status.phase}", "-n", NAMESPACE)
    assert phases.split() == ["Running", "Running"]


@pytest.mark.row("X-55")
@pytest.mark.parametrize(
    "patch",
    [
        labels(dict.fromkeys(FULL)),
        labels({"kai.scheduler/preemptibility": "non-preemptible"}),
        notes({"gpu-fraction": "0.5"}),
        owned(),
    ],
    ids=["labels", "preemptibility", "fraction", "owner"],
)
def test_a_pod_without_a_node_may_be_edited_as_before(cluster: Cluster, patch: Json) -> None:
    assert unchangeable(cluster, "pod/open", patch) == ""


# --- PodGroups ---

GROUP = "podgroups.scheduling.run.ai"
VALUES = {"queue": "a", "priorityClassName": "train", "preemptibility": "preemptible"}
OTHERS = {"queue": "c", "priorityClassName": "build", "preemptibility": "non-preemptible"}


@pytest.fixture(scope="module")
def groups(cluster: Cluster) -> None:
    """PodGroups `whole`, with all fields and labels that count, and `empty`, with none of them."""
    whole = named(group(**VALUES), "whole")
    whole["metadata"]["labels"] = dict.fromkeys(sorted(GROUP_LABELS), "x")
    empty = named(group("a"), "empty")
    del empty["spec"]["queue"]
    create(cluster, whole, empty)


@pytest.mark.row("X-59", case="changed")
@pytest.mark.parametrize("field", sorted(GROUP_FIELDS))
@pytest.mark.usefixtures("groups")
def test_a_pod_group_keeps_its_queue_priority_and_preemptibility(cluster: Cluster, field: str) -> None:
    said = unchangeable(cluster, f"{GROUP}/whole", {"spec": {field: OTHERS[field]}})
    assert (
        f"spec.{field} of PodGroup team-a/whole may not be added, changed or removed, because its running pods count "
        "by it; end its pods, then delete the PodGroup and create it again with the values that it should have"
    ) in said


@pytest.mark.row("X-59", case="removed")
@pytest.mark.parametrize("field", sorted(GROUP_FIELDS))
@pytest.mark.usefixtures("groups")
def test_nor_can_one_of_them_be_removed(cluster: Cluster, field: str) -> None:
    assert f"spec.{field} of PodGroup" in unchangeable(cluster, f"{GROUP}/whole", {"spec": {field: None}})


@pytest.mark.row("X-59", case="added")
@pytest.mark.parametrize("field", sorted(GROUP_FIELDS))
@pytest.mark.usefixtures("groups")
def test_nor_can_one_be_added_later(cluster: Cluster, field: str) -> None:
    assert f"spec.{field} of PodGroup" in unchangeable(cluster, f"{GROUP}/empty", {"spec": {field: VALUES[field]}})


@pytest.mark.row("X-59", case="labels")
@pytest.mark.usefixtures("groups")
def test_the_labels_of_a_pod_group_that_say_the_same_are_kept_as_well(cluster: Cluster) -> None:
    for name, value in (("whole", None), ("empty", "x")):
        said = unchangeable(cluster, f"{GROUP}/{name}", labels(dict.fromkeys(GROUP_LABELS, value)))
        assert {key for key in GROUP_LABELS if f"label {key}" in said} == GROUP_LABELS


@pytest.mark.row("X-59", case="other-fields")
@pytest.mark.usefixtures("groups")
def test_all_else_of_a_pod_group_may_change(cluster: Cluster) -> None:
    assert unchangeable(cluster, f"{GROUP}/whole", {"spec": {"minMember": 2}}) == ""
    assert unchangeable(cluster, f"{GROUP}/whole", labels({"stage": "two"})) == ""
