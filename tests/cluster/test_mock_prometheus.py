"""What a real Prometheus makes of the exporter, and the board and alerts that users get."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.dcgm_exporter.families import FAMILIES
from gpuyard.sandbox import Spec, down, up

from tests.mock.daemons import Mock, a_pod, eventually, free_port
from tests.mock.prometheus import MONITORING, Prometheus, board, hasty, monitor, promtool, rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(300)]

TOPOLOGY = """\
mig-strategy: mixed
nodes:
  node-1: {gpu-product: NVIDIA-A100-SXM4-40GB, gpu-memory: 40960, gpus: [{}, {}, {xid: 79}]}
  node-2: {gpu-product: NVIDIA-A100-SXM4-40GB, gpu-memory: 40960, gpus: [{mig: [{profile: 1g.5gb}]}]}
  node-3: {gpu-product: Tesla-K80, gpu-memory: 11441, gpus: [{}]}
"""
PANELS = {panel["title"]: panel for panel in board()["panels"]}
CHOICES = {each["name"]: each["definition"] for each in board()["templating"]["list"] if each["type"] == "query"}
ALERTS = {rule["alert"]: rule for group in rules()["groups"] for rule in group["rules"]}
EVERYTHING = {"$host": ".*", "$gpu": ".*"}
OFFICIAL = {
    "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
}  # fmt: skip


@pytest.fixture(scope="module")
def mock(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mock]:
    """Cards whole and cut, new and old; one busy, one taken and idle, one broken."""
    cluster = up(Spec(name=next(sandbox_names), nodes=3, gpus=0))
    try:
        running = Mock(cluster, tmp_path_factory.mktemp("mock"))
        running.put(TOPOLOGY)
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        idle = {"run.ai/simulated-gpu-utilization": "0"}
        pods = (a_pod("busy", node="node-1"), a_pod("idle", node="node-1", annotations=idle))
        cluster.kubectl("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, pods)))
        eventually(lambda: {labels.get("pod") for labels in running.series().values()} >= {"busy", "idle"})
        yield running
        running.stop()
    finally:
        down(cluster.name)


@pytest.fixture(scope="module")
def prometheus(mock: Mock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It scrapes the exporter, and one that is not there."""
    targets = {"exporter-1": f"127.0.0.1:{mock.port}", "exporter-2": f"127.0.0.1:{free_port()}"}
    with Prometheus(tmp_path_factory.mktemp("prometheus"), targets) as running:
        eventually(lambda: running.series('{pod="busy"}'), within=60)
        yield running


def filled(query: str) -> str:
    """A query of the board with everything chosen."""
    for name, value in EVERYTHING.items():
        query = query.replace(name, value)
    return query


def test_the_board_has_the_panels_of_nvidias() -> None:
    queries = " ".join(target["expr"] for panel in PANELS.values() for target in panel["targets"])
    assert set(re.findall(r"DCGM_\w+", queries)) >= OFFICIAL
    assert [panel["title"] for panel in PANELS.values() if panel["type"] != "timeseries"] == [
        "Average temperature",
        "Total power",
    ]


@pytest.mark.parametrize(
    "panel", [panel for panel in PANELS.values() if panel["type"] == "timeseries"], ids=lambda panel: panel["title"]
)
def test_each_curve_is_named_after_its_host_and_pod(prometheus: Prometheus, panel: dict[str, Any]) -> None:
    [target] = panel["targets"]
    assert {"Hostname", "pod"} <= set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    found = prometheus.series(filled(target["expr"]))
    assert {labels["Hostname"] for labels in found} >= {"node-1", "node-2"}
    assert {labels.get("pod") for labels in found if labels["Hostname"] == "node-1"} == {"busy", "idle", None}


@pytest.mark.parametrize(
    "panel", [panel for panel in PANELS.values() if panel["type"] != "timeseries"], ids=lambda panel: panel["title"]
)
def test_each_sum_is_one_number(prometheus: Prometheus, panel: dict[str, Any]) -> None:
    [target] = panel["targets"]
    assert prometheus.series(filled(target["expr"])) == [{}]


# How NVIDIA's dashboards ask: the published one by the target's address, the one in its repository by the host.
BY_INSTANCE = '{instance=~".*", gpu=~".*"}'
BY_HOST = '{Hostname=~".*", gpu=~".*"}'
CARDS = {"node-1", "node-2", "node-3"}


@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_nvidias_published_board_finds_its_curves(prometheus: Prometheus, name: str) -> None:
    found = prometheus.series(f"{name}{BY_INSTANCE}")
    assert {labels["gpu"] for labels in found} == {"0", "1", "2"}
    assert prometheus.series(f"avg({name}{BY_INSTANCE})") == [{}]


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        (f"max(DCGM_FI_DEV_GPU_TEMP{BY_HOST}) by (Hostname, gpu, uuid)", CARDS),
        (f"max(DCGM_FI_DEV_POWER_USAGE{BY_HOST}) by (Hostname, gpu, uuid)", CARDS),
        (f"max(DCGM_FI_DEV_SM_CLOCK{BY_HOST} * 1000000) by (Hostname, UUID, gpu)", CARDS),
        (f"max(DCGM_FI_DEV_FB_USED{BY_HOST}) by (Hostname, gpu, GPU_I_ID)", CARDS),
        (f"max(DCGM_FI_PROF_GR_ENGINE_ACTIVE{BY_HOST}) by (Hostname, gpu, GPU_I_ID)", CARDS - {"node-3"}),
        (f"max(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{BY_HOST}) by (Hostname, gpu, GPU_I_ID)", CARDS - {"node-3"}),
    ],
)
def test_the_board_of_nvidias_exporter_finds_its_curves(prometheus: Prometheus, query: str, hosts: set[str]) -> None:
    assert {labels["Hostname"] for labels in prometheus.series(query)} == hosts


