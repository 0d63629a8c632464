"""The nodes of a sandbox: objects with GPUs in their status, kept Ready by KWOK."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuyard.sandbox.api import Api
    from gpuyard.sandbox.spec import Spec

GPU = "nvidia.com/gpu"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SANDBOX_LABEL = "gpuyard.io/sandbox"


def create(api: Api, spec: Spec, version: str, now: dt.datetime) -> None:
    """Create the nodes that are missing; no node is changed or removed."""
    there = {node["metadata"]["name"] for node in api.items(NODES)}
    for index in range(1, spec.nodes + 1):
        if f"node-{index}" not in there:
            api.create(NODES, node(index, spec, version, now))


def node(index: int, spec: Spec, version: str, now: dt.datetime) -> dict[str, Any]:
    """A node as kubelet would register it, with all its GPUs from the first moment."""
    name = f"node-{index}"
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    if spec.gpus:
        room[GPU] = str(spec.gpus)
    stamp = now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                SANDBOX_LABEL: spec.name,
            },
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "addresses": [
                {"type": "InternalIP", "address": f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "played by KWOK",
                    "lastHeartbeatTime": stamp,
                    "lastTransitionTime": stamp,
                }
            ],
            "nodeInfo": {
                "kubeletVersion": version,
                "kubeProxyVersion": "",
                "containerRuntimeVersion": "kwok",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "osImage": "",
                "kernelVersion": "",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }


def forget_leases(api: Api) -> None:
    """Delete the leases of all nodes, before KWOK starts.

    Each KWOK process calls itself by another name and leaves alone what an earlier one holds until that runs out:
    for so long new pods would stay Pending.
    """
    api.delete_all(LEASES)


def unready(api: Api) -> list[str]:
    """The nodes that cannot take pods yet: not Ready, tainted so, or not yet taken over by KWOK."""
    held = {lease["metadata"]["name"] for lease in api.items(LEASES)}
    return [name for node in api.items(NODES) if (name := node["metadata"]["name"]) not in held or not _open(node)]


def told(api: Api) -> str:
    """What nodes there are, of this `up` or of an earlier one: `4 nodes with 8 GPUs each`."""
    found = Counter(node["status"].get("capacity", {}).get(GPU, "0") for node in api.items(NODES))
    parts = [f"{n} nodes with {gpus} GPUs each" if n > 1 else f"1 node with {gpus} GPUs" for gpus, n in found.items()]
    return ", ".join(parts) or "no nodes"


def _open(node: dict[str, Any]) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return ready and "node.kubernetes.io/not-ready" not in taints
