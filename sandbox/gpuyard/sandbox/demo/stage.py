"""Sets the demo up: a sandbox whose kube-scheduler asks our extender, the CRDs, the extender as a process of it."""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpuyard.sandbox import api, lifecycle, ports, processes
from gpuyard.sandbox.errors import SandboxError, last_lines
from gpuyard.sandbox.spec import Spec

if TYPE_CHECKING:
    from gpuyard.sandbox.cluster import Cluster
    from gpuyard.sandbox.folders import Folders
    from gpuyard.sandbox.processes import Process
    from gpuyard.sandbox.releases import Say

EXTENDER = "gpuyard-extender"
READY_WITHIN = 30.0
STOP_GRACE = 10.0
POLL = 0.1


def manifests() -> Path:
    """The folder of manifests in the checkout that this code runs from."""
    folder = Path(__file__).parents[4] / "manifests"
    if not (folder / "crds").is_dir():
        raise SandboxError(
            "manifests", f"there is no {folder}", remedy="Run the demo from a checkout of gpuyard: `make demo`."
        )
    return folder


def set_up(name: str, say: Say, *, nodes: int = 4, folders: Folders | None = None) -> Cluster:
    """Make the demo's sandbox run, with CRDs and extender; what runs already is left alone."""
    say("a real control plane comes up: etcd, API server, kube-scheduler, ...")
    port = _port(name, folders)
    config = manifests() / "kube-scheduler" / "config.yaml"
    url = f"http://127.0.0.1:{port}/scheduler"
    spec = Spec(name=name, nodes=nodes, scheduler_config=config, extender_url=url)
    cluster = lifecycle.up(spec, say=_quiet(say), folders=folders)
    crds = str(manifests() / "crds")
    cluster.kubectl("apply", "--server-side", "-f", crds)
    cluster.kubectl("wait", "--for=condition=established", "--timeout=20s", "-f", crds)
    start_extender(cluster)
    say(f"{spec.nodes} nodes with {spec.gpus} mock GPUs each; kube-scheduler asks gpuyard")
    return cluster


def start_extender(cluster: Cluster, *options: str) -> None:
    """Run the extender as a process of the sandbox, so that it ends with it; return when it answers."""
    process = launch_extender(cluster, *options)
    _wait_ready(process, extender_port(cluster) + 1, cluster.log(EXTENDER))


def launch_extender(cluster: Cluster, *options: str) -> Process:
    """Start the extender, with more options if need be, unless it runs already as it would be started now."""
    port = extender_port(cluster)
    listens = ["--host=127.0.0.1", f"--port={port}", f"--ops-port={port + 1}"]
    command = [sys.executable, "-m", "gpuyard.extender", f"--kubeconfig={cluster.kubeconfig}", *listens, *options]
    digest = hashlib.sha256("\0".join(command).encode()).hexdigest()[:16]
    running = cluster.processes.get(EXTENDER)
    if running and running.digest == digest:
        return running
    if running:
        processes.end(running, grace=STOP_GRACE)
    return processes.start(command, cluster.folder, EXTENDER, digest, cluster.log(EXTENDER))


def extender_port(cluster: Cluster) -> int:
    """Where the extender answers kube-scheduler; its probes are one port above."""
    return urlsplit(cluster.record.spec.extender_url).port or 0


def _port(name: str, folders: Folders | None) -> int:
    """The port of before, if there was one and nobody else has taken it since."""
    before = lifecycle.find(name, folders=folders)
    if before and (EXTENDER in before.processes or _pair_is_free(extender_port(before))):
        return extender_port(before)
    return next(port for port in ports.candidates() if _pair_is_free(port))


def _pair_is_free(port: int) -> bool:
    return port > 0 and not ports.taken(port) and not ports.taken(port + 1)


def _wait_ready(process: Process, port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while not api.healthy(f"http://127.0.0.1:{port}/readyz"):
        if not processes.alive(process):
            raise SandboxError("start of the extender", "the process ended", log=last_lines(log))
        if time.monotonic() > deadline:
            raise SandboxError("start of the extender", f"not ready within {READY_WITHIN:.0f} s", log=last_lines(log))
        time.sleep(POLL)


def _quiet(say: Say) -> Say:
    """Of what `up` says, only what a person waits for: fetching and building."""
    return lambda text: None if text.endswith(("starting", "each")) else say(text)
