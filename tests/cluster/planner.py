"""How tests of the planner look at what it did, and give it settings."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuyard.sandbox.demo.stage import start_extender

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuyard.sandbox import Cluster

    from tests.cluster.yard import Json, Yard

HEAD = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n"


def evicted(yard: Yard) -> list[str]:
    """The pods of this test whose eviction was accepted, once for each time."""
    events = yard.audit("create", "pods", subresource="eviction")
    done = (one for one in events if "dryRun" not in one["requestURI"])
    return [one["objectRef"]["name"] for one in done if one.get("responseStatus", {}).get("code") == 201]


def plans_for(yard: Yard, queue: str) -> list[Json]:
    """The plans that were made for a queue."""
    found = json.loads(yard.cluster.kubectl("get", "plans.gpuyard.io", "-o", "json"))
    return [plan for plan in found["items"] if plan["spec"].get("queue") == queue]


def states_of(yard: Yard, queue: str) -> list[str]:
    """How the plans for a queue stand."""
    return [plan.get("status", {}).get("state", "Running") for plan in plans_for(yard, queue)]


@contextmanager
def with_settings(cluster: Cluster, settings: str, *, move_bare_pods: bool = True) -> Iterator[None]:
    """The extender with settings of its own; afterwards it runs with those of the demo again."""
    file = cluster.folder / "extender.yaml"
    file.write_text(f"{HEAD}moveBarePods: {str(move_bare_pods).lower()}\n{settings}")
    try:
        start_extender(cluster, f"--config={file}")
        yield
    finally:
        start_extender(cluster)
