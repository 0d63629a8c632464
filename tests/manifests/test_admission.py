"""The lists of the overlay `admission` are complete, and each account has the rights that its work needs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from gpuyard.engine.kube.objects import Notes
from gpuyard.engine.kube.parts import GPU_GROUP
from gpuyard.engine.kube.placed import FIXED_LABELS, FIXED_NOTES
from gpuyard.engine.kube.workloads import CLASSES
from gpuyard.sandbox.rendering import MANIFESTS
from msgspec.structs import fields

from tests.manifests.keys import ANNOTATIONS, GROUP_FIELDS, GROUP_LABELS, LABELS

OVERLAY = MANIFESTS / "overlays" / "admission"
Json = dict[str, Any]


def objects() -> dict[tuple[str, str], Json]:
    """The objects of the overlay by kind and name."""
    files = (OVERLAY / name for name in yaml.safe_load((OVERLAY / "kustomization.yaml").read_text())["resources"])
    found = (one for file in files for one in yaml.safe_load_all(file.read_text()))
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def listed(policy: str, variable: str) -> list[str]:
    """The texts of a list in a policy."""
    variables = objects()["ValidatingAdmissionPolicy", policy]["spec"]["variables"]
    [expression] = [one["expression"] for one in variables if one["name"] == variable]
    found: list[str] = yaml.safe_load(expression)
    return found


@pytest.mark.row("X-60")
@pytest.mark.parametrize(
    ("policy", "variable", "keys"),
    [
        ("gpuyard-placed-pods", "labels", LABELS),
        ("gpuyard-placed-pods", "annotations", ANNOTATIONS),
        ("gpuyard-pod-groups", "labels", GROUP_LABELS),
        ("gpuyard-pod-groups", "fields", GROUP_FIELDS),
    ],
)
def test_the_overlay_protects_each_key_that_the_engine_reads(policy: str, variable: str, keys: set[str]) -> None:
    assert listed(policy, variable) == sorted(keys)


@pytest.mark.parametrize("key", ["kai.scheduler/queue", "pod-group-name", "ray.io/node-type", "runai-gpu-group"])
def test_the_keys_of_the_engine_are_found(key: str) -> None:
    assert key in LABELS | ANNOTATIONS


@pytest.mark.row("X-60")
def test_all_that_the_extender_fixes_is_protected_so_that_a_restart_finds_the_same() -> None:
    assert set(listed("gpuyard-placed-pods", "labels")) == FIXED_LABELS | {GPU_GROUP}
    fixed = {one.encode_name for one in fields(Notes) if one.name in FIXED_NOTES}
    assert len(fixed) == len(FIXED_NOTES)
    assert set(listed("gpuyard-placed-pods", "annotations")) == fixed


def test_every_policy_is_bound_and_denies() -> None:
    made = objects()
    policies = {name for kind, name in made if kind == "ValidatingAdmissionPolicy"}
    bindings = {name: one["spec"] for (kind, name), one in made.items() if kind == "ValidatingAdmissionPolicyBinding"}
    assert bindings == {name: {"policyName": name, "validationActions": ["Deny"]} for name in policies}


SHARING = MANIFESTS / "overlays" / "shared-gpus" / "admission.yaml"


@pytest.mark.row("X-65", case="listed")
def test_both_policies_for_shared_gpus_name_each_annotation_by_which_the_engine_reads_a_part_of_a_gpu() -> None:
    found = {one["kind"]: one for one in yaml.safe_load_all(SHARING.read_text())}
    keys = {one.encode_name for one in fields(Notes) if one.encode_name.startswith("gpu-")}
    [condition] = [
        one["expression"]
        for one in found["MutatingAdmissionPolicy"]["spec"]["matchConditions"]
        if one["name"] == "asks-for-a-part-by-annotation"
    ]
    [annotations] = [
        one["expression"]
        for one in found["ValidatingAdmissionPolicy"]["spec"]["variables"]
        if one["name"] == "annotations"
    ]
    assert set(yaml.safe_load(annotations)) == keys
    assert {key for key in keys if f"'{key}'" in condition} == keys
    assert found["ValidatingAdmissionPolicyBinding"]["spec"]["validationActions"] == ["Deny"]


# --- rights ---


def accounts(binding: str) -> set[str]:
    """The names of who has the rights of a ClusterRole, without the ending that controllers share."""
    subjects = objects()["ClusterRoleBinding", binding]["subjects"]
    return {subject["name"].removesuffix("-controller") for subject in subjects}


MAKERS = {"daemon-set", "job", "replicaset", "replication", "statefulset", "system:kube-controller-manager"}
"""The controllers that make pods, and adopt them."""


def test_the_extender_and_every_controller_that_makes_pods_may_use_every_queue() -> None:
    assert accounts("gpuyard-use-every-queue") == MAKERS | {"cronjob", "deployment", "gpuyard-extender"}


def test_controllers_of_pods_and_the_garbage_collector_may_change_owners() -> None:
    assert accounts("gpuyard-adopt-pods") == MAKERS | {"generic-garbage-collector"}


@pytest.mark.row("X-57", case="listed")
def test_the_classes_for_everybody_are_the_shipped_ones() -> None:
    shipped = yaml.safe_load_all((MANIFESTS / "priority-classes" / "priority-classes.yaml").read_text())
    [rule] = objects()["ClusterRole", "gpuyard-use-shipped-priority-classes"]["rules"]
    assert rule["resourceNames"] == [one["metadata"]["name"] for one in shipped]
    assert set(rule["resourceNames"]) <= CLASSES.keys()
    assert accounts("gpuyard-use-shipped-priority-classes") == {"system:authenticated"}
