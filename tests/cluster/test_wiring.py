"""A second kube-scheduler beside the cluster's own, with the configuration and the rights that its overlay brings.

On this ground nobody runs the overlay's pods, so the same two programs run as processes with the pods' accounts; the
pods themselves are shown by tests/cluster/test_wiring_kind.py.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.common import tokens
from gpuyard.sandbox import Cluster, SandboxError, Spec, down, ports, up
from gpuyard.sandbox.rendering import MANIFESTS

from tests.cluster import peer
from tests.cluster.yard import Yard
from tests.documents.blocks import DOCS, typed_in
from tests.mock.daemons import Daemon, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]

BESIDE_KAI = "beside-kai"
WAYS = (BESIDE_KAI, "second-scheduler", "one-pod")
"""The first leaves the CRDs of KAI Scheduler as they are; the others, which are overlays, bring ours over them."""
NAMESPACE = "gpuyard"
ACCOUNTS = f"system:serviceaccount:{NAMESPACE}:"
OURS = "kai-scheduler"
TOKEN = tokens.new()
WITH_TLS = ("enableHTTPS", "tlsConfig")
"""Certificates are made by pods: tests/cluster/test_wiring_kind.py shows them. Here both sides have a token."""
PEERS = "queues.scheduling.run.ai,podgroups.scheduling.run.ai"


@pytest.fixture(scope="module")
def cluster(sandbox_names: Iterator[str]) -> Iterator[Cluster]:
    """A sandbox whose kube-scheduler knows nothing of gpuyard, and in which KAI Scheduler was used."""
    name = next(sandbox_names)
    try:
        made = up(Spec(name=name, nodes=2))
        made.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=180s")
        put(made, *peer.CRDS)
        made.kubectl("wait", "--for=condition=established", "--timeout=180s", "crd", "--all")
        put(made, *peer.OBJECTS)
        for each in peer.OBJECTS:
            if "status" in each:
                made.kubectl("replace", "--subresource=status", "-f", "-", stdin=json.dumps(each))
        yield made
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


def put(cluster: Cluster, *things: dict[str, Any]) -> None:
    """Create objects."""
    made = {"apiVersion": "v1", "kind": "List", "items": things}
    cluster.kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(made))


def get(cluster: Cluster, *what: str) -> Any:  # noqa: ANN401 - whatever kubectl prints
    return json.loads(cluster.kubectl("get", *what, "-n", NAMESPACE, "-o", "json"))


def login(cluster: Cluster, account: str, folder: Path) -> Path:
    """A kubeconfig with the rights of a service account."""
    own = yaml.safe_load(cluster.kubeconfig.read_text())
    own["users"][0]["user"] = {"token": cluster.kubectl("create", "token", account, "-n", NAMESPACE).strip()}
    file = folder / f"{account}.kubeconfig"
    file.write_text(yaml.safe_dump(own))
    return file


class Scheduler:
    """The real kube-scheduler with the configuration in the overlay's ConfigMap, asking at a port of this machine."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, extender: int, folder: Path) -> None:
        config = yaml.safe_load(get(cluster, "configmap", "gpuyard-scheduler")["data"]["config.yaml"])
        config["clientConnection"] = {"kubeconfig": str(kubeconfig)}
        url = tokens.with_token(f"http://127.0.0.1:{extender}/scheduler", TOKEN)
        given = config["extenders"][0].items()
        config["extenders"][0] = {key: value for key, value in given if key not in WITH_TLS} | {"urlPrefix": url}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        self._log = folder / "kube-scheduler.log"
        flags = [
            f"--config={folder / 'config.yaml'}",
            "--authentication-skip-lookup=true",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports.free(ports.candidates())}",
        ]
        with self._log.open("wb") as stream:
            self._process = subprocess.Popen([cluster.program("kube-scheduler"), *flags], stdout=stream, stderr=stream)

    def alive(self) -> bool:
        """Whether it runs; what it said last is in the failure."""
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        return True

    def stop(self) -> None:
        """End it, so that its lease is free."""
        self._process.terminate()
        self._process.wait(30)


def install(cluster: Cluster, way: str) -> None:
    """Apply what the documents say."""
    if way == BESIDE_KAI:
        for line in typed_in(DOCS / "install.md", "Where KAI Scheduler is installed"):
            cluster.kubectl(*line.replace("manifests/", f"{MANIFESTS}/").split()[1:])
        cluster.kubectl("apply", "-k", str(MANIFESTS / "base" / "scheduler"))
    else:
        cluster.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / "overlays" / way))
    cluster.kubectl("wait", "--for=condition=established", "--timeout=180s", "crd", "--all")


@pytest.fixture(scope="module")
def theirs(cluster: Cluster) -> dict[str, Any]:
    """What the user of KAI Scheduler has, before anything of gpuyard is there."""
    return objects(cluster)


def objects(cluster: Cluster) -> dict[str, Any]:
    """Each queue and pod group of the peer's user: which it is, what was wanted, and what was noted about groups."""
    found = json.loads(cluster.kubectl("get", PEERS, "-n", "default", "-o", "json"))["items"]
    return {
        f"{one['kind']} {one['metadata']['name']}": (
            one["metadata"]["uid"],
            one["spec"],
            one["kind"] == "PodGroup" and one["status"],
        )
        for one in found
        if one["kind"] == "PodGroup" or one["metadata"]["name"].startswith("research")
    }


