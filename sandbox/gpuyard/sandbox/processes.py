"""Starts, finds and ends the processes of a sandbox; the kernel's process table is the only record of them.

Every process carries a mark in its environment: the sandbox's folder, the component, a digest of how it was started.
So nothing has to be written down when one starts, a crash at any moment loses nothing, and no number of a process
that is long gone is ever signalled. Linux only: it reads /proc and uses process file descriptors.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "GPUYARD_SANDBOX_PROCESS"
PROC = Path("/proc")
SEPARATOR = "\t"


@dataclass(frozen=True)
class Process:
    """A running component of the sandbox in `folder`; `digest` tells how it was started."""

    pid: int
    folder: Path
    component: str
    digest: str


def start(command: list[str], folder: Path, component: str, digest: str, log: Path) -> Process:
    """Start a program in a session of its own, its output appended to `log`."""
    mark = SEPARATOR.join((str(folder), component, digest))
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        command,
        # Programs that write into the home folder find the sandbox's instead of the user's.
        {"HOME": str(folder), "PATH": os.defpath, MARK: mark},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return Process(pid, folder, component, digest)


def running() -> list[Process]:
    """Every process of any sandbox of this user."""
    return [process for pid in _pids() if (process := _read(pid))]


def of(folder: Path) -> dict[str, Process]:
    """The running components of the sandbox in `folder`."""
    return {process.component: process for process in running() if process.folder == folder}


def alive(process: Process) -> bool:
    """Whether the process still runs; one that ended is also taken off the process table, if it is our child."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return _read(process.pid) == process


def paused(process: Process) -> bool:
    """Whether the process is frozen by a signal."""
    with contextlib.suppress(OSError):
        # Behind the program's name, in brackets, comes one letter for the state.
        return (PROC / str(process.pid) / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def send(process: Process, number: signal.Signals) -> None:
    """Signal exactly this process; nothing happens if it is gone."""
    with _descriptor(process) as descriptor:
        if descriptor is not None:
            signal.pidfd_send_signal(descriptor, number)


def end(process: Process, *, grace: float) -> None:
    """Ask the process to stop, kill it when the grace is over, and return when it is gone."""
    with _descriptor(process) as descriptor:
        if descriptor is None:
            return
        if grace > 0:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        if not _gone(descriptor, grace):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            _gone(descriptor, None)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, 0)


@contextlib.contextmanager
def _descriptor(process: Process) -> Iterator[int | None]:
    """A handle on the process that cannot come to mean another one; None if it is gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            yield descriptor if _read(process.pid) == process else None
    finally:
        os.close(descriptor)


def _gone(descriptor: int, within: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if within is None else within * 1000))


def _pids() -> list[int]:
    # Other systems have none, and none of our processes.
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()] if PROC.is_dir() else []


def _read(pid: int) -> Process | None:
    """The process with this number, if it is one of ours. Other users' processes cannot be read and are not."""
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    mark = _mark(environment).split(SEPARATOR)
    if len(mark) != 3:  # noqa: PLR2004 - folder, component, digest
        return None
    return Process(pid, Path(mark[0]), mark[1], mark[2])


def _mark(environment: bytes) -> str:
    prefix = f"{MARK}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry.removeprefix(prefix).decode()
    return ""
