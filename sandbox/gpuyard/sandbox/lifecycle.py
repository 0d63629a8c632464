"""Brings sandboxes up and down.

`up` compares what is wanted with what runs and starts the difference, so it may be repeated at any time: twice, after
it was killed, or after a component died. A component whose settings changed is started anew.

Decided in docs/decisions.md: "The sandbox starts the control plane itself, not through kwokctl".
"""

from __future__ import annotations

import datetime as dt
import signal
import sys
import time
from typing import TYPE_CHECKING

import msgspec
from gpuyard.sandbox import binaries, files, launch, nodes, ports, processes
from gpuyard.sandbox.cluster import Cluster
from gpuyard.sandbox.components import API_SERVER, COMPONENTS, GROUPS, KWOK, PROGRAMS, Component
from gpuyard.sandbox.errors import SandboxError, last_lines
from gpuyard.sandbox.files import Record
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.removal import at_work, clear, remove
from gpuyard.sandbox.spec import NAME, checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from gpuyard.sandbox.api import Api
    from gpuyard.sandbox.processes import Process
    from gpuyard.sandbox.releases import Say
    from gpuyard.sandbox.spec import Spec

SETTLED_WITHIN = 60.0
SETTLED_WITHIN_PER_NODE = 0.2
PORT_TRIES = 5


def up(
    spec: Spec,
    *,
    folders: Folders | None = None,
    say: Say | None = None,
    candidates: Iterable[int] | None = None,
) -> Cluster:
    """Make the wanted sandbox run, whatever is there already, and return when pods can be scheduled on it.

    Nodes that are missing are added; none is changed or removed. `candidates` are the ports to try, in this order.
    Raises SandboxError with the step that failed, its log's last lines and the remedy.
    """
    need_linux(sys.platform)
    folders, say = folders or Folders.of_user(), say or Progress()
    folder = folders.sandboxes / spec.name
    untried = iter(candidates or ports.candidates())
    with at_work(folder, say):
        programs = binaries.ensure(PROGRAMS, folders, say)
        record = _record(spec, folder, {name: found.path for name, found in programs.items()}, untried)
        cluster = _converge(folder, record, untried, say)
        say(f"{spec.nodes} nodes: creating what is missing, waiting until all are ready")
        with cluster.api() as api:
            nodes.create(api, spec, programs[API_SERVER.name].version, dt.datetime.now(dt.UTC))
        _settle(cluster)
        with cluster.api() as api:
            there = nodes.told(api)
    say(f"sandbox {spec.name} is up: {cluster.api_url}, {there}")
    return cluster


def down(name: str, *, folders: Folders | None = None, say: Say | None = None) -> bool:
    """Remove a sandbox: processes, ports, folder, also after a crash. False if there was nothing to remove."""
    need_linux(sys.platform)
    return remove((folders or Folders.of_user()).sandboxes / checked(name), say)


def find(name: str, *, folders: Folders | None = None) -> Cluster | None:
    """The sandbox of this name, if there is one; some of its components may not be running."""
    folder = (folders or Folders.of_user()).sandboxes / checked(name)
    record = files.read(folder)
    return Cluster(folder, record) if record else None


def names(*, folders: Folders | None = None) -> list[str]:
    """The names of all sandboxes, also of those of which only processes are left."""
    home = (folders or Folders.of_user()).sandboxes
    on_disk = {path.name for path in home.iterdir() if path.is_dir()} if home.exists() else set()
    running = {process.folder.name for process in processes.running() if process.folder.parent == home}
    return sorted(name for name in on_disk | running if NAME.fullmatch(name))


def need_linux(system: str) -> None:
    """Refuse systems on which the control plane cannot run as processes."""
    if system != "linux":
        raise SandboxError(
            "ground processes",
            f"it needs Linux: Kubernetes has no kube-scheduler for {system}",
            remedy="Start Docker and use the ground kind instead: `make demo GROUND=kind`, "
            "`gpuyard sandbox up --ground kind`.",
        )


def _record(spec: Spec, folder: Path, programs: dict[str, Path], untried: Iterator[int]) -> Record:
    """The new record: tokens and ports of the old one stay, so that what runs can go on."""
    before = files.read(folder)
    if before is None:
        clear(folder)
    running = processes.of(folder)
    chosen = dict(before.ports) if before else {}
    for name in COMPONENTS:
        if name not in chosen or (name not in running and ports.taken(chosen[name])):
            chosen[name] = _spare_port(untried, chosen)
    return Record(spec, chosen, programs, files.new_tokens() | (before.tokens if before else {}))


def _spare_port(untried: Iterator[int], chosen: Mapping[str, int]) -> int:
    return ports.free(port for port in untried if port not in chosen.values())


def _converge(folder: Path, record: Record, untried: Iterator[int], say: Say) -> Cluster:
    """Start what is missing; a component whose port was taken at the last moment gets another one."""
    for _ in range(PORT_TRIES):
        cluster = Cluster(folder, record)
        files.write(cluster.place, record)
        try:
            for group in GROUPS:
                _start_group(cluster, group, say)
        except launch.PortTakenError as taken:
            say(f"{taken.step}: {taken.problem}; choosing another")
            record = msgspec.structs.replace(
                record, ports={**record.ports, taken.component: _spare_port(untried, record.ports)}
            )
        else:
            return cluster
    raise no_port()


def no_port() -> SandboxError:
    """The error of a machine on which each port is gone before we get to it."""
    return SandboxError("ports", f"{PORT_TRIES} times the port chosen was taken at once", remedy="Try again.")


def _start_group(cluster: Cluster, group: tuple[Component, ...], say: Say) -> None:
    """Components start at once, then each is waited for, also for one that an interrupted `up` has just started."""
    running = cluster.processes
    started = {component: _run(cluster, component, running.get(component.name), say) for component in group}
    for component, process in started.items():
        launch.wait_ready(component, process, cluster.place)


def _run(cluster: Cluster, component: Component, process: Process | None, say: Say) -> Process:
    if process and process.digest == component.digest(cluster.program(component.name), cluster.place):
        processes.send(process, signal.SIGCONT)
        return process
    if process:
        say(f"{component.name}: its settings changed, starting it anew")
        cluster.stop(component.name)
    else:
        say(f"{component.name}: starting")
    return cluster.launch(component)


def _settle(cluster: Cluster) -> None:
    """Wait until pods can be created and scheduled: KWOK holds every node, the default service account exists."""
    within = SETTLED_WITHIN + SETTLED_WITHIN_PER_NODE * cluster.record.spec.nodes
    deadline = time.monotonic() + within
    with cluster.api() as api:
        while waiting := [*nodes.unready(api), *_missing_account(api)]:
            if time.monotonic() > deadline:
                raise SandboxError(
                    "nodes",
                    f"not ready within {within:.0f} s: {', '.join(waiting[:5])}",
                    log=last_lines(cluster.log(KWOK.name)),
                    remedy=f"The reason may also be in {cluster.log('kube-controller-manager')}.",
                )
            time.sleep(launch.POLL)


def _missing_account(api: Api) -> list[str]:
    there = {account["metadata"]["name"] for account in api.items("/api/v1/namespaces/default/serviceaccounts")}
    return [] if "default" in there else ["service account default"]
