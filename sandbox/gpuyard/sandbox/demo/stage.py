"""Sets the demo up: a sandbox whose kube-scheduler asks our extender, the CRDs, the extender as a process of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpuyard.sandbox import files, launch, lifecycle, ports, processes
from gpuyard.sandbox.components import Component, Place
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuyard.sandbox.cluster import Cluster
    from gpuyard.sandbox.folders import Folders
    from gpuyard.sandbox.processes import Process
    from gpuyard.sandbox.releases import Say

EXTENDER = "gpuyard-extender"
READY_WITHIN = 90.0
STOP_GRACE = 10.0

SETTINGS_FILE = "extender-of-the-demo.yaml"
SETTINGS = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\nmoveBarePods: true\n"
"""The jobs of the demo are bare pods, and one of them moves."""


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
    for _ in range(lifecycle.PORT_TRIES):
        try:
            cluster = _bring_up(name, say, nodes, folders)
        except launch.PortTakenError as taken:
            say(f"{taken.step}: {taken.problem}; choosing another")
        else:
            say(f"{nodes} nodes with {cluster.record.spec.gpus} mock GPUs each; kube-scheduler asks gpuyard")
            return cluster
    raise lifecycle.no_port()


def _bring_up(name: str, say: Say, nodes: int, folders: Folders | None) -> Cluster:
    port = _port(name, folders)
    config = manifests() / "kube-scheduler" / "config.yaml"
    url = f"http://127.0.0.1:{port}/scheduler"
    spec = Spec(name=name, nodes=nodes, scheduler_config=config, extender_url=url)
    others = (each for each in ports.candidates() if each not in (port, port + 1))
    cluster = lifecycle.up(spec, say=_quiet(say), folders=folders, candidates=others)
    crds = str(manifests() / "crds")
    cluster.kubectl("apply", "--server-side", "-f", crds)
    cluster.kubectl("wait", "--for=condition=established", "--timeout=90s", "-f", crds)
    start_extender(cluster)
    return cluster


def start_extender(cluster: Cluster, *options: str) -> None:
    """Run the extender as a process of the sandbox, so that it ends with it; return when it answers."""
    process = launch_extender(cluster, *options)
    launch.wait_ready(_extender(_with_settings(options, cluster.folder)), process, _place(cluster), READY_WITHIN)


def launch_extender(cluster: Cluster, *options: str) -> Process:
    """Start the extender, with more options if need be, unless it runs already as it would be started now."""
    (cluster.folder / SETTINGS_FILE).write_text(SETTINGS)
    extender, python, place = _extender(_with_settings(options, cluster.folder)), Path(sys.executable), _place(cluster)
    running = cluster.processes.get(EXTENDER)
    if running and running.digest == extender.digest(python, place):
        return running
    if running:
        processes.end(running, grace=STOP_GRACE)
    return launch.start(extender, python, place)


def _with_settings(options: Sequence[str], folder: Path) -> Sequence[str]:
    """The options, with the settings of the demo unless there are others among them."""
    has_settings = any(option.startswith("--config") for option in options)
    return options if has_settings else (*options, f"--config={folder / SETTINGS_FILE}")


def _extender(options: Sequence[str]) -> Component:
    """The extender as one more component; its port is that of its probes, one above where kube-scheduler asks."""

    def flags(place: Place) -> list[str]:
        ops = place.ports[EXTENDER]
        listens = ["--host=127.0.0.1", f"--port={ops - 1}", f"--ops-port={ops}"]
        access = [f"--kubeconfig={place.path('kubeconfig')}", f"--token={place.path(files.EXTENDER_TOKEN)}"]
        return ["-m", "gpuyard.extender", *access, *listens, *options]

    return Component(EXTENDER, flags, "http://127.0.0.1:{port}/readyz")


def _place(cluster: Cluster) -> Place:
    return Place(cluster.folder, {EXTENDER: extender_port(cluster) + 1}, cluster.record.spec)


def extender_port(cluster: Cluster) -> int:
    """Where the extender answers kube-scheduler; its probes are one port above."""
    return urlsplit(cluster.record.spec.extender_url).port or 0


def extender_token(cluster: Cluster) -> str:
    """By which the extender knows kube-scheduler."""
    return cluster.record.tokens[files.EXTENDER]


def _port(name: str, folders: Folders | None) -> int:
    """The port of before, if there was one and nobody else has taken it since."""
    before = lifecycle.find(name, folders=folders)
    if before and (EXTENDER in before.processes or _pair_is_free(extender_port(before))):
        return extender_port(before)
    return next(port for port in ports.candidates() if _pair_is_free(port))


def _pair_is_free(port: int) -> bool:
    return port > 0 and not ports.taken(port) and not ports.taken(port + 1)


def _quiet(say: Say) -> Say:
    """Of what `up` says, only what a person waits for: fetching and building."""
    return lambda text: None if text.endswith(("starting", "each")) else say(text)
