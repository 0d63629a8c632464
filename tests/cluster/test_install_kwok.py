"""The overlay for clusters whose nodes KWOK plays, as users apply it: what it runs there, and what that shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import Spec, down, up
from gpuyard.sandbox.rendering import MANIFESTS

from tests.mock.daemons import NAMESPACE, Mock, a_pod, eventually, topology

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600), pytest.mark.story]

OVERLAY = MANIFESTS / "overlays" / "kwok"
DEPLOYMENTS = {
    "gpuyard-status-updater": "status_updater",
    "gpuyard-gfd": "gfd",
    "gpuyard-dcgm-exporter-kwok": "dcgm_exporter",
}


@pytest.fixture(scope="module")
def mock(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mock]:
    """A sandbox of KWOK nodes with the overlay, and its components as processes under the accounts that it makes."""
    cluster = up(Spec(name=next(sandbox_names), nodes=2, gpus=0))
    try:
        cluster.kubectl("label", "nodes", "--all", "type=kwok")
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        running = Mock(cluster, tmp_path_factory.mktemp("mock"), OVERLAY)
        yield running
        running.stop()
    finally:
        down(cluster.name)


def workloads(mock: Mock) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mock.get("deployments,daemonsets", "-n", NAMESPACE)["items"]
    return found


def test_three_deployments_run_and_nothing_that_needs_a_kubelet(mock: Mock) -> None:
    found = {one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"] for one in workloads(mock)}
    assert {name: containers[0]["command"][-1] for name, containers in found.items()} == {
        name: f"gpuyard.{module}" for name, module in DEPLOYMENTS.items()
    }
    accounts = {one["metadata"]["name"] for one in mock.get("serviceaccounts", "-n", NAMESPACE)["items"]}
    assert accounts == {"default", "gpuyard-status-updater", "gpuyard-gfd", "gpuyard-dcgm-exporter"}


def test_a_restricted_namespace_takes_its_pods_and_no_kwok_node_gets_one(mock: Mock) -> None:
    def pods() -> dict[str, Any]:
        return {
            one["metadata"]["labels"]["app.kubernetes.io/component"]: one
            for one in mock.get("pods", "-n", NAMESPACE)["items"]
        }

    eventually(lambda: len(pods()) == len(DEPLOYMENTS), within=60)
    labels = mock.get("namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    refused = '"reason":"Unschedulable"'
    eventually(lambda: all(refused in json.dumps(one, separators=(",", ":")) for one in pods().values()), within=60)
    assert not [one for one in pods().values() if one["spec"].get("nodeName")]


def test_what_it_runs_gives_kwok_nodes_gpus_labels_and_metrics(mock: Mock) -> None:
    mock.put(topology({"node-1": 2}))
    eventually(lambda: mock.gpus_of("node-1") == ("2", "2"), within=60)
    eventually(lambda: mock.get("node", "node-1")["metadata"]["labels"].get("nvidia.com/gpu.count") == "2", within=60)
    mock.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(a_pod("p")))
    eventually(lambda: mock.series().get(("node-1", "0"), {}).get("pod") == "p", within=60)
    assert set(mock.series()) == {("node-1", "0"), ("node-1", "1")}
