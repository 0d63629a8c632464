"""What engines and their clusters change on a machine, and what a user has in an engine: to be compared."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.sandbox import kind
from gpuyard.sandbox.kind import debian

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpuyard.sandbox.kind.docker import Docker


# What an engine, its containers and kubelets name so; systemd's own services and timers come and go meanwhile.
MARKS = re.compile(r"gpuyard|docker|containerd|kube|kind|netns|overlay2|/engine/|^(gy|br-|veth)")


def marked(names: Iterable[str]) -> list[str]:
    """Those of the names that may be of our making, each once."""
    return sorted({name for name in names if MARKS.search(name)})


def call(*command: str) -> str:
    program = shutil.which(command[0], path=debian.SYSTEM)
    if program is None:
        return ""
    return subprocess.run([program, *command[1:]], capture_output=True, text=True, check=True).stdout


def packet_filter(family: str) -> list[str]:
    """The rules and policies, without counters and dates."""
    lines = call(f"{family}-save").splitlines()
    return [re.sub(r" \[\d+:\d+\]", "", line) for line in lines if not line.startswith("#")]


def engine_processes() -> list[str]:
    """Engines, what they start, and the nodes' own programs, wherever they run on this machine."""
    wanted = re.compile(r"(^|/)(dockerd|containerd|containerd-shim\S*|docker-proxy|kubelet)$")
    return sorted(program for program in _programs(Path("/proc")) if wanted.search(program))


def _programs(proc: Path) -> Iterator[str]:
    for path in proc.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            yield path.read_bytes().split(b"\0")[0].decode(errors="replace")


def traces() -> dict[str, Any]:
    """Everything of a machine that an engine and its clusters change."""
    return {
        "processes": engine_processes(),
        "iptables": packet_filter("iptables"),
        "ip6tables": packet_filter("ip6tables"),
        "links": marked(path.name for path in Path("/sys/class/net").iterdir()),
        "mounts": marked(line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()),
        "cgroups": marked(str(path) for path in Path("/sys/fs/cgroup").glob("*/*")),
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "run": sorted(path.name for path in Path("/run").glob("gpuyard-*")),
        "sandboxes": kind.names(),
    }


def inventory(docker: Docker) -> dict[str, list[str]]:
    """What a user has in an engine."""
    return {
        "containers": docker.lines("ps", "--all", "--format", "{{.ID}} {{.Names}} {{.State}}"),
        "networks": sorted(docker.lines("network", "ls", "--format", "{{.ID}} {{.Name}}")),
        "volumes": docker.lines("volume", "ls", "--quiet"),
        "images": sorted(docker.lines("image", "ls", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}")),
        "packet filter": [*packet_filter("iptables"), *packet_filter("ip6tables")],
    }
