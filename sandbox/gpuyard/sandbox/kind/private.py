"""A Docker engine of our own, for a machine without one: nothing of it is shared with an engine that comes later.

Its images stay in the cache folder. All the rest is gone after `stop`, and after a restart of the machine: processes,
socket, control groups, bridge, packet filter rules.

Decided in docs/decisions.md: "A Docker engine of our own, where there is none".
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.sandbox import processes
from gpuyard.sandbox.errors import SandboxError, last_lines
from gpuyard.sandbox.kind import leftovers
from gpuyard.sandbox.kind.docker import Docker

if TYPE_CHECKING:
    from gpuyard.sandbox.releases import Say

NETWORK = "kind"
NAMESPACE = "gpuyard"
FAMILIES = ("iptables", "ip6tables")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
SYS_RESOURCE = 1 << 24
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_WITHIN = 60.0
STOP_WITHIN = 20.0
POLL = 0.1

# Old engines ask for every capability when a container is privileged; runc refuses what the machine does not give.
RUNTIME = """\
#!/bin/sh
# runc, without the one capability that this machine does not give.
previous=
for argument in "$@"; do
    case "$previous" in
        --bundle | -b) settings="$argument/config.json" ;;
        --process | -p) settings="$argument" ;;
        *) settings= ;;
    esac
    if [ -f "$settings" ]; then
        sed -i -e 's/"CAP_SYS_RESOURCE",//g' -e 's/,"CAP_SYS_RESOURCE"//g' "$settings"
    fi
    previous="$argument"
done
exec runc "$@"
"""


def settings(data: Path, run: Path, *, limited: bool) -> dict[str, Any]:
    """The engine's configuration file; `limited` is for machines that withhold CAP_SYS_RESOURCE."""
    ours = {"default-runtime": "limited", "runtimes": {"limited": {"path": str(run / "runtime")}}} if limited else {}
    return {
        "data-root": str(data),
        "exec-root": str(run / "exec"),
        "hosts": [f"unix://{run}/docker.sock"],
        "bridge": "none",
        "cgroup-parent": f"/{run.name}",
        "containerd-namespace": NAMESPACE,
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        **ours,
    }


def limited() -> bool:
    """Whether this process may not raise resource limits, however much it is root."""
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return not int(effective, 16) & SYS_RESOURCE


