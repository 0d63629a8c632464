"""Removes sandboxes, whole ones and what a crash left of one."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from gpuyard.sandbox import files, processes
from gpuyard.sandbox.folders import SANDBOXES
from gpuyard.sandbox.locks import held
from gpuyard.sandbox.spec import NAME

if TYPE_CHECKING:
    from pathlib import Path


def lock(folder: Path) -> Path:
    """The lock that whoever changes the sandbox in `folder` holds."""
    return folder.with_name(f"{folder.name}.lock")


def remove(folder: Path) -> bool:
    """End the sandbox's processes, which frees its ports, and remove its folder. False if there was nothing."""
    guard(folder)
    with held(lock(folder)):
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
