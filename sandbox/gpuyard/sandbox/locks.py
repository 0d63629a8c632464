"""A lock between processes that leaves nothing behind: neither a held lock after a crash, nor a file after use."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

POLL = 0.1


@contextlib.contextmanager
def held(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock named by `path`; `waiting` is called once if somebody else has it.

    The kernel frees the lock when its holder dies, however it dies.
    """
    descriptor = _take(path, waiting)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _take(path: Path, waiting: Callable[[], None]) -> int:
    told = False
    while True:
        descriptor = _open(path)
        if _locked(descriptor) and _still_there(path, descriptor):
            return descriptor
        os.close(descriptor)
        if not told:
            waiting()
            told = True
        time.sleep(POLL)


def _open(path: Path) -> int:
    while True:
        # Whoever removes the last sandbox removes the folder of the locks, too, maybe between these two lines.
        with contextlib.suppress(FileNotFoundError):
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still_there(path: Path, descriptor: int) -> bool:
    # The holder before us removes the file: a lock on a removed file would exclude nobody.
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False