@dataclass(frozen=True)
class PrivateEngine:
    """The engine whose images are in `home`."""

    home: Path

    @property
    def run(self) -> Path:
        """Everything that may not survive the engine; the path is short because sockets' paths must be."""
        return Path("/run") / f"gpuyard-{self._digest}"

    @property
    def bridge(self) -> str:
        """The name of its network card, by which its rules in the packet filter are known; 15 letters are allowed."""
        return f"gy{self._digest}"

    @property
    def _digest(self) -> str:
        return hashlib.sha256(str(self.home).encode()).hexdigest()[:8]

    @property
    def docker(self) -> Docker:
        """The docker command for it."""
        return Docker({"DOCKER_HOST": f"unix://{self.run}/docker.sock", "DOCKER_BUILDKIT": "0"})

    @property
    def log(self) -> Path:
        """What the engine says."""
        return self.home / "engine.log"

    def start(self, say: Say) -> Docker:
        """Have it running, with a network for kind whose bridge has a name of ours."""
        if not self._comes_to_answer():
            self.stop()
            say("starting a Docker engine of our own")
            self._prepare()
            self._launch()
        if NETWORK not in self.docker.lines("network", "ls", "--format", "{{.Name}}"):
            name = f"com.docker.network.bridge.name={self.bridge}"
            self.docker.ask("network", "create", "--driver", "bridge", "--opt", name, *_mtu(), NETWORK)
        return self.docker

    def stop(self) -> None:
        """End it and take away all that it left, also after a crash; its images stay."""
        if self.docker.answers():
            with contextlib.suppress(SandboxError):
                self.docker.ask("network", "rm", NETWORK)
        self._end()
        if self.run.exists():
            self._restore()
            _unmount(self.run)
            _unmount(self.home)
            shutil.rmtree(self.run)

    def _comes_to_answer(self) -> bool:
        """Whether it answers; one that runs and says nothing yet is busy, and clusters may be in it."""
        deadline = time.monotonic() + START_WITHIN
        while not self.docker.answers():
            if not self._runs() or time.monotonic() > deadline:
                return False
            time.sleep(POLL)
        return True

    def _runs(self) -> bool:
        """Whether dockerd itself is there, and not only what it started."""
        return any(one.folder == self.run and not self._is_child(one) for one in processes.running())

    def _prepare(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(mode=0o700)
        before = {family: _listing(family) for family in FAMILIES} | {"forwarding": FORWARDING.read_text()}
        partial = self.run / "before.json.partial"
        partial.write_text(json.dumps(before))
        partial.rename(self.run / "before.json")
        (self.run / "runtime").write_text(RUNTIME)
        (self.run / "runtime").chmod(0o755)
        configuration = settings(self.home / "data", self.run, limited=limited())
        (self.run / "daemon.json").write_text(json.dumps(configuration))

    def _launch(self) -> None:
        self.log.unlink(missing_ok=True)
        arguments = ["--config-file", str(self.run / "daemon.json"), "--pidfile", str(self.run / "docker.pid")]
        command = ["/usr/bin/env", f"PATH={SEARCH}", "dockerd", *arguments]
        process = processes.start(command, self.run, "dockerd", "", self.log)
        deadline = time.monotonic() + START_WITHIN
        while not self.docker.answers():
            if not processes.alive(process) or time.monotonic() > deadline:
                log = last_lines(self.log)
                self.stop()
                raise SandboxError(
                    "Docker engine",
                    "the engine of our own does not start",
                    log=log,
                    remedy=f"Its whole log is {self.log}. With an engine of yours running, that one is used instead.",
                )
            time.sleep(POLL)

    def _end(self) -> None:
        """End dockerd, then what it started, should it have died before its children."""
        ours = [process for process in processes.running() if process.folder == self.run]
        for process in sorted(ours, key=self._is_child):
            processes.end(process, grace=STOP_WITHIN)

    def _is_child(self, process: processes.Process) -> bool:
        with contextlib.suppress(OSError):
            return (self.run / "docker.pid").read_text().strip() != str(process.pid)
        return True

    def _restore(self) -> None:
        with contextlib.suppress(FileNotFoundError, ValueError):  # without it, what is ours by name goes all the same
            before = json.loads((self.run / "before.json").read_text())
            now = {family: _listing(family) for family in FAMILIES}
            for family in FAMILIES:
                for arguments in leftovers.undo(before[family], now[family], self.bridge):
                    _call(family, "--wait", *arguments)
            # An engine that was started since counts on it.
            if not any(leftovers.has_company(before[family], now[family], self.bridge) for family in FAMILIES):
                FORWARDING.write_text(before["forwarding"])
        _call("ip", "link", "delete", self.bridge)
        for group in _cgroups(self.run.name):
            _kill_all(group)
            with contextlib.suppress(OSError):
                group.rmdir()


def _cgroups(name: str) -> list[Path]:
    """The engine's control groups, innermost first; each old controller has a tree of its own."""
    tops = [*Path("/sys/fs/cgroup").glob(f"*/{name}"), *Path("/sys/fs/cgroup").glob(name)]
    return [Path(folder) for top in tops for folder, _, _ in os.walk(top, topdown=False)]


def _kill_all(group: Path) -> None:
    """End what a crashed engine left running in a control group of ours."""
    for _ in range(50):
        pids = (group / "cgroup.procs").read_text().split()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(POLL)


def _unmount(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in reversed(mounts):
        if Path(mount).is_relative_to(folder):
            _call("umount", "--lazy", mount)


def _mtu() -> list[str]:
    """A network card with short packets asks for short packets in the containers too."""
    sizes = [int((card / "mtu").read_text()) for card in Path("/sys/class/net").iterdir() if (card / "device").exists()]
    return ["--opt", f"com.docker.network.driver.mtu={min(sizes)}"] if sizes else []


def _listing(family: str) -> str:
    return _call(f"{family}-save")


def _call(*command: str) -> str:
    path = f"{os.environ.get('PATH', '')}:{SEARCH}"
    program = shutil.which(command[0], path=path)
    if program is None:
        return ""
    return subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False).stdout
