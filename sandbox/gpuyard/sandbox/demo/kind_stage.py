"""Sets the demo up on kind: the image and manifests that users get, and as many GPUs as on the other ground."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from gpuyard.sandbox import kind
from gpuyard.sandbox.demo.stage import manifests
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import product
from gpuyard.sandbox.spec import Spec

if TYPE_CHECKING:
    from gpuyard.sandbox.releases import Say

WORKERS, GPUS = 4, 8
OFFERED_WITHIN = 300.0
POLL = 0.5
ROLLED_OUT = "--timeout=300s"


def set_up(name: str, say: Say) -> kind.Cluster:
    """Make the demo's sandbox run, with gpuyard and the mock GPU stack applied; what is there already stays."""
    folders = Folders.of_user()
    cluster = kind.up(Spec(name=name, nodes=WORKERS), say=say, folders=folders)
    cluster.load(product.build(cluster.docker, folders, say))
    say("gpuyard and the mock GPU stack are applied: kubectl apply -k manifests/overlays/kind")
    cluster.give_token()
    cluster.kubectl("apply", "-k", str(manifests() / "overlays" / "kind"))
    cluster.kubectl("wait", "--for=condition=established", "--timeout=90s", "crd", "--all")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(topology(cluster)))
    cluster.kubectl("rollout", "status", "deployment/gpuyard-extender", "--namespace=gpuyard", ROLLED_OUT)
    _wait_offered(cluster)
    say(f"{WORKERS} nodes with {GPUS} mock GPUs each, offered by kubelet; kube-scheduler asks gpuyard")
    return cluster


def topology(cluster: kind.Cluster) -> dict[str, object]:
    """The ConfigMap that gives every worker its GPUs."""
    gpus = {"gpu-memory": 40960, "gpu-product": "NVIDIA-A100-SXM4-40GB", "gpus": [{}] * GPUS}
    document = {"nodes": dict.fromkeys(_workers(cluster), gpus)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "topology", "namespace": "gpuyard-mock"},
        "data": {"topology.yml": json.dumps(document)},
    }


def _workers(cluster: kind.Cluster) -> list[str]:
    return [node for node in cluster.nodes if not node.endswith("control-plane")]


def _wait_offered(cluster: kind.Cluster) -> None:
    """Wait until every worker's kubelet offers the GPUs."""
    ask = ("get", "nodes", *_workers(cluster), "--output", r"jsonpath={.items[*].status.allocatable.nvidia\.com/gpu}")
    deadline = time.monotonic() + OFFERED_WITHIN
    while cluster.kubectl(*ask).split() != [str(GPUS)] * WORKERS:
        if time.monotonic() > deadline:
            raise SandboxError(
                "mock GPUs",
                f"kubelet does not offer them within {OFFERED_WITHIN:.0f} s",
                remedy="Look at `kubectl get pods --namespace gpuyard-mock`.",
            )
        time.sleep(POLL)