def test_hosts_and_gpus_can_be_chosen(prometheus: Prometheus) -> None:
    offered: dict[str, list[str]] = {}
    for name, definition in CHOICES.items():
        asked = re.fullmatch(r"label_values\((.*), (\w+)\)", definition)
        assert asked
        offered[name] = prometheus.ask(f"label/{asked[2]}/values", **{"match[]": filled(asked[1])})
    assert offered == {"host": ["node-1", "node-2", "node-3"], "gpu": ["0", "1", "2"]}


def test_the_monitor_finds_the_exporters_service(mock: Mock) -> None:
    rendered = yaml.safe_load_all(mock.cluster.kubectl("kustomize", str(MONITORING.parent / "base" / "mock")))
    [service] = [each for each in rendered if each["kind"] == "Service"]
    spec = monitor()["spec"]
    assert service["metadata"]["labels"].items() >= spec["selector"]["matchLabels"].items()
    assert spec["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]]
    [endpoint] = spec["endpoints"]
    assert (endpoint["port"], endpoint["interval"]) == (service["spec"]["ports"][0]["name"], "15s")


def test_grafanas_sidecar_finds_the_board(mock: Mock) -> None:
    rendered = yaml.safe_load_all(mock.cluster.kubectl("kustomize", str(MONITORING)))
    [found] = [each for each in rendered if each["kind"] == "ConfigMap"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["gpus.json"]) == board()


def test_no_label_of_ours_is_pushed_aside_by_the_targets(prometheus: Prometheus) -> None:
    assert prometheus.series('{exported_pod!=""}') == []
    assert prometheus.series('{exported_namespace!=""}') == []
    assert {labels["namespace"] for labels in prometheus.series('{pod="busy"}')} == {"default"}


def test_an_idle_gpu_does_not_carry_the_exporters_pod(prometheus: Prometheus) -> None:
    assert prometheus.series('{pod=~"exporter-.*"}') == []
    assert "pod" not in prometheus.series('DCGM_FI_DEV_GPU_UTIL{Hostname="node-3"}')[0]


@pytest.mark.parametrize(
    ("alert", "about"),
    [
        ("GpuError", {"Hostname": "node-1", "gpu": "2", "err_msg": "GPU has fallen off the bus"}),
        ("GpuTakenButIdle", {"Hostname": "node-1", "pod": "idle", "namespace": "default"}),
        ("GpuExporterDown", {"job": "nvidia-dcgm-exporter"}),
    ],
)
def test_each_alert_finds_what_it_is_about_and_nothing_else(
    prometheus: Prometheus, alert: str, about: dict[str, str]
) -> None:
    eventually(lambda: prometheus.series(ALERTS[alert]["expr"]), within=30)
    [found] = prometheus.series(ALERTS[alert]["expr"])
    assert found.items() >= about.items()
    mentioned = set(re.findall(r"\$labels\.(\w+)", ALERTS[alert]["annotations"]["summary"]))
    assert mentioned <= found.keys()


def test_an_error_is_alerted_at_once(prometheus: Prometheus) -> None:
    eventually(lambda: prometheus.firing() == {"GpuError"}, within=30)


def test_without_the_time_that_it_has_to_last_each_alert_fires(mock: Mock, tmp_path: Path) -> None:
    targets = {"exporter-1": f"127.0.0.1:{mock.port}", "exporter-2": f"127.0.0.1:{free_port()}"}
    with Prometheus(tmp_path, targets, alerts=hasty(rules())) as impatient:
        eventually(lambda: impatient.firing() == ALERTS.keys(), within=60)


def test_prometheus_knows_each_familys_type_and_text(prometheus: Prometheus) -> None:
    known = prometheus.ask("metadata")
    ours = {family.name: [{"type": family.kind, "help": family.help, "unit": ""}] for family in FAMILIES}
    assert {name: known[name] for name in ours} == ours


def test_promtool_takes_the_alerts(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(yaml.safe_dump(rules()))
    checked = promtool("check", "rules", str(path))
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"{len(ALERTS)} rules found" in checked.stdout


def test_promtool_dislikes_nothing_but_nvidias_own_names(mock: Mock) -> None:
    forced = {
        (family.name, 'counter metrics should have "_total" suffix') for family in FAMILIES if family.kind == "counter"
    }
    forced |= {(family.name, "label names should be written in 'snake_case' not 'camelCase'") for family in FAMILIES}
    forced |= {("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "metric name should not include type 'counter'")}
    complaints = promtool("check", "metrics", stdin=mock.scrape()).stderr.splitlines()
    assert {tuple(complaint.split(" ", 1)) for complaint in complaints} == forced


@pytest.mark.parametrize("component", ["status_updater", "gfd", "dcgm_exporter"])
def test_promtool_finds_our_own_metrics_clean(mock: Mock, component: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{mock.daemons[component].ops_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert f'gpuyard_build_info{{component="gpuyard-{component.replace("_", "-")}"' in text
    checked = promtool("check", "metrics", stdin=text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
