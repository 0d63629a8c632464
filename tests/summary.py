"""What a run showed: tests counted from JUnit files, rows from the plugin's reports."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.plugins.catalog import GROUNDS, Row, Shown, rows_shown
from tests.stages import Outcome, Result

SLOWEST = 5


@dataclass(frozen=True)
class Case:
    """One test that was run."""

    name: str
    outcome: str
    ground: str
    seconds: float
    why: str = ""
    """The first line of what a failed test says."""
    repeated: bool = False
    """It failed at first; the outcome is that of a second attempt."""


@dataclass(frozen=True)
class Tally:
    """All tests of a run, and the stages that failed without a failed test to say so (lint, a broken start)."""

    cases: tuple[Case, ...]
    broken: tuple[str, ...]

    def count(self, outcome: str) -> int:
        """Count the tests that ended so; a broken stage is one more failure."""
        broken = len(self.broken) if outcome == "failed" else 0
        return broken + sum(case.outcome == outcome for case in self.cases)

    def hidden(self) -> list[Case]:
        """Find the tests that were skipped although they speak of a real cluster."""
        return [case for case in self.cases if case.outcome == "skipped" and case.ground != GROUNDS[0]]

    def failed(self) -> list[Case]:
        """Find the tests that failed."""
        return [case for case in self.cases if case.outcome == "failed"]

    def repeated(self) -> list[Case]:
        """Find the tests that passed only on their second attempt."""
        return [case for case in self.cases if case.repeated and case.outcome == "passed"]

    def grounds(self) -> list[str]:
        """Name the grounds on which at least one test passed."""
        passed = {case.ground for case in self.cases if case.outcome == "passed"}
        return [ground for ground in GROUNDS if ground in passed]

    def slowest(self) -> list[Case]:
        """Find the tests that took longest."""
        return sorted(self.cases, key=lambda case: -case.seconds)[:SLOWEST]

    def closing_line(self) -> str:
        """Say it all in one line, for people and for machines."""
        skipped = self.count("skipped")
        line = f"{self.count('passed')} passed, {self.count('failed')} failed"
        return f"{line}, {skipped} skipped" if skipped else line


def tally(results: Iterable[Result], reports: Path) -> Tally:
    """Count the tests of every stage that has some."""
    cases: list[Case] = []
    broken: list[str] = []
    for result in results:
        found = read_stage(reports, result.stage.name) if result.stage.ground else []
        cases += found
        if _broke(result, found):
            broken.append(result.stage.name)
    return Tally(tuple(cases), tuple(broken))


def _broke(result: Result, found: Sequence[Case]) -> bool:
    """Whether a stage failed without a failed test to say so, or passed without the tests that it is for."""
    if result.outcome is Outcome.PASSED:
        return bool(result.stage.ground) and not found and not result.stage.may_be_empty
    return not any(case.outcome == "failed" for case in found)


def read_stage(reports: Path, name: str) -> list[Case]:
    """Read the tests of a stage, a second attempt in the place of a failed first, which said why."""
    again = {case.name: case for case in read_junit(reports / f"junit-{name}-again.xml")}
    return [_second(case, again.get(case.name)) for case in read_junit(reports / f"junit-{name}.xml")]


def _second(first: Case, second: Case | None) -> Case:
    if second is None or first.outcome != "failed":
        return first
    return replace(second, repeated=True, why=second.why or first.why)


def read_junit(path: Path) -> Iterator[Case]:
    """Read the tests of one JUnit file; none if the run broke before it was written."""
    if path.exists():
        root = ET.parse(path).getroot()  # noqa: S314 - our own pytest wrote it
        yield from (_case(element) for element in root.iter("testcase"))


def _case(element: ET.Element) -> Case:
    properties = {prop.get("name"): prop.get("value") for prop in element.iter("property")}
    return Case(
        name=f"{element.get('classname', '')}::{element.get('name', '')}",
        outcome=_outcome({child.tag for child in element}),
        ground=properties.get("ground") or GROUNDS[0],
        seconds=float(element.get("time", 0)),
        why=_why(element),
    )


def _why(element: ET.Element) -> str:
    said = [child.get("message") or "" for child in element if child.tag in {"failure", "error"}]
    return next((message.strip().partition("\n")[0] for message in said), "")


def _outcome(tags: set[str]) -> str:
    if tags & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in tags else "passed"


def rows_lines(rows: Mapping[str, Row], shown: Shown) -> list[str]:
    """Say how many rows are shown, in all and in each series."""
    names = rows_shown(rows, shown)
    series = Counter(name[0] for name in rows)
    done = Counter(name[0] for name in names)
    parts = ", ".join(f"{letter} {done[letter]} of {total}" for letter, total in series.items())
    return [f"rows shown: {len(names)} of {len(rows)}", f"            {parts}"]


def tell(cases: Iterable[Case]) -> list[str]:
    """Write tests with their times, one a line."""
    return [f"  {case.seconds:7.1f} s  {case.name}{': ' * bool(case.why)}{case.why}" for case in cases]
