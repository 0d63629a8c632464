"""The extender's manifests keep the manners of an add-on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from gpuyard.common import tokens
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.settings import load
from gpuyard.extender import leadership
from gpuyard.sandbox.kind import config, product

MANIFESTS = Path(__file__).parents[2] / "manifests"
BASE = MANIFESTS / "base" / "extender"


def objects() -> dict[str, Any]:
    documents = [one for file in BASE.glob("*.yaml") for one in yaml.safe_load_all(file.read_text())]
    return {one["kind"]: one for one in documents if one["kind"] != "Kustomization"}


def roles() -> list[dict[str, Any]]:
    """The rights of the extender in all namespaces: always, and by setting."""
    return [one for one in yaml.safe_load_all((BASE / "rbac.yaml").read_text()) if one["kind"] == "ClusterRole"]


@pytest.fixture
def pod() -> dict[str, Any]:
    return objects()["Deployment"]["spec"]["template"]["spec"]  # type: ignore[no-any-return]


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["containers"]
    return only  # type: ignore[no-any-return]


def test_it_runs_the_image_of_this_version(container: dict[str, Any]) -> None:
    assert container["image"] == product.IMAGE
    assert container["command"] == ["python3", "-m", "gpuyard.extender"]


def test_it_runs_without_any_privilege(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 65532)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert objects()["Namespace"]["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_memory_is_bounded_and_the_hot_path_is_not_slowed(container: dict[str, Any]) -> None:
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "128Mi"}
    assert set(container["resources"]["limits"]) == {"memory"}


def test_it_is_probed_where_it_answers(container: dict[str, Any]) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 8080, "metrics": 8081}
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {probe["port"] for probe in probes.values()} == {"metrics"}
    assert probes["readinessProbe"]["path"] == "/readyz"


def test_it_asks_for_no_gpu_so_that_it_never_waits_for_itself(container: dict[str, Any]) -> None:
    assert not set(config.MANAGED) & set(container["resources"]["limits"])


def test_it_may_write_what_its_work_is_and_nothing_else() -> None:
    rules = next(one for one in roles() if one["metadata"]["name"] == "gpuyard-extender")["rules"]
    writes = {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}
    assert {(verb, resource) for verb, resource in writes if verb not in ("get", "list", "watch")} == {
        *(("patch", one) for one in ("pods", "plans/status", "queues/status", "events")),
        *(("create", one) for one in ("pods/eviction", "plans", "events")),
        ("delete", "plans"),
    }
    every = [rule for role in roles() for rule in role["rules"]]
    assert not any("*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]) for rule in every)


def test_the_service_has_the_address_that_kube_scheduler_is_told() -> None:
    overlay = yaml.safe_load((MANIFESTS / "overlays" / "default-scheduler" / "kustomization.yaml").read_text())
    (change,) = yaml.safe_load(overlay["patches"][0]["patch"])
    (port,) = objects()["Service"]["spec"]["ports"]
    assert f"http://{change['value']}:{port['port']}/scheduler" == config.EXTENDER


def test_the_service_leads_to_the_one_pod_that_carries_the_leaders_label() -> None:
    made = objects()
    labels = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert made["Service"]["spec"]["selector"] == labels | {leadership.LABEL: "true"}
    assert made["Deployment"]["spec"]["selector"]["matchLabels"] == labels


def test_of_two_the_one_with_the_lease_answers(container: dict[str, Any]) -> None:
    assert objects()["Deployment"]["spec"]["replicas"] == 2
    assert "--lease-namespace=$(POD_NAMESPACE)" in container["args"]
    assert [each["name"] for each in container["env"]] == ["POD_NAME", "POD_NAMESPACE"]


def test_its_settings_can_be_read_and_are_the_defaults(
    pod: dict[str, Any], container: dict[str, Any], tmp_path: Path
) -> None:
    [(name, text)] = objects()["ConfigMap"]["data"].items()
    mount, volume = container["volumeMounts"][0], pod["volumes"][0]
    assert volume == {"name": mount["name"], "configMap": {"name": objects()["ConfigMap"]["metadata"]["name"]}}
    assert f"--config={mount['mountPath']}/{name}" in container["args"]
    (tmp_path / name).write_text(text)
    assert load(tmp_path / name, ExtenderConfig) == ExtenderConfig()


def test_its_callers_are_known_by_a_token_that_may_come_after_it(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    mount, volume = container["volumeMounts"][1], pod["volumes"][1]
    assert volume == {"name": mount["name"], "secret": {"secretName": tokens.SECRET, "optional": True}}
    assert f"--token={mount['mountPath']}" in container["args"]


def test_the_secret_that_comes_before_the_namespace_brings_the_same_one() -> None:
    namespace, _ = config.secret({tokens.TOKEN: b"x"})
    ours = objects()["Namespace"]
    assert namespace == {"apiVersion": "v1", "kind": "Namespace", "metadata": ours["metadata"]}


def test_the_lease_is_the_only_one_that_it_may_write() -> None:
    create, write = objects()["Role"]["rules"]
    assert create == {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}
    assert (write["resourceNames"], write["verbs"]) == ([leadership.LEASE], ["get", "update"])


def test_neither_an_update_nor_a_drain_leaves_it_without_a_ready_pod() -> None:
    made = objects()
    assert made["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    budget = made["PodDisruptionBudget"]["spec"]
    assert budget["minAvailable"] == 1
    assert budget["selector"] == made["Deployment"]["spec"]["selector"]
