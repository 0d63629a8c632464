"""The handle on a sandbox that was brought up: where its things are, and what can be done to its components."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuyard.sandbox import files, launch, nodes, processes, removal
from gpuyard.sandbox.api import Api
from gpuyard.sandbox.components import API_SERVER, COMPONENTS, ETCD, KWOK, Component, Place
from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

    from gpuyard.sandbox.files import Record
    from gpuyard.sandbox.processes import Process

STOP_GRACE = 10.0


@dataclass(frozen=True)
class Cluster:
    """A sandbox by its folder and its record; its components are etcd, kube-apiserver, … as `processes` names them."""

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
        """One of the programs this sandbox runs with, such as `kubectl` or `etcdctl`."""
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
        if component not in self.processes:
            launch.wait_ready(COMPONENTS[component], self.launch(COMPONENTS[component]), self.place)

    def restart(self, component: str) -> None:
        """Stop and start a component."""
        self.stop(component)
        self.start(component)

    def launch(self, component: Component) -> Process:
        """Start a component without waiting until it is ready."""
        if component is KWOK:
            with self.api() as api:
                nodes.forget_leases(api)
        return launch.start(component, self.program(component.name), self.place)

    def compact_etcd(self) -> None:
        """Drop all history from etcd.

        The API server goes on answering from its own memory: restart it, too, and every watch and list from an
        earlier version gets 410 Gone.
        """
        status = self._etcdctl("endpoint", "status", "--write-out=fields")
        revision = next(line.split(":")[1].strip() for line in status.splitlines() if line.startswith('"Revision"'))
        self._etcdctl("compact", revision)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl prints; raises SandboxError when it fails."""
        return self._run("kubectl", f"--kubeconfig={self.kubeconfig}", *arguments, stdin=stdin)

    def api(self) -> Api:
        """A connection to the API server as administrator."""
        token = self.record.tokens[files.ADMINISTRATOR]
        return Api(self.record.ports[API_SERVER.name], token, self.folder / "pki" / "apiserver.crt")

    def down(self) -> None:
        """Remove the sandbox."""
        removal.remove(self.folder)

    def _end(self, component: str, grace: float) -> None:
        process = self.processes.get(component)
        if process:
            processes.end(process, grace=grace)

    def _send(self, component: str, number: signal.Signals) -> None:
        process = self.processes.get(component)
        if process is None:
            raise SandboxError(
                f"{number.name} to {component}", "it is not running",
                remedy=f"`gpuyard sandbox up --name {self.name}` starts it.",
            )  # fmt: skip
        processes.send(process, number)

    def _etcdctl(self, *arguments: str) -> str:
        return self._run("etcdctl", f"--endpoints=http://127.0.0.1:{self.record.ports[ETCD.name]}", *arguments)

    def _run(self, program: str, *arguments: str, stdin: str = "") -> str:
        # kubectl keeps a cache in the home folder: the sandbox's, not the user's.
        done = subprocess.run(
            [self.program(program), *arguments],
            input=stdin, env={"HOME": str(self.folder)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SandboxError(
                f"{program} {' '.join(arguments[1:])}", "failed", log=done.stderr.splitlines(),
                remedy=f"`gpuyard sandbox status --name {self.name}` tells whether every process runs; `up` mends it.",
            )  # fmt: skip
        return done.stdout
