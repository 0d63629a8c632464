"""What `gpuyard doctor` finds: what was looked at, how it stands, what was seen, and what helps."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec
from gpuyard.cli.drawing import Page


class Status(StrEnum):
    """How something stands."""

    OK = "ok"
    WARN = "warn"
    """It works, but somebody should look at it."""
    FAIL = "fail"
    """It does not work, or not as queues need it."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    check: str
    status: Status
    seen: str
    """With the object or field that it is about."""
    remedy: str = ""
    """What helps; empty where all is well."""


_COLOURS = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red"}
_WIDTH = max(map(len, Status))


def all_well(findings: Iterable[Finding]) -> bool:
    """Whether nothing has to be looked at."""
    return all(each.status is Status.OK for each in findings)


def told(findings: Iterable[Finding], page: Page) -> str:
    """For people: a line for each, and one below it that says what helps."""
    return "".join(f"{line}\n" for each in findings for line in _lines(each, page))


def _lines(finding: Finding, page: Page) -> Iterator[str]:
    word = page.style(finding.status.ljust(_WIDTH), _COLOURS[finding.status])
    yield f"{word}  {finding.check}: {finding.seen}"
    if finding.remedy:
        yield f"{' ' * _WIDTH}  {finding.remedy}"
