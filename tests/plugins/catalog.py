"""The acceptance rows of rows.toml, and the one rule that says when a row counts as shown."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

GROUNDS = ("none", "processes", "kind")
"""What a test stands on, the least real first."""


class Entry(TypedDict):
    """One test that speaks of a row, and how it ended."""

    case: str | None
    test: str
    outcome: str
    ground: str


Shown = dict[str, list[Entry]]
"""Row id → the tests that speak of it."""


@dataclass(frozen=True)
class Row:
    """One promise: what it shows, and the ground or grounds each of its cases needs."""

    id: str
    area: str
    shows: str
    needs: Mapping[str | None, tuple[str, ...]]

    def fault(self, case: str | None) -> str | None:
        """Say what is wrong with naming `case` of this row, or nothing."""
        if case in self.needs:
            return None
        if None in self.needs:
            return f"row {self.id} has no cases: leave out case={case!r}"
        cases = ", ".join(map(str, self.needs))
        return f"row {self.id} has no case {case!r}: name one of {cases}"

    def is_shown(self, entries: Iterable[Entry]) -> bool:
        """Every test of the row passed, and every case has one on each ground it needs."""
        entries = list(entries)
        return all(entry["outcome"] == "passed" for entry in entries) and all(
            any(entry["case"] == case and _stands(entry["ground"], ground, grounds) for entry in entries)
            for case, grounds in self.needs.items()
            for ground in grounds
        )


def _stands(actual: str, needed: str, listed: tuple[str, ...]) -> bool:
    """A more real ground stands in for the needed one, unless several are listed: then each is meant."""
    more_real = GROUNDS.index(actual) > GROUNDS.index(needed)
    return actual == needed or (more_real and len(listed) == 1)


def load(path: Path) -> dict[str, Row]:
    """Read rows.toml; a KeyError or ValueError names the row that is not well formed."""
    with path.open("rb") as file:
        return {name: _row(name, value) for name, value in tomllib.load(file).items()}


def _row(name: str, value: dict[str, Any]) -> Row:
    cases = value.get("cases")
    if isinstance(cases, dict):
        needs = {case: _grounds(name, ground) for case, ground in cases.items()}
    else:
        needs = dict.fromkeys(cases or [None], _grounds(name, value["ground"]))
    return Row(name, value["area"], value["shows"], needs)


def _grounds(name: str, value: str | list[str]) -> tuple[str, ...]:
    grounds = (value,) if isinstance(value, str) else tuple(value)
    for ground in grounds:
        if ground not in GROUNDS:
            raise ValueError(f"row {name}: no ground {ground!r}; there are {', '.join(GROUNDS)}")
    return grounds


def merge(files: Iterable[Path]) -> Shown:
    """Put the reports of several runs together, rows in order."""
    shown: Shown = {}
    for file in files:
        for row, entries in json.loads(file.read_text()).items():
            shown.setdefault(row, []).extend(entries)
    return dict(sorted(shown.items()))


def rows_shown(rows: Mapping[str, Row], shown: Shown) -> list[str]:
    """Name the rows that count as shown."""
    return [name for name, row in rows.items() if row.is_shown(shown.get(name, []))]
