"""The one error of the sandbox: which step failed, why, what its log said last, and what to do about it."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LINES_SHOWN = 12
# How Go itself, etcd and klog begin the last thing that a program says.
BREAKDOWN = re.compile(r'^(panic|fatal error): |"level":"(panic|fatal)"|^F\d{4} ')


class SandboxError(Exception):
    """A step of the sandbox failed; its text is meant for the person who ran it."""

    def __init__(self, step: str, problem: str, *, remedy: str = "", log: Sequence[str] = ()) -> None:
        super().__init__(step, problem)
        self.step = step
        self.problem = problem
        self.remedy = remedy
        self.log = tuple(log)

    def __str__(self) -> str:
        """One paragraph: step and problem, the log's last lines, the remedy."""
        lines = [f"{self.step}: {self.problem}"]
        lines += [f"  | {line}" for line in self.log]
        if self.remedy:
            lines.append(self.remedy)
        return "\n".join(lines)


@contextlib.contextmanager
def told(step: str, remedy: str) -> Iterator[None]:
    """Tell of a file that cannot be read or written, or of a full disk, in the sandbox's own words."""
    try:
        yield
    except OSError as error:
        raise SandboxError(step, str(error), remedy=remedy) from error


def all_lines(log: Path) -> list[str]:
    """The lines of a log file; nothing if there is none."""
    try:
        return log.read_text(errors="replace").splitlines()
    except OSError:
        return []


def last_lines(log: Path, count: int = LINES_SHOWN) -> list[str]:
    """The end of a log file."""
    return all_lines(log)[-count:]


def telling(lines: Sequence[str], count: int = LINES_SHOWN) -> Sequence[str]:
    """Of a program's log, the lines from where it broke down, which a long stack may follow; else the last ones."""
    broke = next((number for number, line in enumerate(lines) if BREAKDOWN.search(line)), None)
    return lines[-count:] if broke is None else lines[broke : broke + count]
