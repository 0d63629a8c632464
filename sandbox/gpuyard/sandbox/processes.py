"""Starts, finds and ends the processes of a sandbox; the kernel's process table is the only record of them.

Every process carries a mark in its environment: the sandbox's folder, the component, a digest of how it was started.
So nothing has to be written down when one starts, and a crash at any moment loses nothing. A process once found is
known by its number and the moment of its start: these stay when it turns into another program, and no number of a
process that is long gone is ever signalled. Linux only: it reads /proc and uses process file descriptors.

Decided in docs/decisions.md: "The process table is the sandbox's only record of processes".
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "GPUYARD_SANDBOX_PROCESS"
PROC = Path("/proc")
SEPARATOR = "\t"
TURNS_WITHIN = 5.0
POLL = 0.001

# Of what /proc/<pid>/stat says behind the program's name, and of the kernel's flags of a process.
STATE, FLAGS, STARTED = 0, 6, 19
ENVIRONMENT = slice(47, 49)
OF_THE_KERNEL = 0x200000
GONE = {"Z", "X"}


@dataclass(frozen=True)
class Process:
    """A running component of the sandbox in `folder`; `digest` tells how it was started, `started` when, in ticks."""

    pid: int
    folder: Path
    component: str
    digest: str
    started: int = 0


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
    return Process(pid, folder, component, digest, _started(pid) or 0)


def running() -> list[Process]:
    """Every process of any sandbox of this user."""
    return [process for pid in _pids() if (process := _read(pid))]


def of(folder: Path) -> dict[str, Process]:
    """The running components of the sandbox in `folder`; of a component and what it started, the one that was first."""
    latest_first = sorted(running(), key=lambda process: (-process.started, -process.pid))
    return {process.component: process for process in latest_first if process.folder == folder}


def alive(process: Process) -> bool:
    """Whether the process still runs; one that ended is also taken off the process table, if it is our child."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return _started(process.pid) == process.started


def paused(process: Process) -> bool:
    """Whether the process is frozen by a signal."""
    stat = _stat(process.pid)
    return bool(stat) and stat[STATE] == "T"


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
            yield descriptor if _started(process.pid) == process.started else None
    finally:
        os.close(descriptor)


def _gone(descriptor: int, within: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if within is None else within * 1000))


def _pids() -> list[int]:
    # Other systems have none, and none of our processes.
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()] if PROC.is_dir() else []


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process behind its program's name, which is in brackets; nothing if it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _started(pid: int) -> int | None:
    """When the process with this number was started; None if it is gone, or only waits to be taken off the table."""
    stat = _stat(pid)
    return int(stat[STARTED]) if stat and stat[STATE] not in GONE else None


def _read(pid: int) -> Process | None:
    """The process with this number, if it is one of ours. Other users' processes cannot be read and are not."""
    started = _started(pid)
    mark = _mark(_environment(pid)).split(SEPARATOR)
    if started is None or len(mark) != 3:  # noqa: PLR2004 - folder, component, digest
        return None
    return Process(pid, Path(mark[0]), mark[1], mark[2], started)


def _environment(pid: int) -> bytes:
    """A process's environment. While it turns into another program it has none for a moment: that is waited for."""
    deadline = time.monotonic() + TURNS_WITHIN
    while True:
        try:
            found = (PROC / str(pid) / "environ").read_bytes()
        except OSError:
            return b""
        if found or not _turns(_stat(pid)) or time.monotonic() > deadline:
            return found
        time.sleep(POLL)


def _turns(stat: list[str]) -> bool:
    """Whether the environment that was not there is still to come, or has come by now."""
    if not stat or stat[STATE] in GONE or int(stat[FLAGS]) & OF_THE_KERNEL:
        return False
    begin, end = stat[ENVIRONMENT]
    return begin == "0" or begin != end


def _mark(environment: bytes) -> str:
    prefix = f"{MARK}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry.removeprefix(prefix).decode()
    return ""