@pytest.fixture(scope="module", params=WAYS)
def wired(
    cluster: Cluster,
    theirs: dict[str, Any],  # noqa: ARG001 - looked at first
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """One way after the other, applied; extender and kube-scheduler run with the rights of their pods."""
    folder, port = tmp_path_factory.mktemp(request.param), ports.free(ports.candidates())
    install(cluster, request.param)
    (subject,) = get(cluster, "rolebinding", "gpuyard-scheduler")["subjects"]
    (folder / tokens.TOKEN).write_text(TOKEN)
    extender = Daemon(
        "extender",
        login(cluster, "gpuyard-extender", folder),
        folder / "extender.log",
        f"--port={port}",
        "--host=127.0.0.1",
        f"--token={folder}",
    )
    scheduler = Scheduler(cluster, login(cluster, subject["name"], folder), port, folder)
    eventually(lambda: extender.ready() and scheduler.alive(), within=120)
    yield request.param
    scheduler.stop()
    extender.stop()


@pytest.fixture
def yard(cluster: Cluster, wired: str, request: pytest.FixtureRequest) -> Iterator[Yard]:
    name = f"t-{abs(hash(request.node.nodeid)):x}-{wired[:3]}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s", "--namespace", name)
    yield Yard(cluster, name)
    with cluster.api() as api:
        api.delete_all(f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")


def test_pods_that_name_it_go_by_their_queue(yard: Yard) -> None:
    queue = yard.queue("team", limit=1)
    yard.submit("first", queue=queue, schedulerName=OURS)
    yard.until(lambda: "first" in yard.placed(), 90, "the first pod runs")
    yard.submit("second", queue=queue, schedulerName=OURS)
    yard.until(lambda: "limit of 1 GPU" in yard.verdicts().get("second", ""), 60, "the second one is refused")
    assert "second" not in yard.placed()


def test_pods_that_do_not_go_by_the_clusters_own(yard: Yard) -> None:
    yard.submit("plain", gpus=0)
    yard.until(lambda: "plain" in yard.placed(), 60, "it runs")
    made = yard.cluster.kubectl("get", "events", "-n", yard.namespace, "-o", "json")
    by = {event["reportingComponent"] for event in json.loads(made)["items"] if event["reason"] == "Scheduled"}
    assert by == {"default-scheduler"}


def test_both_have_the_rights_that_they_use(yard: Yard) -> None:
    queue = yard.queue("rights")
    yard.submit("pod", queue=queue, schedulerName=OURS)
    yard.until(lambda: "pod" in yard.placed(), 90, "it runs")
    events = [json.loads(line) for line in yard.cluster.audit_log.read_text().splitlines()]
    ours = [event for event in events if event["user"]["username"].startswith(ACCOUNTS)]
    assert len(ours) > 10
    refused = {
        (event["user"]["username"], event["verb"], event["requestURI"].partition("?")[0])
        for event in ours
        if event.get("responseStatus", {}).get("code") in (401, 403)
    }
    assert refused == set()


# --- what a user of KAI Scheduler has ---


@pytest.fixture
def default(cluster: Cluster, wired: str) -> Iterator[Yard]:  # noqa: ARG001 - it is installed
    """The namespace with the peer's pod groups."""
    yield (made := Yard(cluster, "default"))
    with cluster.api() as api:
        api.delete_all("/api/v1/namespaces/default/pods?gracePeriodSeconds=0")
    made.until(lambda: not made.pods(), 90, "its pods are gone")


def test_objects_of_kai_scheduler_are_kept_as_they_are(cluster: Cluster, wired: str, theirs: dict[str, Any]) -> None:
    assert len(theirs) == 4
    assert objects(cluster) == theirs
    # Nor does it matter that somebody applies his files once more.
    again = {"apiVersion": "v1", "kind": "List", "items": peer.OBJECTS}
    cluster.kubectl("apply", "--validate=strict", "-f", "-", stdin=json.dumps(again))
    assert objects(cluster) == theirs
    crd = json.loads(cluster.kubectl("get", "crd", "queues.scheduling.run.ai", "-o", "json"))
    assert ("app.kubernetes.io/part-of" in crd["metadata"].get("labels", {})) == (wired != BESIDE_KAI)


def test_queues_and_pod_groups_of_kai_scheduler_hold(default: Yard) -> None:
    members = {f"whole-{number}" for number in range(peer.LIMIT)}
    default.apply(peer.pod("short-0", "short"), peer.pod("short-1", "short"))
    default.until(
        lambda: "gang needs 3 pods" in default.verdicts().get("short-0", ""), 90, "a gang waits for its third"
    )
    default.apply(*(peer.pod(name, "whole") for name in members))
    default.until(lambda: default.placed() == members, 90, "a whole gang runs")
    default.apply(peer.pod("beyond"))
    default.until(lambda: "limit of 3 GPUs" in default.verdicts().get("beyond", ""), 90, "one more is refused")
    assert default.placed() == members


def test_queues_of_kai_scheduler_tell_what_they_hold(default: Yard) -> None:
    default.apply(*(peer.pod(f"whole-{number}", "whole") for number in range(peer.LIMIT)))

    def held(name: str) -> str:
        status = json.loads(default.cluster.kubectl("get", "queues.scheduling.run.ai", name, "-o", "json"))
        return status.get("status", {}).get("allocated", {}).get("nvidia.com/gpu", "")  # type: ignore[no-any-return]

    default.until(lambda: (held("research"), held("research-a")) == ("3", "3"), 90, "both levels are told")
