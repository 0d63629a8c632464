"""Certificates between the real kube-scheduler and the extender: nobody without one, and renewed at work."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import trustme
from gpuyard.cli import issuing, keeping
from gpuyard.cli.issuing import CLIENT
from gpuyard.cli.keeping import AUTHORITY, EXTENDER, SCHEDULER
from gpuyard.sandbox import SandboxError, Spec, down, launch, ports, up
from gpuyard.sandbox.demo.stage import EXTENDER as PROCESS
from gpuyard.sandbox.demo.stage import extender_port, start_extender
from gpuyard.sandbox.rendering import MANIFESTS

from tests.cluster.yard import Json, Yard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpuyard.cli.issuing import Pems
    from gpuyard.sandbox import Cluster

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]

SHIPPED = MANIFESTS / "kube-scheduler" / "config-mtls.yaml"
FOLDER = "/etc/kubernetes/gpuyard"
"""Where the shipped configuration looks for certificates on a control plane."""

UNKNOWN = {"metadata": {"name": "p"}}
TRIES = 3


@dataclass(frozen=True)
class Secured:
    """A sandbox whose kube-scheduler and extender know each other by certificates, and where these are."""

    cluster: Cluster
    files: Path

    @property
    def scheduler(self) -> Path:
        """What kube-scheduler reads."""
        return self.files / "scheduler"

    @property
    def extender(self) -> Path:
        """What the extender reads."""
        return self.files / "extender"

    @property
    def port(self) -> int:
        return extender_port(self.cluster)

    def certificates(self, *options: str) -> str:
        """Run `gpuyard certificates`, and bring the extender's to where it reads them, as kubelet would."""
        command = [sys.executable, "-m", "gpuyard.cli", "certificates", f"--kubeconfig={self.cluster.kubeconfig}"]
        said = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=True).stdout
        keeping.save(self.extender, self.secret(EXTENDER))
        return said

    def secret(self, name: str) -> Pems:
        """What a Secret holds."""
        found = json.loads(self.cluster.kubectl("get", "secret", name, "--namespace=gpuyard", "-o", "json"))
        return {key: base64.b64decode(value) for key, value in found["data"].items()}

    def context(self, own: Path | None = None) -> ssl.SSLContext:
        """What somebody calls with who trusts our authority, and has certificate and key of a folder, if any."""
        context = ssl.create_default_context(cafile=str(self.scheduler / "ca.crt"))
        context.check_hostname = False  # of this ground it has an address only
        if own:
            context.load_cert_chain(own / "tls.crt", own / "tls.key")
        return context

    def call(self, context: ssl.SSLContext, pod: Json = UNKNOWN) -> list[str]:
        """The nodes that filter answers, asked over a new connection."""
        way = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)
        with contextlib.closing(way):
            return asked(way, pod)

    def shown(self) -> bytes | None:
        """The certificate that the extender shows to a new connection."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        with self.context(self.scheduler).wrap_socket(plain) as way:
            return way.getpeercert(binary_form=True)


def asked(way: http.client.HTTPSConnection, pod: Json = UNKNOWN) -> list[str]:
    """The nodes that filter answers over this connection."""
    question = json.dumps({"Pod": pod, "NodeNames": ["node-1"]})
    way.request("POST", "/scheduler/filter", question, {"Content-Type": "application/json"})
    response = way.getresponse()
    answer = json.loads(response.read())
    assert (response.status, answer["Error"]) == (200, "")
    names: list[str] = answer["NodeNames"]
    return names


@pytest.fixture(scope="module")
def secured(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The shipped kube-scheduler configuration for certificates, with only its folder and address changed."""
    name, files = next(sandbox_names), tmp_path_factory.mktemp("tls")
    try:
        made = Secured(_prepared(name), files)
        made.certificates("--save", str(made.scheduler))
        yield _secured(name, made)
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


def _prepared(name: str) -> Cluster:
    """A control plane that knows our objects; nobody asks the extender yet."""
    cluster = up(Spec(name=name))
    crds = str(MANIFESTS / "crds")
    cluster.kubectl("apply", "--server-side", "-f", crds)
    cluster.kubectl("wait", "--for=condition=established", "--timeout=60s", "-f", crds)
    cluster.kubectl("create", "namespace", "gpuyard")
    return cluster


def _secured(name: str, made: Secured) -> Secured:
    config = made.files / "scheduler.yaml"
    config.write_text(SHIPPED.read_text().replace(FOLDER, str(made.scheduler)))
    for _ in range(TRIES):
        port = next(each for each in ports.candidates() if not ports.taken(each) and not ports.taken(each + 1))
        spec = Spec(name=name, scheduler_config=config, extender_url=f"https://127.0.0.1:{port}/scheduler")
        others = (each for each in ports.candidates() if each not in (port, port + 1))
        ready = Secured(up(spec, candidates=others), made.files)
        with contextlib.suppress(launch.PortTakenError):
            start_extender(ready.cluster, f"--tls={ready.extender}")
            return ready
    raise SandboxError("extender", f"{TRIES} ports were taken by others")


