"""Plays the files of the sample `consolidation` with kubectl, as its readers would: a small job moves for a large one.

The jobs with which it begins are submitted one by one, each when the one before runs: only so they lie as it tells.

The node that stays empty is cordoned meanwhile. Else the large job would simply start there, and nobody had to move.

Decided in docs/decisions.md: "The demo cordons the node that stays empty"; "The jobs with which the sample begins are
submitted one by one".
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

    from gpuyard.sandbox import kind
    from gpuyard.sandbox.cluster import Cluster
    from gpuyard.sandbox.releases import Say

Json = dict[str, Any]
Narrate = Callable[[Sequence[Json], Sequence[Json]], str]
"""Tells what happened between two looks at a cluster."""

QUEUES, INITIAL, NEW = "1-queues.yaml", "2-initial-state.yaml", "3-new-workloads.yaml"
KINDS = "nodes,namespaces,queues.scheduling.run.ai,podgroups.scheduling.run.ai,priorityclasses,plans.gpuyard.io,pods"
STEP = "sample-step"
"""The label that numbers the jobs with which the story begins."""

JOBS = 6
"""Pods of the whole sample."""

WITHIN = 180.0
POLL = 0.2


def play(cluster: Cluster | kind.Cluster, manifests: Path, say: Say, narrate: Narrate) -> str:
    """Play it from beginning to end, and leave nothing of it; what happened, told by the objects of the cluster."""
    sample = manifests / "samples" / "consolidation"
    clean(cluster, sample)
    cluster.kubectl("apply", "-f", str(manifests / "priority-classes" / "priority-classes.yaml"))
    say(f"kubectl apply -f {QUEUES}: two departments with two projects each")
    cluster.kubectl("apply", "-f", str(sample / QUEUES))
    say(f"kubectl apply -f {INITIAL}, job by job: each when the one before runs")
    start(cluster, sample)
    empty = _empty_node(cluster)
    say(f"{empty} is empty and would do for what comes: it is cordoned, so that others have to make room")
    cluster.kubectl("cordon", empty)
    try:
        before = look(cluster)
        say(f"kubectl apply -f {NEW}: two more jobs, one of which fits nowhere")
        cluster.kubectl("apply", "-f", str(sample / NEW))
        _until(lambda: _is_settled(cluster), "all jobs of the sample have their places")
        told = narrate(before, look(cluster))
    finally:
        cluster.kubectl("uncordon", empty)
    clean(cluster, sample)
    return told


def look(cluster: Cluster | kind.Cluster) -> list[Json]:
    """The objects of the cluster that decide about pods."""
    found: list[Json] = json.loads(cluster.kubectl("get", KINDS, "--all-namespaces", "-o", "json"))["items"]
    return found


def clean(cluster: Cluster | kind.Cluster, sample: Path) -> None:
    """Take the sample's objects away, the last ones first."""
    for name in (NEW, INITIAL, QUEUES):
        cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", str(sample / name))
    _until(lambda: not _pods(cluster), "the jobs of the sample are gone")
    for name in _names(sample / QUEUES, "Namespace"):
        cluster.kubectl("wait", "--for=delete", f"namespace/{name}", f"--timeout={WITHIN:.0f}s")


def start(cluster: Cluster | kind.Cluster, sample: Path) -> None:
    """Submit the jobs with which the story begins, each when the one before runs."""
    for name in _names(sample / QUEUES, "Namespace"):
        # Else no pod can be made there: we are faster than people who type.
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=90s", "--namespace", name)
    for step, _ in enumerate(_names(sample / INITIAL, "Pod"), 1):
        one = ("--selector", f"{STEP}={step}")
        cluster.kubectl("apply", "-f", str(sample / INITIAL), *one)
        cluster.kubectl("wait", "pods", "--all-namespaces", *one, "--for=condition=Ready", f"--timeout={WITHIN:.0f}s")


def _names(file: Path, kind: str) -> list[str]:
    return [thing["metadata"]["name"] for thing in yaml.safe_load_all(file.read_text()) if thing["kind"] == kind]


def _pods(cluster: Cluster | kind.Cluster) -> list[Json]:
    """The sample's pods: those of its projects."""
    found: list[Json] = json.loads(cluster.kubectl("get", "pods", "--all-namespaces", "-o", "json"))["items"]
    return [pod for pod in found if pod["metadata"]["namespace"].startswith("project-")]


def _empty_node(cluster: Cluster | kind.Cluster) -> str:
    used = {pod["spec"].get("nodeName") for pod in _pods(cluster)}
    workers = ("nodes", "--selector", "!node-role.kubernetes.io/control-plane", "-o", "name")
    nodes = cluster.kubectl("get", *workers).replace("node/", "").split()
    return next(name for name in nodes if name not in used)


def _is_settled(cluster: Cluster | kind.Cluster) -> bool:
    """Whether everybody has a place, and no plan is under way."""
    things = look(cluster)
    pods = [one for one in things if one["kind"] == "Pod" and one["metadata"]["namespace"].startswith("project-")]
    plans = [one for one in things if one["kind"] == "Plan"]
    at_home = all(one["spec"].get("nodeName") and "deletionTimestamp" not in one["metadata"] for one in pods)
    over = all((plan.get("status") or {}).get("state", "Running") != "Running" for plan in plans)
    return len(pods) == JOBS and at_home and over


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN
    while not holds():
        if time.monotonic() > end:
            raise SandboxError(
                "the sample consolidation",
                f"not so within {WITHIN:.0f} s: {what}",
                remedy="Look at the logs that `gpuyard sandbox status` names, and run the demo again.",
            )
        time.sleep(POLL)
