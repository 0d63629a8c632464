"""Brings a sandbox up and down, and is the handle on one that is up.

`up` compares what is wanted with what runs and starts the difference, so it may be repeated at any time: twice, after
it was killed, or after a component died. A component whose settings changed is started anew.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuyard.sandbox import binaries, files, launch, nodes, ports, processes
from gpuyard.sandbox.api import Api
from gpuyard.sandbox.components import API_SERVER, COMPONENTS, ETCD, GROUPS, KWOK, PROGRAMS, Component, Place
from gpuyard.sandbox.errors import SandboxError, last_lines
from gpuyard.sandbox.files import Record
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.locks import held
from gpuyard.sandbox.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from gpuyard.sandbox.processes import Process
    from gpuyard.sandbox.releases import Say
    from gpuyard.sandbox.spec import Spec

SETTLED_WITHIN = 60.0
STOP_GRACE = 10.0
PORT_TRIES = 5


@dataclass(frozen=True)
class Cluster:
    """A sandbox that was brought up: where its things are, and its components one by one."""

    folder: Path
    record: Record

    @property
    def name(self) -> str:
        """The sandbox's name."""
        return self.record.spec.name

    @property
    def place(self) -> Place:
        """Folder, ports and settings, from which every command line follows."""
        return Place(self.folder, self.record.ports, self.record.spec)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def api_url(self) -> str:
        """Where the API server listens."""
        return f"https://127.0.0.1:{self.record.ports[API_SERVER.name]}"

    @property
    def audit_log(self) -> Path:
        """One JSON line for each request that the API server answered."""
        return self.folder / "audit.log"

    @property
    def processes(self) -> dict[str, Process]:
        """The components that run now, by name."""
        return processes.of(self.folder)

    def program(self, name: str) -> Path:
        """One of the programs this cluster runs with, such as `kubectl` or `etcdctl`."""
        return self.record.programs[name]

    def log(self, component: str) -> Path:
        """A component's log since its last start."""
        return launch.log_of(self.folder, component)

    def stop(self, component: str) -> None:
        """End a component as an operator would; it is gone when this returns."""
        self._end(component, STOP_GRACE)

    def kill(self, component: str) -> None:
        """End a component as a crash would; it is gone when this returns."""
        self._end(component, 0)

    def pause(self, component: str) -> None:
        """Freeze a component: its connections stay open and nobody answers."""
        self._send(component, signal.SIGSTOP)

    def resume(self, component: str) -> None:
        """Let a paused component go on."""
        self._send(component, signal.SIGCONT)

    def start(self, component: str) -> None:
        """Start a component that is not running, on its old port; it is ready when this returns."""
        if component in self.processes:
            return
        wanted = COMPONENTS[component]
        if wanted is KWOK:
            with self.api() as api:
                nodes.forget_leases(api)
        process = launch.start(wanted, self.program(component), self.place)
        launch.wait_ready(wanted, process, self.place)

    def restart(self, component: str) -> None:
        """Stop and start a component."""
        self.stop(component)
        self.start(component)

    def compact_etcd(self) -> None:
        """Forget all history, so that watches and lists from earlier versions are answered with 410 Gone."""
        status = self._etcdctl("endpoint", "status", "--write-out=fields")
        revision = next(line.split(":")[1].strip() for line in status.splitlines() if line.startswith('"Revision"'))
        self._etcdctl("compact", revision)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints; raises SandboxError when it fails."""
        command = [str(self.program("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments]
        return self._run("kubectl", command, stdin)

    def api(self) -> Api:
        """A connection to the API server as administrator."""
        token = self.record.tokens[files.USERS["kubeconfig"][0]]
        return Api(self.record.ports[API_SERVER.name], token, self.folder / "pki" / "apiserver.crt")

    def down(self) -> None:
        """Remove the sandbox."""
        down(self.name, folders=Folders(self.folder.parent.parent))

    def _end(self, component: str, grace: float) -> None:
        process = self.processes.get(component)
        if process:
            processes.end(process, grace=grace)

    def _send(self, component: str, number: signal.Signals) -> None:
        process = self.processes.get(component)
        if process is None:
            raise SandboxError(f"{number.name} to {component}", "it is not running")
        processes.send(process, number)

    def _etcdctl(self, *arguments: str) -> str:
        url = f"--endpoints=http://127.0.0.1:{self.record.ports[ETCD.name]}"
        return self._run("etcdctl", [str(self.program("etcdctl")), url, *arguments], None)

    def _run(self, step: str, command: list[str], stdin: str | None) -> str:
        # kubectl keeps a cache in the home folder: the sandbox's, not the user's.
        done = subprocess.run(
            command, input=stdin or "", env={"HOME": str(self.folder)}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SandboxError(step, f"{' '.join(command[2:])} failed", log=done.stderr.splitlines())
        return done.stdout


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
    _need_linux()
    folders = folders or Folders.of_user()
    say = say or Progress()
    folder = folders.sandboxes / spec.name
    with held(_lock(folder), lambda: say(f"another command is at work on sandbox {spec.name}: waiting")), _disk(folder):
        programs = binaries.ensure(PROGRAMS, folders, say)
        record = _record(spec, folder, {name: found.path for name, found in programs.items()}, candidates)
        cluster = _converge(folder, record, say, candidates)
        with cluster.api() as api:
            nodes.create(api, spec, programs[API_SERVER.name].version, dt.datetime.now(dt.UTC))
        _settle(cluster)
        say(f"sandbox {spec.name} is up: {cluster.api_url}, {spec.nodes} nodes with {spec.gpus} GPUs each")
        return cluster


def down(name: str, *, folders: Folders | None = None) -> bool:
    """Remove the sandbox: processes, ports, folder, also after a crash. False if there was nothing to remove."""
    _need_linux()
    folders = folders or Folders.of_user()
    folder = folders.sandboxes / name
    with held(_lock(folder)):
        found = folder.exists()
        while running := processes.of(folder):
            found = True
            for process in running.values():
                processes.end(process, grace=0)
        # First the record: what is left, should this be interrupted, then no longer counts as a sandbox.
        (folder / "sandbox.json").unlink(missing_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
    with contextlib.suppress(OSError):
        folders.sandboxes.rmdir()
    return found


def find(name: str, *, folders: Folders | None = None) -> Cluster | None:
    """The sandbox of this name, if there is one; some of its components may not be running."""
    folder = (folders or Folders.of_user()).sandboxes / name
    record = files.read(folder)
    return Cluster(folder, record) if record else None


def names(*, folders: Folders | None = None) -> list[str]:
    """The names of all sandboxes, also of those of which only processes are left."""
    home = (folders or Folders.of_user()).sandboxes
    on_disk = {path.name for path in home.iterdir() if path.is_dir()} if home.exists() else set()
    running = {process.folder.name for process in processes.running() if process.folder.parent == home}
    return sorted(on_disk | running)


def _record(spec: Spec, folder: Path, programs: dict[str, Path], candidates: Iterable[int] | None) -> Record:
    """The new record: tokens and ports of the old one stay, so that what runs can go on."""
    before = files.read(folder)
    if before is None and folder.exists():
        shutil.rmtree(folder)
    running = processes.of(folder)
    chosen = dict(before.ports) if before else {}
    for name in COMPONENTS:
        if name not in chosen or (name not in running and ports.taken(chosen[name])):
            chosen[name] = _port(candidates, chosen)
    return Record(spec, chosen, programs, before.tokens if before else files.new_tokens())


def _port(candidates: Iterable[int] | None, chosen: dict[str, int]) -> int:
    untried = (port for port in candidates or ports.candidates() if port not in chosen.values())
    return ports.free(untried)


def _converge(folder: Path, record: Record, say: Say, candidates: Iterable[int] | None) -> Cluster:
    """Start what is missing, group by group; a component that finds its port taken gets another one."""
    for attempt in range(1, PORT_TRIES + 1):
        files.write_record(folder, record)
        cluster = Cluster(folder, record)
        files.write(cluster.place, record.tokens)
        try:
            for group in GROUPS:
                _start_group(cluster, group, say)
        except launch.PortTakenError as error:
            if attempt == PORT_TRIES:
                raise
            say(f"{error.step}: {error.problem}; choosing another")
            component = error.step.rsplit(" ", 1)[-1]
            record = Record(
                record.spec,
                {**record.ports, component: _port(candidates, record.ports)},
                record.programs,
                record.tokens,
            )
        else:
            return cluster
    raise AssertionError("unreachable: the last attempt returns or raises")


def _start_group(cluster: Cluster, group: tuple[Component, ...], say: Say) -> None:
    running = cluster.processes
    started = {}
    for component in group:
        process = running.get(component.name)
        if process and process.digest == component.digest(cluster.program(component.name), cluster.place):
            continue
        if process:
            say(f"{component.name}: its settings changed, starting it anew")
            cluster.stop(component.name)
        else:
            say(f"{component.name}: starting")
        if component is KWOK:
            with cluster.api() as api:
                nodes.forget_leases(api)
        started[component] = launch.start(component, cluster.program(component.name), cluster.place)
    for component, process in started.items():
        launch.wait_ready(component, process, cluster.place)


def _settle(cluster: Cluster) -> None:
    """Wait until pods can be created and scheduled: KWOK holds every node, the default service account exists."""
    deadline = time.monotonic() + SETTLED_WITHIN
    with cluster.api() as api:
        while waiting := [*nodes.unready(api), *_missing_account(api)]:
            if time.monotonic() > deadline:
                raise SandboxError(
                    "nodes",
                    f"not ready within {SETTLED_WITHIN:.0f} s: {', '.join(waiting[:5])}",
                    log=last_lines(cluster.log(KWOK.name)),
                    remedy=f"Look at {cluster.log('kube-controller-manager')}, too.",
                )
            time.sleep(launch.POLL)


def _missing_account(api: Api) -> list[str]:
    there = {account["metadata"]["name"] for account in api.items("/api/v1/namespaces/default/serviceaccounts")}
    return [] if "default" in there else ["service account default"]


def _lock(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """Say in the sandbox's words that a file could not be written."""
    try:
        yield
    except OSError as error:
        raise SandboxError(
            f"files of sandbox {folder.name}",
            str(error),
            remedy=f"Make {folder} writable, with room for a few hundred MB, and run `gpuyard sandbox up` again.",
        ) from error


def _need_linux() -> None:
    if sys.platform != "linux":
        raise SandboxError(
            "ground processes",
            f"it needs Linux: there is no kube-scheduler for {sys.platform}",
            remedy="Start Docker and use `gpuyard sandbox up --ground kind` instead.",
        )
