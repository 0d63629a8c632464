"""Builders: pods and cluster nodes as the API server would send them."""

from typing import Any

import msgspec
from gpuyard.common.topology.cluster_node import DECODER as NODE_DECODER
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.status_updater.pods import Pod

GPU = "nvidia.com/gpu"
_POD = msgspec.json.Decoder(Pod)
Json = dict[str, Any]


def container(name: str = "c", gpus: int = 1, resource: str = GPU, **more: str) -> Json:
    limits = {resource: str(gpus)} if gpus else {}
    return {"name": name, "resources": {"limits": limits}, **more}


def sidecar(name: str = "side", gpus: int = 1) -> Json:
    return container(name, gpus, restartPolicy="Always")


def running(name: str = "c", *devices: str, started: str = "2026-01-01T00:00:00Z", resource: str = GPU) -> Json:
    given = [{"name": resource, "resources": [{"resourceID": d, "health": "Healthy"} for d in devices]}]
    return {
        "name": name,
        "state": {"running": {"startedAt": started}},
        "allocatedResourcesStatus": given if devices else [],
    }


def waiting(name: str = "c", *devices: str) -> Json:
    return running(name, *devices) | {"state": {"waiting": {"reason": "PodInitializing"}}}


def finished(name: str = "c", *devices: str) -> Json:
    return running(name, *devices) | {"state": {"terminated": {"exitCode": 0}}}


def pod(  # noqa: PLR0917
    name: str = "p",
    containers: list[Json] | None = None,
    phase: str = "Running",
    node: str = "n",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    inits: list[Json] | None = None,
    statuses: list[Json] | None = None,
    init_statuses: list[Json] | None = None,
    namespace: str = "ns",
    uid: str = "",
    age: int = 0,
) -> Pod:
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "creationTimestamp": f"2026-01-01T00:{age:02}:00Z",
        "annotations": annotations,
        "labels": labels,
    }
    written = [container()] if containers is None else containers
    spec = {"nodeName": node, "containers": written, "initContainers": inits or []}
    status = {
        "phase": phase,
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": statuses or [],
        "initContainerStatuses": init_statuses or [],
    }
    return _POD.decode(msgspec.json.encode({"metadata": meta, "spec": spec, "status": status}))


def cluster_node(
    name: str = "n",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    capacity: dict[str, str] | None = None,
    *,
    kwok: bool = True,
    ready: bool = True,
) -> ClusterNode:
    status = {
        "capacity": capacity or {},
        "allocatable": capacity or {},
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        "nodeInfo": {"containerRuntimeVersion": "kwok" if kwok else "containerd://2.2.1"},
    }
    meta = {"name": name, "uid": f"uid-{name}", "labels": labels, "annotations": annotations}
    return NODE_DECODER.decode(msgspec.json.encode({"metadata": meta, "status": status}))
