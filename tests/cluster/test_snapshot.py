"""`gpuyard snapshot load`: a sandbox stands as the cluster did whose snapshot was saved."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox.demo.stage import set_up
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.lifecycle import down

from tests.cluster.yard import Yard
from tests.mock.daemons import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuyard.sandbox import Cluster

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(900)]

Json = dict[str, Any]
OTHERS = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "of-somebody-else"}}


@pytest.fixture(scope="module")
def other(sandbox_names: Iterator[str]) -> Iterator[Cluster]:
    """An empty sandbox whose kube-scheduler asks the extender."""
    name = next(sandbox_names)
    try:
        yield set_up(name, print, nodes=0)
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


@pytest.fixture(scope="module")
def saved(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A snapshot of two teams: one is at its limit and one of its pods waits; a node is cordoned."""
    name = next(sandbox_names)
    path = tmp_path_factory.mktemp("snapshot") / "cluster.json"
    try:
        yard = Yard(set_up(name, print, nodes=2), "team")
        yard.cluster.kubectl("create", "namespace", "team")
        yard.cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=180s", "-n", "team")
        yard.submit("runs", "too", queue=yard.queue("a", quota=4, limit=4), gpus=2)
        yard.submit("other", queue=yard.queue("b", quota=8), gpus=8)
        yard.until(lambda: yard.placed() == {"runs", "too", "other"}, 180, "three pods run")
        yard.submit("waits", queue="team-a", gpus=2)
        yard.cluster.kubectl("cordon", yard.one("other")["spec"]["nodeName"])
        yard.until(lambda: "waits" in yard.verdicts(), 180, "the fourth is refused")
        gpuyard(yard.cluster, "snapshot", "save", str(path))
        yield path
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


def gpuyard(cluster: Cluster, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "gpuyard.cli", *arguments, f"--kubeconfig={cluster.kubeconfig}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def load(cluster: Cluster, path: Path) -> Json:
    found: Json = json.loads(gpuyard(cluster, "snapshot", "load", str(path), "-o", "json"))
    return found


def plan(*arguments: str) -> Json:
    command = [sys.executable, "-m", "gpuyard.cli", "plan", "-o", "json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found: Json = json.loads(done.stdout)
    return found


def places(cluster: Cluster) -> dict[str, str]:
    pods = json.loads(cluster.kubectl("get", "pods", "-n", "team", "-o", "json"))["items"]
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}


def test_a_loaded_snapshot_stands_as_its_cluster_did_and_again_changes_nothing(other: Cluster, saved: Path) -> None:
    first = load(other, saved)
    assert (first["refused"], first["made"]["Pod"], first["made"]["Node"], first["made"]["Queue"]) == ([], 4, 2, 2)
    before = plan("-f", str(saved))
    eventually(lambda: plan("--live", f"--kubeconfig={other.kubeconfig}")["queues"] == before["queues"], within=180)
    after = plan("--live", f"--kubeconfig={other.kubeconfig}")
    assert after["pending"]["team/waits"]["reason"] == before["pending"]["team/waits"]["reason"] == "OverLimit"
    stood = places(other)
    assert {pod: before["final"][f"team/{pod}"].get("node", "") for pod in stood} == stood

    second = load(other, saved)
    assert (second["refused"], second["made"], second["thereAlready"]["Pod"]) == ([], {}, 4)
    assert places(other) == stood


def test_kube_scheduler_goes_on_with_what_waits(other: Cluster, saved: Path) -> None:
    load(other, saved)
    other.kubectl("patch", "queues.scheduling.run.ai", "team-a", "--type=merge",
                  "--patch", json.dumps({"spec": {"resources": {"gpu": {"limit": 6}}}}))  # fmt: skip
    eventually(lambda: places(other)["waits"], within=180)


def snapshot_of(path: Path, *things: Json) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    return path


@pytest.mark.row("B-37", case="live")
def test_a_pod_that_waited_since_before_the_others_ran_gets_nothing_of_what_they_hold(
    other: Cluster, tmp_path: Path
) -> None:
    gpu = {"quota": 4, "limit": 4}
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "full"}}
    has = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "256Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "full-node"}}
    asks = [{"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]

    def pod(name: str, created: str, **spec: str) -> Json:
        meta: Json = {"name": name, "namespace": "full", "creationTimestamp": created}
        meta["labels"] = {"kai.scheduler/queue": "full"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": asks, **spec}}

    empty = (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}},
        queue | {"spec": {"resources": {"gpu": gpu}}},
        node | {"status": {"allocatable": has, "capacity": has, "conditions": ready}},
    )
    waits = pod("waits", "2026-01-01T08:00:00Z")
    run = [pod(name, "2026-03-01T08:00:00Z", nodeName="full-node") for name in ("runs", "too")]
    load(other, snapshot_of(tmp_path / "empty.json", *empty))
    other.kubectl("wait", "node/full-node", "--for=condition=Ready", "--timeout=120s")
    eventually(lambda: not json.loads(other.kubectl("get", "node", "full-node", "-o", "json"))["spec"].get("taints"))
    assert load(other, snapshot_of(tmp_path / "full.json", *empty, waits, *run))["refused"] == []
    yard = Yard(other, "full")
    yard.until(lambda: "waits" in yard.verdicts() or "waits" in yard.placed(), 180, "kube-scheduler has asked about it")
    yard.rests(lambda: yard.placed() == {"runs", "too"}, 5, "and it waits")
    other.kubectl("delete", "namespace", "full", "--wait=false")


def test_a_cluster_that_is_no_sandbox_is_left_alone(other: Cluster, saved: Path) -> None:
    other.kubectl("create", "-f", "-", stdin=json.dumps(OTHERS))
    try:
        said = gpuyard(other, "snapshot", "load", str(saved), code=2)
        assert (
            "this cluster is not a sandbox: node of-somebody-else is not made by one; --force loads the snapshot"
            in said
        )
        gpuyard(other, "snapshot", "load", "--force", str(saved))
    finally:
        other.kubectl("delete", "node", "of-somebody-else")


def test_what_the_api_server_does_not_take_is_named_and_the_rest_is_made(other: Cluster, tmp_path: Path) -> None:
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
    bad = queue | {"metadata": {"name": "bad"}, "spec": {"resources": {"gpu": {"quota": -2}}}}
    good = queue | {"metadata": {"name": "good"}, "spec": {"resources": {}}}
    path = tmp_path / "queues.json"
    path.write_text(json.dumps([bad, good]))
    said = gpuyard(other, "snapshot", "load", str(path), code=1)
    assert ("made: 1 Queue" in said, "Queue bad: " in said, "must be -1" in said) == (True, True, True)
