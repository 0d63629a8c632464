"""How a plan is printed: one function for each `-o`."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import click
import msgspec
import yaml
from gpuyard.cli.answer import answer
from gpuyard.cli.checks import verdicts
from gpuyard.cli.deadline import Deadline
from gpuyard.cli.drawing import Page
from gpuyard.cli.story import story
from gpuyard.cli.table import table
from gpuyard.cli.trace import document, trace
from gpuyard.engine.explain.pod import Explanation
from gpuyard.engine.kube.faults import Fault
from gpuyard.engine.model.results import Outcome
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot


class Planned(NamedTuple):
    """A snapshot and what became of it."""

    file: str
    """The name of the snapshot's file with `--each`, else empty."""
    before: Snapshot
    settings: Settings
    outcome: Outcome
    deadline: Deadline
    """What may still be looked for has to be found before it."""
    checks: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Pods of which it is asked whether they end up placed, by the name that was asked for."""
    explained: Explanation | None = None
    """All there is to know about one pod, where only that is asked for."""


def as_json(planned: Planned) -> str:
    """The plan as JSON to read."""
    return msgspec.json.format(msgspec.json.encode(_document(planned)), indent=2).decode() + "\n"


def as_line(planned: Planned) -> str:
    """The plan as one line of JSON."""
    return msgspec.json.encode(_document(planned)).decode() + "\n"


def as_yaml(planned: Planned) -> str:
    """The plan as YAML."""
    return "---\n" + _yaml(_document(planned))


def faulty(output: str, file: str, faults: Iterable[Fault]) -> str:
    """What stands in place of the plan of a snapshot that cannot be read."""
    lines = [str(fault) for fault in faults]
    document = {"file": file, "error": lines}
    if output in MACHINES - {"yaml"}:
        return msgspec.json.encode(document).decode() + "\n"
    return f"---\n{_yaml(document)}" if output == "yaml" else "".join(f"{line}\n" for line in lines)


def _document(planned: Planned) -> dict[str, object]:
    made = ({"file": planned.file} if planned.file else {}) | answer(planned.outcome)
    return made | ({"explain": document(planned.explained, planned.before)} if planned.explained else {})


def _yaml(document: object) -> str:
    text: str = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def as_table(planned: Planned) -> str:
    """The plan for people; in colour and as wide as the terminal where there is one."""
    answers = "".join(f"{line}\n" for line in verdicts(planned.before, planned.outcome, planned.checks))
    if planned.explained is not None:
        return answers + trace(planned.explained, planned.before, page())
    return _headed(
        planned, answers + table(planned.before, planned.settings, planned.outcome, page(), planned.deadline)
    )


def as_story(planned: Planned) -> str:
    """The plan told as a demo's output."""
    return _headed(planned, story(planned.before, planned.outcome))


def _headed(planned: Planned, text: str) -> str:
    return f"{planned.file}:\n{text}\n" if planned.file else text


def page() -> Page:
    """The terminal as it is; none where the output goes elsewhere."""
    return Page(_width(), _style)


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _style(text: str, colour: str) -> str:
    plain = os.environ.get("NO_COLOR") or not sys.stdout.isatty()
    return text if plain else click.style(text, fg=colour, bold=True)


MACHINES = frozenset({"json", "jsonl", "yaml"})
"""The outputs that programs read."""

PRINTERS: Mapping[str, Callable[[Planned], str]] = {
    "table": as_table,
    "story": as_story,
    "json": as_json,
    "jsonl": as_line,
    "yaml": as_yaml,
}
