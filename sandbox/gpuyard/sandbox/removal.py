"""Removes sandboxes, whole ones and what a crash left of one."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from gpuyard.sandbox import files, processes
from gpuyard.sandbox.errors import told
from gpuyard.sandbox.folders import SANDBOXES
from gpuyard.sandbox.locks import held
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.spec import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuyard.sandbox.releases import Say


def lock(folder: Path) -> Path:
    """The lock that whoever changes the sandbox in `folder` holds."""
    return folder.with_name(f"{folder.name}.lock")


@contextlib.contextmanager
def at_work(folder: Path, say: Say) -> Iterator[None]:
    """Be the only one at work on a sandbox; a file that cannot be written is told in the sandbox's own words."""
    name = folder.name
    remedy = f"Make {folder} writable, with room for a few hundred MB, and run the command again."
    with (
        told(f"files of sandbox {name}", remedy),
        held(lock(folder), lambda: say(f"another command is at work on sandbox {name}: waiting")),
    ):
        yield


def remove(folder: Path, say: Say | None = None) -> bool:
    """End the sandbox's processes, which frees its ports, and remove its folder. False if there was nothing."""
    guard(folder)
    with at_work(folder, say or Progress()):
        found = folder.exists()
        while running := processes.of(folder):
            found = True
            for process in running.values():
                processes.end(process, grace=0)
        clear(folder)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
    return found


def guard(folder: Path) -> None:
    """Refuse to remove what is not the folder of one sandbox: ValueError."""
    if folder.parent.name != SANDBOXES or not NAME.fullmatch(folder.name):
        raise ValueError(f"{folder} is not the folder of a sandbox: nothing is removed")


def clear(folder: Path) -> None:
    """Remove the folder; the record goes first, so that what an interruption leaves does not count as a sandbox."""
    (folder / files.RECORD).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
