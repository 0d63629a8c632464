"""What a real Prometheus makes of a running extender: the board's queries, the alerts, the ServiceMonitor."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.cli import issuing, keeping
from gpuyard.sandbox import processes
from gpuyard.sandbox.demo.stage import EXTENDER as PROCESS
from gpuyard.sandbox.demo.stage import extender_port, set_up
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.lifecycle import down

from tests.cluster.yard import Yard
from tests.mock.daemons import Daemon, eventually, free_port
from tests.mock.prometheus import EXTENDER, MONITORING, Prometheus, board, hasty, monitor, promtool, rules

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
CERTIFICATE = "gpuyard_certificate_expiry_timestamp_seconds"
CAUSES: dict[str, dict[str, str]] = {
    "GpuyardAbsent": {f"up{{{JOB}}}": "0x60"},
    "GpuyardNobodyLeads": {f'gpuyard_lease_leading{{{JOB},pod="a",lease="gpuyard-extender"}}': "0x60"},
    "GpuyardCutOff": {f'gpuyard_cache_age_seconds{{{JOB},pod="a",resource="pods"}}': "0+60x60"},
    "GpuyardCertificateEnds": {f'{CERTIFICATE}{{{JOB},pod="a",file="tls.crt"}}': f"{13 * 86400}x60"},
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
    f'gpuyard_cache_age_seconds{{{JOB},pod="a",resource="pods"}}': "150x60",
    f'gpuyard_verb_calls_total{{{JOB},verb="filter",outcome="answered"}}': "0+50x60",
    f'{CERTIFICATE}{{{JOB},pod="a",file="tls.crt"}}': f"{89 * 86400}x60",
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


# --- each alert fires when what it tells of really happens: all but the one that needs longer than a test may take ---

UNLED = {"GpuyardNobodyLeads"}
FINALIZER = "tests.gpuyard.io/stays"


class Standby:
    """One more extender, which waits for a Lease that somebody took with him, and has certificates."""

    def __init__(self, yard: Yard, folder: Path) -> None:
        self._files = folder / "certificates"
        self.certify(dt.timedelta(days=2))
        spec = {"holderIdentity": "gone", "leaseDurationSeconds": 3600}
        meta = {"name": "gpuyard-extender", "namespace": yard.namespace}
        yard.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec})
        options = ["--host=127.0.0.1", f"--port={free_port()}", f"--tls={self._files}"]
        lease = f"--lease-namespace={yard.namespace}"
        self.daemon = Daemon("extender", yard.cluster.kubeconfig, folder / "log", *options, lease)

    def certify(self, left: dt.timedelta) -> None:
        """Give it certificates that are good for so long."""
        made = dt.datetime.now(dt.UTC) + left - issuing.LIFE
        authority = issuing.authority("tests", made)
        leaf = issuing.leaf(authority, "extender", issuing.SERVER, ("extender",), made)
        keeping.save(self._files, leaf.pems(authority.certificate))


@pytest.fixture(scope="module")
def standby(yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standby]:
    made = Standby(yard, tmp_path_factory.mktemp("standby"))
    yield made
    made.daemon.stop()


@pytest.fixture(scope="module")
def impatient(yard: Yard, standby: Standby, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that is told to look at both, and not to wait before it tells."""
    ports = {"extender-1": extender_port(yard.cluster) + 1, "extender-2": standby.daemon.ops_port}
    targets = {pod: f"127.0.0.1:{port}" for pod, port in ports.items()}
    with Prometheus(tmp_path_factory.mktemp("impatient"), targets, EXTENDER, hasty(rules(EXTENDER))) as running:
        yield running


def fires(prometheus: Prometheus, alert: str) -> None:
    """Wait until it does."""
    eventually(lambda: alert in prometheus.firing(), within=60, pause=0.5)


def test_a_certificate_that_runs_out_is_told_of_until_it_is_renewed_and_that_nobody_leads(
    standby: Standby, impatient: Prometheus
) -> None:
    eventually(lambda: impatient.firing() == {"GpuyardCertificateEnds", *UNLED}, within=120, pause=0.5)
    standby.certify(dt.timedelta(days=20))
    eventually(lambda: impatient.firing() == UNLED, within=60, pause=0.5)


def test_calls_that_cannot_be_read_are_told_of(yard: Yard, impatient: Prometheus) -> None:
    def asked() -> bool:
        yard.ask("filter", b"nonsense")
        return "GpuyardErrors" in impatient.firing()

    eventually(asked, within=60, pause=0.5)


def test_slow_answers_are_told_of(yard: Yard, impatient: Prometheus) -> None:
    # Of a pod that does not exist the watch is waited for, 100 ms, and then for a second no more.
    nobody = {"name": "nobody", "namespace": yard.namespace, "uid": "uid-of-nobody"}
    question = json.dumps({"Pod": {"metadata": nobody}, "NodeNames": ["node-1"]}).encode()

    def asked() -> bool:
        yard.ask("filter", question)
        return "GpuyardSlow" in impatient.firing()

    eventually(asked, within=60, pause=1.2)


def test_a_queue_that_cannot_be_used_as_it_is_written_is_told_of(yard: Yard, impatient: Prometheus) -> None:
    yard.queue("head", parentQueue=yard.queue("tail"))
    yard.queue("tail", parentQueue=f"{yard.namespace}-head")
    fires(impatient, "GpuyardUnreadable")


def test_a_queue_that_does_not_get_what_is_due_to_it_is_told_of(yard: Yard, impatient: Prometheus) -> None:
    yard.submit("nowhere", queue=yard.queue("short", quota=1), nodeSelector={"no": "such"})
    fires(impatient, "GpuyardQueueKeptShort")


def test_plans_that_come_to_nothing_are_told_of(yard: Yard, impatient: Prometheus) -> None:
    idle, owner = yard.queue("idle", quota=0), yard.queue("owner", quota=8)
    yard.delete(*yard.pods())
    names = [f"{number}" for number in range(8)]
    yard.apply(*(staying(yard.pod(f"lent-{name}", idle)) for name in names))
    yard.until(lambda: len(yard.placed()) == 8, 60, "the borrower has all")
    yard.submit(*(f"asks-{name}" for name in names), queue=owner)
    yard.until(lambda: len(leaving(yard)) == 8, 60, "there is a plan for each")
    yard.delete(*(f"asks-{name}" for name in names))
    for name in names:
        yard.cluster.kubectl(
            "patch", "pod", f"lent-{name}", "--namespace", yard.namespace, "-p", '{"metadata": {"finalizers": null}}'
        )
    fires(impatient, "GpuyardPlansInVain")


def staying(pod: Json) -> Json:
    """The pod as one that does not leave before somebody has looked after what it leaves behind."""
    pod["metadata"]["finalizers"] = [FINALIZER]
    return pod


def leaving(yard: Yard) -> set[str]:
    return {name for name, pod in yard.pods().items() if "deletionTimestamp" in pod["metadata"]}


def test_extenders_that_have_gone_are_told_of(yard: Yard, standby: Standby, impatient: Prometheus) -> None:
    standby.daemon.stop()
    assert "GpuyardAbsent" not in impatient.firing()
    processes.end(yard.cluster.processes[PROCESS], grace=10)
    fires(impatient, "GpuyardAbsent")
