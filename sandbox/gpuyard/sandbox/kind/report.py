"""What can be said about a kind sandbox, in the words of `gpuyard sandbox status`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import yaml
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.kind import cluster as clusters

if TYPE_CHECKING:
    from pathlib import Path

    from gpuyard.sandbox.folders import Folders


def report(name: str, *, folders: Folders | None = None) -> dict[str, Any]:
    """Everything that can be said about a sandbox; its components are its nodes."""
    cluster = clusters.find(name, folders=folders)
    if cluster is None:
        return {"name": name, "ground": "kind", "state": "broken", "components": []}
    nodes: dict[str, str] = {}
    with contextlib.suppress(SandboxError):  # the engine is gone
        nodes = cluster.nodes
    return {
        "name": name,
        "ground": "kind",
        "state": "up" if nodes and cluster.answers() else "degraded",
        "kubeconfig": str(cluster.kubeconfig),
        "apiUrl": server(cluster.kubeconfig),
        "auditLog": str(cluster.audit_log),
        "engine": cluster.docker.name,
        "folder": str(cluster.folder),
        "components": [
            {"name": node, "state": state, "pid": None, "port": None, "log": f"docker logs {node}"}
            for node, state in nodes.items()
        ],
    }


def server(kubeconfig: Path) -> str:
    """Where a kubeconfig says that the API server listens; nothing if there is none yet."""
    try:
        return str(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    except (OSError, TypeError, ValueError, LookupError, RecursionError, yaml.YAMLError):
        return ""
