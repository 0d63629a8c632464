"""A big cluster as `kubectl get nodes,pods,queues.scheduling.run.ai -A -o json` writes it."""

import json
from typing import Any

Json = dict[str, Any]

BORN = "2026-01-{day:02}T{hour:02}:{minute:02}:00Z"


def written(nodes: int, pods: int) -> bytes:
    """A cluster of 20 teams, full of one-GPU pods of Jobs of eight."""
    items = [_node(n) for n in range(nodes)] + [_queue(n) for n in range(20)] + [_pod(n, nodes) for n in range(pods)]
    return json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}
    ).encode()


def _born(n: int) -> str:
    return BORN.format(day=1 + n % 28, hour=n % 24, minute=n % 60)


def _node(n: int) -> Json:
    have = {"cpu": "192", "memory": "2113546336Ki", "nvidia.com/gpu": "16", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"node-{n:04}", "nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.count": "16"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{n:04}", "labels": labels, "uid": f"n-{n}", "creationTimestamp": _born(n)},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"allocatable": have, "capacity": have, "conditions": [_condition("Ready")], "images": []},
    }


def _queue(n: int) -> Json:
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": f"team-{n:02}", "creationTimestamp": _born(n)},
        "spec": {"resources": {"gpu": {"quota": 2500, "limit": -1}}},
    }


def _condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _born(0)}


def _pod(n: int, nodes: int) -> Json:
    job = f"train-{n // 8:05}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"j-{n // 8}", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job}-{n % 8}",
            "generateName": f"{job}-",
            "namespace": f"team-{n % 20:02}",
            "uid": f"0f3c1a52-7c1e-4d4b-9a53-{n:012}",
            "resourceVersion": str(n),
            "creationTimestamp": _born(n),
            "labels": {"kai.scheduler/queue": f"team-{n % 20:02}", "batch.kubernetes.io/job-name": job, "app": "train"},
            "annotations": {"kubectl.kubernetes.io/default-container": "main"},
            "ownerReferences": [owner | {"blockOwnerDeletion": True}],
        },
        "spec": _spec(n, nodes),
        "status": _status(n),
    }


def _spec(n: int, nodes: int) -> Json:
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}}
    token = {"name": f"kube-api-access-{n:05}", "mountPath": "/var/run/secrets/token", "readOnly": True}
    container = {
        "name": "main",
        "image": "example.com/train:1",
        "command": ["python", "-m", "train"],
        "env": [{"name": "EPOCHS", "value": "3"}],
        "resources": resources,
        "volumeMounts": [token],
    }
    aged = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for what in ("not-ready", "unreachable")
    ]
    return {
        "containers": [container],
        "nodeName": f"node-{n % nodes:04}",
        "priority": 50,
        "priorityClassName": "train",
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "tolerations": aged,
        "volumes": [{"name": token["name"], "projected": {"defaultMode": 420, "sources": []}}],
    }


def _status(n: int) -> Json:
    running = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": _born(n)}}}
    return {
        "phase": "Running",
        "conditions": [_condition(kind) for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
        "containerStatuses": [running | {"containerID": f"containerd://{n:064}"}],
        "podIP": f"10.{n // 65536}.{n // 256 % 256}.{n % 256}",
        "startTime": _born(n),
    }
