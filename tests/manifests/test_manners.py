"""Every workload that is shipped keeps the manners of an add-on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.cli.inventory import GPUYARD, INSTANCE, PART_OF
from gpuyard.cli.removal import HALVES
from gpuyard.common.version import __version__
from gpuyard.sandbox.kind import product
from gpuyard.sandbox.rendering import MANIFESTS, SOURCES

if TYPE_CHECKING:
    from pathlib import Path

LABELS = "app.kubernetes.io"


def shipped() -> list[dict[str, Any]]:
    """Every object once, though several files may have it."""
    texts = [(MANIFESTS / name).read_text() for name in SOURCES]
    every = [one for text in texts for one in yaml.load_all(text, Loader=yaml.CSafeLoader)]
    once = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one for one in reversed(every)}
    return list(once.values())


WORKLOADS = {one["metadata"]["name"]: one for one in shipped() if one["kind"] in ("Deployment", "DaemonSet")}


@pytest.fixture(params=WORKLOADS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pod(name: str) -> dict[str, Any]:
    return WORKLOADS[name]["spec"]["template"]["spec"]  # type: ignore[no-any-return]


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["containers"]
    return only  # type: ignore[no-any-return]


def test_all_five_components_are_there() -> None:
    components = {name: one["metadata"]["namespace"] for name, one in WORKLOADS.items()}
    assert components == {
        "gpuyard-extender": "gpuyard",
        "gpuyard-dcgm-exporter": "gpuyard-mock",
        "gpuyard-dcgm-exporter-kwok": "gpuyard-mock",
        "gpuyard-device-plugin": "gpuyard-mock",
        "gpuyard-gfd": "gpuyard-mock",
        "gpuyard-status-updater": "gpuyard-mock",
    }


def test_it_runs_the_one_image_of_this_version(container: dict[str, Any]) -> None:
    assert container["image"] == product.IMAGE
    assert container["command"][:2] == ["python3", "-m"]


def test_its_labels_say_what_it_is_and_never_which_version_it_selects(name: str) -> None:
    labels, selector = WORKLOADS[name]["metadata"]["labels"], WORKLOADS[name]["spec"]["selector"]["matchLabels"]
    assert labels[f"{LABELS}/version"] == __version__
    assert (labels[f"{LABELS}/name"], labels[f"{LABELS}/part-of"]) == ("gpuyard", "gpuyard")
    assert labels[f"{LABELS}/instance"] in ("extender", "mock")
    assert list(selector) == [f"{LABELS}/component"]


def test_memory_is_bounded_and_something_is_asked_for(container: dict[str, Any]) -> None:
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert set(container["resources"]["limits"]) == {"memory"}


def test_it_is_probed_on_its_own_port(container: dict[str, Any]) -> None:
    paths = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: probe["path"] for name, probe in paths.items()} == {
        "startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz",
    }  # fmt: skip
    assert {probe["port"] for probe in paths.values()} == {"metrics"}


def test_it_has_no_privilege_and_only_the_plugin_is_root(
    name: str, pod: dict[str, Any], container: dict[str, Any]
) -> None:
    root = name == "gpuyard-device-plugin"
    assert pod["securityContext"]["runAsUser"] == (0 if root else 65532)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    from_host = {volume["name"] for volume in pod.get("volumes", ()) if "hostPath" in volume}
    assert from_host == ({"device-plugins", "pod-resources"} if root else set())


def test_agents_come_to_mock_nodes_alone_whatever_gpu_taint_they_have(name: str, pod: dict[str, Any]) -> None:
    if WORKLOADS[name]["kind"] == "DaemonSet":
        assert pod["nodeSelector"] == {"gpuyard.io/mock": "true"}
        assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]
        assert WORKLOADS[name]["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "10%"


def test_no_right_is_a_wildcard() -> None:
    rules = [rule for one in shipped() for rule in one.get("rules", ())]
    assert len(rules) > 10
    assert not any("*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]) for rule in rules)


SETS = [
    path
    for path in sorted([*MANIFESTS.rglob("kustomization.yaml"), *MANIFESTS.rglob("Kustomization")])
    if any(not name.startswith("../") for name in yaml.safe_load(path.read_text())["resources"])
]


@pytest.mark.parametrize("path", SETS, ids=lambda path: str(path.parent.relative_to(MANIFESTS)))
def test_everything_can_be_found_by_label_when_it_is_to_go(path: Path) -> None:
    pairs = [each["pairs"] for each in yaml.safe_load(path.read_text())["labels"]]
    labels = {name: value for each in pairs for name, value in each.items()}
    assert labels[PART_OF] == GPUYARD
    assert labels[INSTANCE] in HALVES


@pytest.mark.parametrize("namespace", ["gpuyard", "gpuyard-mock"])
def test_only_what_a_component_serves_can_be_reached(namespace: str) -> None:
    [policy] = [
        one for one in shipped() if one["kind"] == "NetworkPolicy" and one["metadata"]["namespace"] == namespace
    ]
    assert (policy["spec"]["podSelector"], policy["spec"]["policyTypes"]) == ({}, ["Ingress"])
    containers = [
        container
        for one in WORKLOADS.values()
        if one["metadata"]["namespace"] == namespace
        for container in one["spec"]["template"]["spec"]["containers"]
    ]
    served = {port["name"] for container in containers for port in container["ports"]}
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == served
