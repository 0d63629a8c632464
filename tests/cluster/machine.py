"""What engines and their clusters change on a machine, and what a user has in an engine: to be compared."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.sandbox import kind
from gpuyard.sandbox.kind import debian

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuyard.sandbox.kind.docker import Docker


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
    programs = (path.read_bytes().split(b"\0")[0].decode() for path in _cmdlines())
    return sorted(program for program in programs if wanted.search(program))


def _cmdlines() -> Iterator[Path]:
    return (path for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())


def traces() -> dict[str, Any]:
    """Everything of a machine that an engine and its clusters change."""
    return {
        "processes": engine_processes(),
        "iptables": packet_filter("iptables"),
        "ip6tables": packet_filter("ip6tables"),
        "links": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "mounts": sorted({line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()}),
        "cgroups": sorted(str(path) for path in Path("/sys/fs/cgroup").glob("*/*")),
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
