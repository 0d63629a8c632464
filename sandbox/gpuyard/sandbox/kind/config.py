"""Everything kind, kubeadm, kube-scheduler and the API server are told, as values.

The default scheduler is wired to our extender, whose Service has a fixed address: so the configuration can be written
before the Service is there. The API server keeps an audit log; kubelets report every 2 s.

Decided in docs/decisions.md: "A pod address that nobody has leads nowhere".
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import yaml
from gpuyard.common import tokens
from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from gpuyard.sandbox.spec import Spec

EXTENDER = "http://10.96.0.77:8080/scheduler"
PROFILES = ("default-scheduler", "kai-scheduler")
WAITS = ("controlPlaneComponentHealthCheck", "kubeletHealthCheck", "kubernetesAPICall", "tlsBootstrap")
SECRET_LABELS = {"name": "gpuyard", "part-of": "gpuyard", "instance": "extender"}
MANAGED = {"nvidia.com/gpu": False, "gpuyard.io/shared-gpu": True}

# Folders of the control-plane node; the first is ours to write, the second the API server's.
SETTINGS = "/etc/gpuyard"
LOGS = "/var/log/gpuyard"
SCHEDULER_KUBECONFIG = "/etc/kubernetes/scheduler.conf"

Value = dict[str, Any]


def kind_name(name: str) -> str:
    """The cluster's name in the engine, which may hold clusters that are not ours."""
    return f"gpuyard-{name}"


def label(name: str) -> str:
    """The filter that chooses the sandbox's nodes among an engine's containers."""
    return f"label=io.x-k8s.kind.cluster={kind_name(name)}"


def cluster(spec: Spec, image: str, folder: Path) -> Value:
    """The kind configuration: one control plane and the wanted workers; `folder` holds the two shared folders."""
    mounts = [
        {"hostPath": str(folder / "settings"), "containerPath": SETTINGS, "readOnly": True},
        {"hostPath": str(folder / "logs"), "containerPath": LOGS},
    ]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": kind_name(spec.name),
        "kubeadmConfigPatches": [yaml.safe_dump(patch) for patch in patches(spec)],
        "nodes": [
            {"role": "control-plane", "image": image, "extraMounts": mounts},
            *({"role": "worker", "image": image} for _ in range(spec.nodes)),
        ],
    }


def patches(spec: Spec) -> list[Value]:
    """What kind shall change in the documents that it gives to kubeadm."""
    return [control_plane(spec.api_server_flags), kubelet(), *(patience(kind) for kind in ("Init", "Join"))]


def patience(kind: str) -> Value:
    """Kubeadm gives up after a minute or four; on a busy machine a node takes longer and then works."""
    return {"kind": f"{kind}Configuration", "timeouts": dict.fromkeys(WAITS, "10m0s")}


def control_plane(api_server_flags: Iterable[str] = ()) -> Value:
    """Kubeadm's part: where scheduler and API server find their files; flags are written `--name=value`."""
    files = {"audit-policy-file": f"{SETTINGS}/audit-policy.yaml", "audit-log-path": f"{LOGS}/audit.log"}
    return {
        "kind": "ClusterConfiguration",
        "scheduler": {
            "extraArgs": {"config": f"{SETTINGS}/scheduler.yaml"},
            "extraVolumes": [_volume("gpuyard-settings", SETTINGS, read_only=True)],
        },
        "apiServer": {
            "extraArgs": {**files, "audit-log-maxsize": "200", "audit-log-maxbackup": "1", **flags(api_server_flags)},
            "extraVolumes": [
                _volume("gpuyard-settings", SETTINGS, read_only=True),
                _volume("gpuyard-logs", LOGS, read_only=False),
            ],
        },
    }


def flags(api_server_flags: Iterable[str]) -> dict[str, str]:
    """The flags by name, as kubeadm wants them; one that has no value is a SandboxError."""
    pairs = [flag.removeprefix("--").partition("=") for flag in api_server_flags]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise SandboxError(
                "API server flags", f"--{name} has no value", remedy="On this ground write each as --name=value."
            )
    return {name: value for name, _, value in pairs}


def kubelet() -> Value:
    """Kubelet's part. Without the last key it refuses to start on machines that still have cgroup v1."""
    return {"kind": "KubeletConfiguration", "nodeStatusUpdateFrequency": "2s", "failCgroupV1": False}


def scheduler(token: str, source: Value | None = None, url: str = "") -> Value:
    """The default scheduler's configuration: `source`, else ours, with the token that our extender asks for.

    `url` is where the extenders of a source listen.
    """
    configuration = {**(source or ours(token))}
    client = {**configuration.get("clientConnection", {}), "kubeconfig": SCHEDULER_KUBECONFIG}
    if url:
        secret = tokens.with_token(url, token)
        configuration["extenders"] = [{**one, "urlPrefix": secret} for one in configuration.get("extenders", [])]
    return {**configuration, "clientConnection": client}


def ours(token: str) -> Value:
    """The scheduler configuration with our extender behind its Service; both profiles share it."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": name} for name in PROFILES],
        "extenders": [
            {
                "urlPrefix": tokens.with_token(EXTENDER, token),
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "weight": 10,
                "httpTimeout": "2s",
                "nodeCacheCapable": True,
                "ignorable": False,
                "managedResources": [{"name": name, "ignoredByScheduler": hidden} for name, hidden in MANAGED.items()],
            }
        ],
    }


def secret(held: Mapping[str, bytes]) -> list[Value]:
    """The extender's Secret with its tokens by key, and the namespace, so that both may be applied before all else."""
    namespace = {"name": "gpuyard", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    labels = {f"app.kubernetes.io/{key}": value for key, value in SECRET_LABELS.items()}
    meta = {"name": tokens.SECRET, "namespace": "gpuyard", "labels": labels}
    data = {key: base64.b64encode(value).decode() for key, value in held.items()}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace},
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data},
    ]


def tokens_of(data: Mapping[str, str]) -> dict[str, bytes]:
    """What such a Secret holds; KeyError if it has no token."""
    held = {key: base64.b64decode(data[key]) for key in (tokens.TOKEN, tokens.PREVIOUS) if key in data}
    return {tokens.TOKEN: held[tokens.TOKEN], **held}


def _volume(name: str, path: str, *, read_only: bool) -> Value:
    return {"name": name, "hostPath": path, "mountPath": path, "pathType": "Directory", "readOnly": read_only}
