"""What is in a cluster."""

from __future__ import annotations

import json
from typing import Protocol

from gpuyard.sandbox import SandboxError

PASSING = {"events", "events.events.k8s.io", "leases.coordination.k8s.io"}


class Asked(Protocol):
    """A sandbox on either ground."""

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints."""


def everything(cluster: Asked) -> set[str]:
    """Every object that lasts, of whatever kind; nothing if kinds went while they were read."""
    kinds = cluster.kubectl("api-resources", "--verbs=list,delete", "-o", "name").split()
    names = ",".join(sorted({*kinds} - PASSING))
    try:
        found = cluster.kubectl("get", names, "-A", "--ignore-not-found", "-o", "json")
    except SandboxError:
        return set()
    return {
        f"{one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}"
        for one in json.loads(found)["items"]
    }
