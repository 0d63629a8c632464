"""What a real Prometheus makes of a running extender: the board's queries, the alerts, the ServiceMonitor."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.sandbox.demo.stage import extender_port, set_up
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.lifecycle import down

from tests.cluster.yard import Yard
from tests.mock.daemons import eventually
from tests.mock.prometheus import EXTENDER, MONITORING, Prometheus, board, monitor, promtool, rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(900)]

Json = dict[str, Any]

QUERIES = {
    f"{panel['title']}, {target['legendFormat']}": target["expr"]
    for panel in board(EXTENDER)["panels"]
    for target in panel["targets"]
}
ALERTS = {rule["alert"]: rule for group in rules(EXTENDER)["groups"] for rule in group["rules"]}


@pytest.fixture(scope="module")
def yard(sandbox_names: Iterator[str]) -> Iterator[Yard]:
    """A node of 8 GPUs that one queue used up and another takes a part back of, and a pod that waits."""
    name = next(sandbox_names)
    try:
        made = Yard(set_up(name, print, nodes=1), "default")
        made.cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=180s")
        lender, borrower = made.queue("lender", quota=4), made.queue("borrower", quota=4)
        made.submit(*(f"borrowed-{n}" for n in range(8)), queue=borrower)
        made.until(lambda: len(made.placed()) == 8, 180, "the borrower has all")
        made.submit("back", queue=lender, gpus=2)
        made.until(lambda: "back" in made.placed(), 180, "the lender takes a part back")
        # kube-scheduler asks about a pod only while some node has room for it.
        made.delete(next(name for name in sorted(made.placed()) if name != "back"))
        made.submit("waits", queue=made.queue("full", limit=0))
        made.until(lambda: "waits" in made.verdicts(), 180, "a pod waits")
        yield made
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


@pytest.fixture(scope="module")
def prometheus(yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It scrapes the extender as the ServiceMonitor says."""
    targets = {"extender-1": f"127.0.0.1:{extender_port(yard.cluster) + 1}"}
    with Prometheus(tmp_path_factory.mktemp("prometheus"), targets, EXTENDER) as running:
        eventually(lambda: running.series('gpuyard_plans_total{state="Kept"}'), within=180)
        yield running


def ask(yard: Yard) -> None:
    """Let kube-scheduler ask again, so that something happens between two scrapes."""
    yard.cluster.kubectl("annotate", "--overwrite", "pod", "waits", f"asked={len(list(yard.audit('patch', 'pods')))}")


def filled(query: str) -> str:
    return query.replace("$queue", ".*").replace("$__rate_interval", "1m")


@pytest.mark.parametrize("name", QUERIES)
def test_each_curve_of_the_board_has_something_to_show(yard: Yard, prometheus: Prometheus, name: str) -> None:
    def shows() -> bool:
        ask(yard)
        return bool(prometheus.series(filled(QUERIES[name])))

    eventually(shows, within=180, pause=1)


@pytest.mark.parametrize("name", QUERIES)
def test_each_curve_is_named_by_labels_that_it_has(yard: Yard, prometheus: Prometheus, name: str) -> None:
    named = set(re.findall(r"{{(\w+)}}", name))

    def has_them() -> bool:
        ask(yard)
        found = prometheus.series(filled(QUERIES[name]))
        return bool(found) and all(named <= labels.keys() for labels in found)

    eventually(has_them, within=180, pause=1)


def test_the_queue_can_be_chosen(prometheus: Prometheus) -> None:
    [choice] = [each for each in board(EXTENDER)["templating"]["list"] if each["type"] == "query"]
    asked = re.fullmatch(r"label_values\((.*), (\w+)\)", choice["definition"])
    assert asked
    offered = prometheus.ask(f"label/{asked[2]}/values", **{"match[]": asked[1]})
    assert offered == ["default-borrower", "default-full", "default-lender"]


# How fast answers come is the machine's affair, and while an extender starts its answers are errors.
OF_THE_MOMENT = {"GpuyardSlow", "GpuyardErrors"}


@pytest.mark.parametrize("alert", sorted(ALERTS.keys() - OF_THE_MOMENT))
def test_no_alert_is_about_a_healthy_extender(prometheus: Prometheus, alert: str) -> None:
    eventually(lambda: prometheus.series(ALERTS[alert]["expr"]) == [], within=180, pause=1)


def test_prometheus_takes_all_alerts_and_none_fires(prometheus: Prometheus) -> None:
    told: list[Json] = []

    def evaluated() -> bool:
        told[:] = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        return {rule["name"]: rule["health"] for rule in told} == dict.fromkeys(ALERTS, "ok")

    eventually(evaluated, within=180, pause=1)
    assert [rule["name"] for rule in told if rule["state"] == "firing"] == []


# --- each alert fires when it should; time is promtool's own ---

