"""What users apply, applied: the extender's Deployment answers the control plane's kube-scheduler."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import SandboxError, Spec, kind
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import product
from gpuyard.sandbox.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.ground("kind"), pytest.mark.timeout(1800)]

MANIFESTS = Path(__file__).parents[2] / "manifests"
GPUS = 4
ACCOUNTS = "system:serviceaccount:gpuyard"


def eventually(check: Callable[[], object], within: float = 60) -> None:
    """Wait until the check holds; what it last was is in the failure."""
    deadline = time.monotonic() + within
    while not (last := check()):
        assert time.monotonic() < deadline, f"still {last!r} after {within} s"
        time.sleep(0.5)


def pod(name: str, queue: str, gpus: int) -> str:
    container = {
        "name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }  # fmt: skip
    meta = {"name": name, "labels": {"kai.scheduler/queue": queue}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})


def topology(node: str) -> str:
    document = {"nodes": {node: {"gpu-memory": 40960, "gpu-product": "NVIDIA-A100-SXM4-40GB", "gpus": [{}] * GPUS}}}
    meta = {"name": "topology", "namespace": "gpuyard-mock"}
    data = {"topology.yml": json.dumps(document)}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})


@pytest.fixture(scope="module")
def cluster(sandbox_names: Iterator[str]) -> Iterator[kind.Cluster]:
    """A kind sandbox with one worker, to which all that users apply is applied, and two queues."""
    name = next(sandbox_names)
    try:
        made = kind.up(Spec(name=name, nodes=1))
        made.load(product.build(made.docker, Folders.of_user(), Progress()))
        crds = str(MANIFESTS / "crds")
        made.kubectl("apply", "--server-side", "-f", crds)
        made.kubectl("wait", "--for=condition=established", "--timeout=30s", "-f", crds)
        made.kubectl("apply", "-k", str(MANIFESTS / "overlays" / "kind"))
        made.kubectl("apply", "-f", "-", stdin=topology(worker_of(made)))
        made.kubectl("apply", "-f", str(MANIFESTS / "samples" / "quickstart" / "1-queues.yaml"))
        made.kubectl("patch", "queues.scheduling.run.ai", "red", "--type=merge", "--patch", limit(2))
        made.kubectl("-n", "gpuyard", "rollout", "status", "deployment/gpuyard-extender", "--timeout=180s")
        yield made
    except SandboxError as error:
        pytest.fail(f"gpuyard cannot be applied on kind: {error}", pytrace=False)
    finally:
        kind.down(name)


def worker_of(cluster: kind.Cluster) -> str:
    return next(node for node in cluster.nodes if node.endswith("worker"))


def limit(gpus: int) -> str:
    return json.dumps({"spec": {"resources": {"gpu": {"quota": 0, "limit": gpus}}}})


def placed(cluster: kind.Cluster) -> dict[str, bool]:
    pods = json.loads(cluster.kubectl("get", "pods", "--output", "json"))["items"]
    return {one["metadata"]["name"]: "nodeName" in one["spec"] for one in pods}


def phase_of(name: str) -> tuple[str, ...]:
    return ("get", "pod", name, "--output", "jsonpath={.status.phase}")


def audit(cluster: kind.Cluster) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in cluster.audit_log.read_text().splitlines())


def phases(cluster: kind.Cluster, namespace: str) -> dict[str, set[str]]:
    """Each component of ours: the phases and readiness of its pods."""
    pods = json.loads(cluster.kubectl("get", "pods", "--namespace", namespace, "--output", "json"))["items"]
    found: dict[str, set[str]] = {}
    for one in pods:
        ready = all(each["ready"] for each in one["status"].get("containerStatuses", [{"ready": False}]))
        component = one["metadata"]["labels"]["app.kubernetes.io/component"]
        found.setdefault(component, set()).add(f"{one['status']['phase']} {'ready' if ready else 'not ready'}")
    return found


def test_kubelet_offers_the_gpus_of_the_topology(cluster: kind.Cluster) -> None:
    offer = ("get", "node", worker_of(cluster), "--output", r"jsonpath={.status.allocatable.nvidia\.com/gpu}")
    eventually(lambda: cluster.kubectl(*offer) == str(GPUS), within=120)


def test_every_component_comes_up(cluster: kind.Cluster) -> None:
    eventually(lambda: phases(cluster, "gpuyard") == {"extender": {"Running ready"}})
    eventually(lambda: set().union(*phases(cluster, "gpuyard-mock").values()) == {"Running ready"}, within=120)


def test_the_default_scheduler_places_gpu_pods_up_to_the_queues_limit(cluster: kind.Cluster) -> None:
    for name in ("one", "two", "three"):
        cluster.kubectl("create", "-f", "-", stdin=pod(name, "red", 1))
        eventually(lambda name=name: name == "three" or placed(cluster)[name])  # type: ignore[misc]
    reason = ("get", "pod", "three", "--output", "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}")
    eventually(lambda: "red" in cluster.kubectl(*reason))
    assert placed(cluster) == {"one": True, "two": True, "three": False}
    eventually(lambda: all(cluster.kubectl(*phase_of(name)) == "Running" for name in ("one", "two")))


def test_a_higher_limit_lets_the_waiting_pod_run(cluster: kind.Cluster) -> None:
    cluster.kubectl("patch", "queues.scheduling.run.ai", "red", "--type=merge", "--patch", limit(3))
    eventually(lambda: placed(cluster)["three"])


def test_every_component_has_the_rights_it_uses(cluster: kind.Cluster) -> None:
    ours = [event for event in audit(cluster) if event["user"]["username"].startswith(ACCOUNTS)]
    assert len({event["user"]["username"] for event in ours}) > 1
    refused = {(event["user"]["username"], event["verb"], event["requestURI"]) for event in ours if refusal(event)}
    assert refused == set()


def refusal(event: dict[str, Any]) -> bool:
    return event.get("responseStatus", {}).get("code") in (401, 403)


def test_the_extender_ends_within_its_grace_period_when_told(cluster: kind.Cluster) -> None:
    begin = time.monotonic()
    cluster.kubectl("-n", "gpuyard", "delete", "pod", "-l", "app.kubernetes.io/component=extender")
    assert time.monotonic() - begin < 12
    cluster.kubectl("-n", "gpuyard", "rollout", "status", "deployment/gpuyard-extender", "--timeout=60s")