@pytest.fixture
def yard(secured: Secured, request: pytest.FixtureRequest) -> Iterator[Yard]:
    name = f"t-{abs(hash(request.node.nodeid)):x}"
    secured.cluster.kubectl("create", "namespace", name)
    secured.cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s", "--namespace", name)
    yield Yard(secured.cluster, name)
    with secured.cluster.api() as api:
        api.delete_all(f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")


def test_a_second_run_finds_the_certificates_good_and_changes_none(secured: Secured) -> None:
    before = {name: secured.secret(name) for name in (AUTHORITY, EXTENDER, SCHEDULER)}
    said = secured.certificates()
    assert said.count(": good until ") == 2
    assert {name: secured.secret(name) for name in before} == before


@pytest.mark.row("E-21")
def test_who_shows_no_certificate_is_refused(secured: Secured) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured.call(secured.context())


@pytest.mark.row("E-21")
def test_who_shows_one_of_another_authority_is_refused(secured: Secured) -> None:
    context = secured.context()
    trustme.CA().issue_cert("gpuyard-scheduler").configure_cert(context)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured.call(context)


@pytest.mark.row("E-21")
def test_the_extenders_own_certificate_opens_no_door(secured: Secured) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured.call(secured.context(secured.extender))


@pytest.mark.row("E-21")
def test_who_speaks_without_tls_is_refused(secured: Secured) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", secured.port, timeout=30)) as way:
        way.request("POST", "/scheduler/filter", "{}")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            way.getresponse()


@pytest.mark.row("E-21")
def test_who_shows_kube_schedulers_certificate_is_served(secured: Secured, yard: Yard) -> None:
    yard.submit("waits", schedulerName="nobody")
    pod, context = yard.one("waits"), secured.context(secured.scheduler)
    yard.until(lambda: secured.call(context, pod) == ["node-1"], 10, "the extender answers for a pod that it has seen")


@pytest.mark.row("E-21")
def test_the_shipped_configuration_holds_queues_over_it(yard: Yard) -> None:
    queue = yard.queue("team", limit=1)
    yard.submit("first", queue=queue)
    yard.until(lambda: "first" in yard.placed(), 60, "the first pod runs")
    yard.submit("second", queue=queue)
    yard.until(lambda: "limit of 1 GPU" in yard.verdicts().get("second", ""), 60, "the second one is refused")


def test_certificates_change_at_work_and_no_call_is_lost(secured: Secured, yard: Yard) -> None:
    over, served, failed = threading.Event(), [0, 0], list[BaseException]()

    def standing() -> None:
        """One connection, over which calls go on."""
        context = secured.context(secured.scheduler)
        way = http.client.HTTPSConnection("127.0.0.1", secured.port, timeout=30, context=context)
        with contextlib.closing(way):
            while not over.wait(0.02):
                asked(way)
                served[0] += 1

    def new() -> None:
        """A connection for each call, with the certificate of that moment."""
        while not over.wait(0.02):
            secured.call(secured.context(secured.scheduler))
            served[1] += 1

    threads = [threading.Thread(target=_noting, args=[calls, failed]) for calls in (standing, new)]
    for each in threads:
        each.start()
    try:
        for number in range(3):
            before = secured.shown()
            secured.certificates("--renew", "--save", str(secured.scheduler))
            yard.until(lambda before=before: secured.shown() != before, 60, "the new one is shown")  # type: ignore[misc]
            yard.submit(f"pod-{number}")
    finally:
        over.set()
        for each in threads:
            each.join()
    assert failed == []
    assert min(served) > 3
    yard.until(lambda: len(yard.placed()) == 3, 60, "pods go on meanwhile")
    assert yard.verdicts() == {}


def _noting(calls: Callable[[], None], failed: list[BaseException]) -> None:
    try:
        calls()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the test tells of it
        failed.append(error)


def test_a_certificate_that_has_run_out_is_refused_and_its_successor_taken_without_a_restart(
    secured: Secured, yard: Yard
) -> None:
    authority = issuing.read(secured.secret(AUTHORITY))
    late = dt.datetime.now(dt.UTC) - issuing.LIFE - dt.timedelta(hours=1)
    pems = issuing.leaf(authority, "gpuyard-scheduler", CLIENT, (), late).pems(authority.certificate)
    keeping.save(secured.scheduler, pems)
    pid = secured.cluster.processes["kube-scheduler"].pid
    secured.cluster.stop(PROCESS)
    start_extender(secured.cluster, f"--tls={secured.extender}")
    yard.submit("train")
    # In what words it learns of that depends on who closes the connection first.
    yard.until(lambda: "/scheduler/filter" in yard.verdicts().get("train", ""), 60, "kube-scheduler is refused")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured.call(secured.context(secured.scheduler))
    secured.certificates("--save", str(secured.scheduler))
    yard.until(lambda: "train" in yard.placed(), 60, "it is let in again")
    assert secured.cluster.processes["kube-scheduler"].pid == pid