JOB = 'job="gpuyard-extender"'
BUCKET = "gpuyard_verb_seconds_bucket"
CAUSES: dict[str, dict[str, str]] = {
    "GpuyardAbsent": {f"up{{{JOB}}}": "0x60"},
    "GpuyardNobodyLeads": {f'gpuyard_lease_leading{{{JOB},pod="a",lease="gpuyard-extender"}}': "0x60"},
    "GpuyardCutOff": {f'gpuyard_cache_age_seconds{{{JOB},pod="a",resource="pods"}}': "0+60x60"},
    "GpuyardErrors": {f'gpuyard_verb_calls_total{{{JOB},verb="filter",outcome="error"}}': "0+5x60"},
    "GpuyardSlow": {
        f'{BUCKET}{{{JOB},verb="filter",le="0.001"}}': "0x60",
        f'{BUCKET}{{{JOB},verb="filter",le="0.1"}}': "0x60",
        f'{BUCKET}{{{JOB},verb="filter",le="0.5"}}': "0+5x60",
        f'{BUCKET}{{{JOB},verb="filter",le="+Inf"}}': "0+5x60",
    },
    "GpuyardUnreadable": {f'gpuyard_unreadable_objects{{{JOB},pod="a",resource="queues"}}': "1x60"},
    "GpuyardQueueKeptShort": {
        f'gpuyard_queue_fair_share_gpus{{{JOB},queue="a"}}': "4x60",
        f'gpuyard_queue_allocated_gpus{{{JOB},queue="a"}}': "1x60",
    },
    "GpuyardPlansInVain": {f'gpuyard_plans_total{{{JOB},phase="reclaim",state="Expired"}}': "0+1x60"},
}
HEALTHY = {
    f"up{{{JOB}}}": "1x60",
    f'gpuyard_lease_leading{{{JOB},pod="a",lease="gpuyard-extender"}}': "1x60",
    f'gpuyard_lease_leading{{{JOB},pod="b",lease="gpuyard-extender"}}': "0x60",
    f'gpuyard_cache_age_seconds{{{JOB},pod="a",resource="pods"}}': "60x60",
    f'gpuyard_verb_calls_total{{{JOB},verb="filter",outcome="answered"}}': "0+50x60",
    f'{BUCKET}{{{JOB},verb="filter",le="0.001"}}': "0+50x60",
    f'{BUCKET}{{{JOB},verb="filter",le="+Inf"}}': "0+50x60",
    f'gpuyard_queue_fair_share_gpus{{{JOB},queue="a"}}': "4x60",
    f'gpuyard_queue_allocated_gpus{{{JOB},queue="a"}}': "6x60",
    f'gpuyard_plans_total{{{JOB},phase="reclaim",state="Kept"}}': "0+1x60",
    f'gpuyard_unreadable_objects{{{JOB},pod="a",resource="queues"}}': "0x60",
}


def promtool_says(folder: Path, series: dict[str, str], firing: str) -> tuple[int, str]:
    """What promtool finds when after 50 minutes of this series the one alert, or none, is to fire."""
    (folder / "alerts.yaml").write_text(yaml.safe_dump(rules(EXTENDER)))
    expected: list[Json] = [{"alertname": name, "eval_time": "50m"} for name in ALERTS if name != firing]
    told = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": told, "alert_rule_test": expected}
    document = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(document))
    done = promtool("test", "rules", str(folder / "test.yaml"))
    return done.returncode, done.stdout + done.stderr


def test_each_alert_is_tried() -> None:
    assert CAUSES.keys() == ALERTS.keys()


def test_promtool_takes_the_alerts_and_none_fires_where_all_is_well(tmp_path: Path) -> None:
    code, said = promtool_says(tmp_path, HEALTHY, "")
    assert code == 0, said


@pytest.mark.parametrize("alert", [*CAUSES])
def test_an_alert_fires_for_its_cause_and_no_other_one_does(tmp_path: Path, alert: str) -> None:
    given = HEALTHY | CAUSES[alert]
    code, said = promtool_says(tmp_path, given, alert)
    assert code == 0, said
    code, said = promtool_says(tmp_path, given, "")
    assert (code, f"alertname: {alert}" in said) == (1, True), said


@pytest.mark.parametrize("alert", [*CAUSES])
def test_what_an_alert_says_is_made_of_labels_that_it_has(alert: str) -> None:
    mentioned = set(re.findall(r"\$labels\.(\w+)", ALERTS[alert]["annotations"]["summary"]))
    kept = set(re.findall(r"by \(([\w, ]+)\)", ALERTS[alert]["expr"]))
    assert mentioned <= {label for each in kept for label in each.split(", ")}


# --- what is applied ---


def test_the_monitor_finds_the_extenders_and_the_sidecar_the_board(yard: Yard) -> None:
    rendered = [*yaml.safe_load_all(yard.cluster.kubectl("kustomize", str(EXTENDER.folder)))]
    [service] = [each for each in rendered if each["kind"] == "Service"]
    spec = monitor(EXTENDER)["spec"]
    assert service["metadata"]["labels"].items() >= spec["selector"]["matchLabels"].items()
    assert spec["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]]
    assert [each["port"] for each in spec["endpoints"]] == [port["name"] for port in service["spec"]["ports"]]
    [held] = [each for each in rendered if each["kind"] == "ConfigMap"]
    assert held["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(held["data"]["queues.json"]) == board(EXTENDER)


def test_the_service_leads_to_the_pods_of_the_extender(yard: Yard) -> None:
    base = MONITORING.parent / "base" / "extender"
    rendered = [*yaml.safe_load_all(yard.cluster.kubectl("kustomize", str(base)))]
    [deployment] = [each for each in rendered if each["kind"] == "Deployment"]
    [service] = [
        each
        for each in yaml.safe_load_all(yard.cluster.kubectl("kustomize", str(EXTENDER.folder)))
        if each["kind"] == "Service"
    ]
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["labels"].items() >= service["spec"]["selector"].items()
    named = {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= named
