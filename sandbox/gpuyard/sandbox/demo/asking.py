"""Asks why a pod waits, does what the answer advises, and sees the pod run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from gpuyard.sandbox import kind
    from gpuyard.sandbox.cluster import Cluster

_LIMIT = re.compile(r"raise the limit of queue (?P<queue>\S+) from .+? to (?P<gpus>[\d.]+) GPUs?\b")


class Answer(NamedTuple):
    """What `gpuyard explain` says."""

    why: str
    advice: tuple[str, ...]

    @property
    def limit(self) -> tuple[str, float] | None:
        """The queue whose limit is to be raised, and to how many GPUs, if that is advised."""
        found = next((match for line in self.advice if (match := _LIMIT.search(line))), None)
        return (found["queue"], float(found["gpus"])) if found else None


def question(pod: str, namespace: str) -> list[str]:
    """What people type."""
    return ["explain", f"pod/{pod}", "-n", namespace]


def ask(cluster: Cluster | kind.Cluster, pod: str, namespace: str) -> Answer:
    """Ask as people do, by the command."""
    command = [sys.executable, "-m", "gpuyard.cli", *question(pod, namespace), "-o", "json"]
    command += ["--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxError(f"question about pod {pod}", done.stderr.strip(), remedy="Run the demo again.")
    said = json.loads(done.stdout)
    return Answer(f"{said['reason']}: {said['message']}", tuple(said["advice"]))


def raising(queue: str, gpus: float) -> tuple[str, ...]:
    """What to give kubectl so that a queue may have so many GPUs."""
    limit = int(gpus) if gpus.is_integer() else gpus
    patch = json.dumps({"spec": {"resources": {"gpu": {"limit": limit}}}}, separators=(",", ":"))
    return ("patch", "queues.scheduling.run.ai", queue, "--type", "merge", "-p", patch)
