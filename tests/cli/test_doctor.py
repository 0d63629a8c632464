"""`gpuyard doctor`: what it says, and by which exit code. Each check is shown on a real cluster in tests/cluster."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gpuyard.cli import alterations, bypass, callers, scraping, wiring
from gpuyard.cli.findings import Finding
from gpuyard.cli.patient import Patient, examined
from gpuyard.common import tokens
from gpuyard.common.cluster.changed_pods import PAGE, ChangedPods
from gpuyard.common.kube.access import Access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import UnreachableError

from tests.cli.cluster import cluster
from tests.cli.serving import serving
from tests.cli.shell import Run, run
from tests.engine.kube.written import Json, node, pod, queue, reading

REST = "nothing is left on nodes"
NOON = "2026-03-01T12:00:00Z"


def plain(**labels: str) -> Json:
    return node(labels=labels) | {"status": {"allocatable": {"nvidia.com/gpu": "8"}}}


def ask(folder: Path, *arguments: str, given: tuple[Json, ...], forbidden: str = "") -> Run:
    with cluster(folder, *given, forbidden=forbidden) as kubeconfig:
        return run("doctor", *arguments, "--kubeconfig", kubeconfig)


def findings(told: Run) -> list[Json]:
    found: list[Json] = json.loads(told.out)
    return found


def test_where_nothing_is_installed_nothing_is_wrong(tmp_path: Path) -> None:
    told = ask(tmp_path, given=(plain(),))
    assert told.code == 0
    assert told.out.splitlines() == [
        "ok    an extender answers: it is not installed here, and no queue is held",
        "ok    nodes offer their GPUs: 8 GPUs on 1 nodes",
        f"ok    {REST}: no labels or resources of a mock that is gone",
    ]


def test_queues_that_nobody_holds_are_told_with_what_would_do(tmp_path: Path) -> None:
    told = ask(tmp_path, given=(plain(), queue("a"), queue("b")))
    assert (told.code, "there are 2 queues, and no extender runs as a pod here" in told.out) == (1, True)
    assert "--extender URL" in told.out


def test_a_finding_names_the_object_and_below_it_the_remedy_and_ends_with_1(tmp_path: Path) -> None:
    told = ask(tmp_path, given=(plain(**{"gpuyard.io/mock": "true"}),))
    at = next(n for n, line in enumerate(told.out.splitlines()) if REST in line)
    seen, remedy = told.out.splitlines()[at : at + 2]
    assert (told.code, seen.startswith(f"fail  {REST}: node node-1: ")) == (1, True)
    assert remedy == "      it is of a mock that is gone: `gpuyard uninstall mock` takes it away"


@pytest.mark.parametrize(("ready", "status"), [("True", "ok"), ("False", "fail")])
def test_a_process_of_the_mock_that_is_not_ready_is_found(tmp_path: Path, ready: str, status: str) -> None:
    conditions = {"conditions": [{"type": "Ready", "status": ready}]}
    mine = pod("updater", 0, queue=None, namespace="gpuyard-mock", on="node-1", status=conditions)
    told = findings(ask(tmp_path, "-o", "json", given=(plain(), mine)))
    assert [each["status"] for each in told if each["check"] == "the mock runs"] == [status]


def test_what_may_not_be_read_is_told_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    told = findings(ask(tmp_path, "-o", "json", given=(plain(),), forbidden="Node"))
    assert [(each["check"], each["status"]) for each in told] == [
        ("an extender answers", "ok"),
        ("nodes offer their GPUs", "warn"),
        (REST, "warn"),
    ]
    assert "you may not" in told[1]["seen"]


def test_a_cluster_without_gpus_is_told_where_some_can_be_had(tmp_path: Path) -> None:
    bare = node() | {"status": {}}
    assert "install NVIDIA's device plugin, or the mock" in ask(tmp_path, given=(bare,)).out


# --- what an extender says that runs outside of the cluster ---


@contextmanager
def probes(page: str, other: str = "ok\n", changed: str | None = None) -> Iterator[str]:
    """The address of an extender that is ready and has this page of metrics; what it answers to all else.

    `changed` is its page of changed pods; None: it is an older one without that page.
    """

    def answered(path: str) -> tuple[int, bytes]:
        if path == f"/{PAGE}":
            return (404, b"") if changed is None else (200, changed.encode())
        return 200, (page if path == "/metrics" else other).encode()

    with serving(answered) as port:
        yield f"http://127.0.0.1:{port}"


def placed(at: str) -> Json:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    return pod("runs", on="node-1", status={"conditions": [scheduled]})


def page(calls: int, start: int) -> str:
    """Metrics of an extender that was asked so often since it was started."""
    asked = f'gpuyard_verb_calls_total{{outcome="answered",verb="filter"}} {calls}.0\n'
    return f"process_start_time_seconds {start}.0\n" + (asked if calls else "")


MORNING = 1772352000
"""2026-03-01, 08:00."""


@pytest.mark.parametrize(
    ("calls", "start", "status"),
    [(0, MORNING, "fail"), (3, MORNING, "ok"), (0, MORNING + 12 * 3600, "ok")],
    ids=["never asked", "asked", "started later"],
)
def test_a_pod_that_got_gpus_while_nobody_asked_is_found(tmp_path: Path, calls: int, start: int, status: str) -> None:
    with probes(page(calls, start)) as url:
        told = findings(ask(tmp_path, "--extender", url, "-o", "json", given=(plain(), queue(), placed(NOON))))
    [found] = [each for each in told if each["check"] == wiring.ASKS]
    assert found["status"] == status
    assert ("pod default/runs got its node" in found["seen"]) == (status == "fail")


def test_an_address_where_nobody_answers_is_told(tmp_path: Path) -> None:
    told = findings(ask(tmp_path, "--extender", "http://127.0.0.1:9", "-o", "json", given=(plain(),)))
    assert [each["status"] for each in told if each["check"] in (wiring.ANSWERS, wiring.ASKS)] == ["fail", "warn"]


@pytest.mark.parametrize("answer", ["<html>", "[]", '{"data": {"result": [1]}}', '"data"', '{"data": null}'])
def test_what_answers_and_is_no_prometheus_is_told(tmp_path: Path, answer: str) -> None:
    with probes(page(3, MORNING), answer) as url:
        asked = ("--extender", url, "--prometheus", url, "-o", "json")
        told = findings(ask(tmp_path, *asked, given=(plain(),)))
    [found] = [each for each in told if each["check"] == scraping.SCRAPED]
    assert (found["status"], found["remedy"]) == ("fail", "name the address of Prometheus itself")
    assert "is no Prometheus" in found["seen"]


def test_a_prometheus_that_has_the_metrics_is_well(tmp_path: Path) -> None:
    series = '{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1.5, "2"]}]}}'
    with probes(page(3, MORNING), series) as url:
        told = findings(ask(tmp_path, "--extender", url, "--prometheus", url, "-o", "json", given=(plain(),)))
    [found] = [each for each in told if each["check"] == scraping.SCRAPED]
    assert (found["status"], found["seen"]) == ("ok", f"{url} has those of 2 extenders")


# --- pods that were changed while they ran ---


def alteration(folder: Path, changed: str | None) -> list[Json]:
    """What is found where the extender has this page of changed pods."""
    with probes(page(3, MORNING), changed=changed) as url:
        told = findings(ask(folder, "--extender", url, "-o", "json", given=(plain(),)))
    return [each for each in told if each["check"] == alterations.COUNTED]


@pytest.mark.row("X-61", case="named")
def test_a_running_pod_that_was_changed_is_named_with_its_keys(tmp_path: Path) -> None:
    [told] = alteration(tmp_path, '{"count": 1, "named": {"team-a/p": ["gpu-fraction", "kai.scheduler/queue"]}}')
    assert told["status"] == "warn"
    assert told["seen"].endswith(": team-a/p (gpu-fraction, kai.scheduler/queue)")
    assert "manifests/overlays/admission" in told["remedy"]


@pytest.mark.row("X-61", case="none")
def test_where_no_running_pod_was_changed_all_is_well(tmp_path: Path) -> None:
    [told] = alteration(tmp_path, '{"count": 0, "named": {}}')
    assert (told["status"], told["remedy"]) == ("ok", "")


@pytest.mark.row("X-61", case="many")
def test_of_many_changed_pods_the_first_few_are_named_and_all_are_counted() -> None:
    told = alterations.found(ChangedPods(150, {f"team-a/p{number:02}": ("queue",) for number in range(100)}))
    assert ": team-a/p00 (queue), team-a/p01 (queue), " in told.seen
    assert told.seen.endswith(", team-a/p04 (queue) and 145 more")


def test_an_extender_without_that_page_is_no_finding(tmp_path: Path) -> None:
    assert alteration(tmp_path, None) == []


def test_a_page_of_changed_pods_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert [told["status"] for told in alteration(tmp_path, "<html>")] == ["warn"]


# --- a doctor that stumbles ---


async def stumbling(_: Patient) -> list[Finding]:
    """Meet what nobody had thought of."""
    raise KeyError("spec")


async def unreachable(_: Patient) -> list[Finding]:
    """Ask a cluster that is not there any more."""
    raise UnreachableError("gone")


def patient() -> Patient:
    """One whom nobody asks."""
    return Patient(Client(Access("http://127.0.0.1:9")))


async def test_a_check_that_breaks_names_itself_and_does_not_keep_the_others_back() -> None:
    [found] = await examined(patient(), "the check", stumbling)
    assert (found.check, found.status) == ("the check", "warn")
    assert "KeyError: 'spec'" in found.seen


async def test_a_cluster_that_does_not_answer_is_no_finding() -> None:
    with pytest.raises(UnreachableError):
        await examined(patient(), "the check", unreachable)


# --- one extender, by design or by mishap ---


def extender() -> Json:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    made = pod("extender-1", 0, queue=None, namespace="gpuyard", on="node-1", status=ready)
    made["metadata"]["labels"] = {"gpuyard.io/leader": "true"}
    return made


def test_one_extender_alone_is_worth_a_look() -> None:
    assert wiring.leading([extender()], set()).status == "warn"


def test_in_one_pod_with_kube_scheduler_there_is_one_by_design() -> None:
    found = wiring.leading([extender()], {"gpuyard/extender-1"})
    assert (found.status, found.remedy) == ("ok", "")
    assert wiring.leading([extender()], {"kube-system/kube-scheduler"}).status == "warn"


def scheduler(name: str, *arguments: str) -> Json:
    made = pod(name, 0, queue=None, namespace="kube-system", on="node-1")
    made["spec"]["containers"][0]["command"] = ["kube-scheduler", *arguments]
    return made


@pytest.mark.parametrize(
    ("also", "seen"), [((), ["pod a has no --config, so"]), (("b",), ["pod b reads /etc/b of node"])]
)
async def test_of_several_schedulers_those_count_that_were_given_a_configuration(
    monkeypatch: pytest.MonkeyPatch, also: tuple[str, ...], seen: list[str]
) -> None:
    running = [scheduler("a"), *(scheduler(name, f"--config=/etc/{name}") for name in also)]
    monkeypatch.setattr(Patient, "schedulers", running)
    monkeypatch.setattr(Patient, "has_extender", True)
    assert [" ".join(found.seen.split()[: len(seen[0].split())]) for found in await wiring.told(patient())] == seen


@pytest.mark.parametrize("seconds", [90, 86_400 + 90])
async def test_a_lease_that_nobody_renews_is_told_with_its_whole_age(
    monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    renewed = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()

    async def get(*_: object) -> Json:
        return {"spec": {"renewTime": renewed, "leaseDurationSeconds": 15}}

    monkeypatch.setattr(Patient, "get", get)
    monkeypatch.setattr(Patient, "extenders", [extender()])
    [found] = await wiring.lease(patient())
    [age] = re.findall(r"renewed (\d+) s ago", found.seen)
    assert int(age) >= seconds


# --- pods without a queue ---


def test_the_first_few_pods_without_a_queue_are_named_and_the_rest_are_counted() -> None:
    free = [pod(f"p{n}", queue=None, on="node-1") for n in range(7)]
    [found] = bypass.bypassing(reading(node(), queue(), pod("mine"), *free).snapshot)
    names = ", ".join(f"default/p{n}" for n in range(5))
    assert found.seen == f"{names} and 2 more have no queue (7 GPUs)"


@pytest.mark.parametrize(("limit", "status"), [(2, "ok"), (1, "warn"), (-1, "ok")])
def test_a_queue_that_holds_more_than_its_limit_is_found_and_an_unused_one_is_well(limit: float, status: str) -> None:
    given = (node(), queue("used", limit=limit), queue("unused", limit=0), pod("p", 2, "used", on="node-1"))
    [found] = bypass.beyond(reading(*given).snapshot)
    assert found.status == status


def test_pods_without_gpus_need_no_queue() -> None:
    [found] = bypass.bypassing(reading(node(), queue(), pod("mine"), pod("free", 0, queue=None)).snapshot)
    assert (found.status, found.seen) == ("ok", "1 pods with GPUs, each of a queue")


def test_a_pod_of_another_scheduler_is_told_apart_from_one_without_a_queue() -> None:
    given = (pod("other", 2, schedulerName="volcano"), pod("free", queue=None), pod("mine"))
    other, free = sorted(bypass.bypassing(reading(node(), queue(), *given).snapshot), key=lambda one: -len(one.seen))
    assert other.seen == "default/other is placed by volcano, which does not ask gpuyard (2 GPUs)"
    assert other.remedy.startswith("set schedulerName: default-scheduler")
    assert free.seen == "default/free has no queue (1 GPUs)"


def test_an_object_that_cannot_be_read_does_not_keep_the_doctor_from_the_others(tmp_path: Path) -> None:
    given = (plain(), queue(limit=1), pod("bad", "many"), pod("free", queue=None, on="node-1"))
    held = (pod("a", 2, on="node-1"),)
    with probes(page(3, MORNING)) as url:
        told = findings(ask(tmp_path, "--extender", url, "-o", "json", given=(*given, *held)))
    found = {(each["check"], each["status"]) for each in told}
    assert {(bypass.READ, "fail"), (bypass.GOVERNED, "warn"), (bypass.BOUNDED, "warn")} <= found
    assert any("default/bad" in each["seen"] for each in told if each["check"] == bypass.READ)


# --- whose calls the extender answers ---

SETTINGS = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n"
NOBODY = f"Secret gpuyard/{tokens.SECRET} has no token, so that nobody is answered"


def started(*options: str) -> Json:
    """A pod in which an extender runs that was started so."""
    made = pod("gpuyard-extender-0", 0, queue=None, namespace="gpuyard", on="node-1")
    command = ["python3", "-m", "gpuyard.extender"]
    made["spec"]["containers"] = [{"name": "extender", "command": command, "args": options}]
    return made


def on_callers(folder: Path, *options: str, settings: str = "", secret: Json | None = None) -> Json:
    """What is found about an extender of these options and settings."""
    given = (plain(), started("--token=/t", *options))
    with cluster(folder, *given, config=SETTINGS + settings, secret=secret) as kubeconfig:
        told = findings(run("doctor", "-o", "json", "--kubeconfig", kubeconfig))
    [found] = [each for each in told if each["check"] == callers.KNOWN]
    return found


@pytest.mark.row("X-23", case="doctor")
def test_an_open_port_is_a_warning(tmp_path: Path) -> None:
    found = on_callers(tmp_path, settings="authentication: none\n")
    assert (found["status"], found["seen"].split(":")[0]) == ("warn", "`authentication")
    assert "docs/security.md" in found["remedy"]


def test_an_open_port_on_loopback_is_none(tmp_path: Path) -> None:
    assert on_callers(tmp_path, "--host=127.0.0.1", settings="authentication: none\n")["status"] == "ok"


def test_with_certificates_all_is_well_whatever_else_is_set(tmp_path: Path) -> None:
    found = on_callers(tmp_path, "--tls=/certificates", settings="authentication: none\n")
    assert (found["status"], found["seen"]) == ("ok", "it answers only callers with a certificate")


@pytest.mark.row("X-26", case="no-secret")
@pytest.mark.parametrize("secret", [None, {"data": {}}, {"data": None}])
def test_a_secret_without_a_token_is_found_with_what_makes_it(tmp_path: Path, secret: Json | None) -> None:
    found = on_callers(tmp_path, secret=secret)
    assert (found["status"], found["seen"]) == ("fail", NOBODY)
    assert "gpuyard certificates token --save" in found["remedy"]


@pytest.mark.parametrize("settings", ["", "authentication: token\n", "authentication: perhaps\n"])
def test_with_a_token_all_is_well_and_it_is_not_shown(tmp_path: Path, settings: str) -> None:
    found = on_callers(tmp_path, settings=settings, secret={"data": {"token": "c2VjcmV0"}})
    assert (found["status"], found["seen"]) == ("ok", "it answers only callers with the token")
    assert "c2VjcmV0" not in json.dumps(found)


def test_who_may_not_read_secrets_is_not_told_that_there_is_none(tmp_path: Path) -> None:
    refused = {"kind": "Status", "reason": "Forbidden", "message": "you may not", "code": 403}
    assert on_callers(tmp_path, secret=refused)["status"] == "ok"
