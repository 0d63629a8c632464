"""The pytest plugin of the house: marks tests with the rows they show and the ground they stand on, and reports both.

`@pytest.mark.row("E-16", case="budget")` names a row of rows.toml; a name that is not there is a collection error.
`@pytest.mark.ground("processes")` says what the test needs; without it a test stands on nothing but Python. `--ground`
chooses the tests of one ground.
`@pytest.mark.soak` sets a long run aside: `--soak` runs these and only these.
`@pytest.mark.alone` says that its limits of time hold on a quiet machine: `-m alone` chooses these.
`--once-more` runs what failed the last time, and all of a module marked `story`, in which each test goes on where the
one before it ended.

Decided in docs/decisions.md: "Rows are marks on tests, not a document".
"""

import json
from collections.abc import Collection, Generator, Iterator
from pathlib import Path

import pytest

from tests.plugins.catalog import GROUNDS, Entry, Row, Shown, load

# Where pytest keeps the names of what failed.
FAILED = "cache/lastfailed"
ROWS = pytest.StashKey[dict[str, Row]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpuyard")
    group.addoption("--rows", metavar="FILE", type=Path, help="write which rows were shown, as JSON")
    group.addoption("--ground", choices=GROUNDS, help="run the tests that stand on this ground, and only them")
    group.addoption("--soak", action="store_true", help="run the tests marked soak, and only them")
    group.addoption("--once-more", action="store_true", help="run the tests that failed the last time, and only them")
    parser.addini("rows_file", "where the rows are listed", default="tests/rows.toml")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = load(config.rootpath / config.getini("rows_file"))
    is_worker = hasattr(config, "workerinput")
    if (path := config.getoption("--rows")) and not is_worker:
        config.pluginmanager.register(Reporter(path))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a wrong mark into an error of the module that has it."""
    report = yield
    items = [node for node in report.result or [] if isinstance(node, pytest.Item)]
    faults = [f"{item.nodeid}: {fault}" for item in items for fault in _faults(item)]
    if faults and report.passed:
        report.outcome = "failed"
        report.longrepr = "\n".join(dict.fromkeys(faults))
    return report


def _faults(item: pytest.Item) -> Iterator[str]:
    rows = item.config.stash[ROWS]
    for name, case in _rows(item):
        if name not in rows:
            yield f"rows.toml has no row {name!r}"
        elif fault := rows[name].fault(case):
            yield fault
    if (ground := _ground(item)) not in GROUNDS:
        yield f"there is no ground {ground!r}; there are {', '.join(GROUNDS)}"


def _rows(item: pytest.Item) -> list[tuple[str, str | None]]:
    return [_row(*mark.args, **mark.kwargs) for mark in item.iter_markers("row")]


def _row(name: str, case: str | None = None) -> tuple[str, str | None]:
    return name, case


def _ground(item: pytest.Item) -> str:
    mark = item.get_closest_marker("ground")
    return str(mark.args[0]) if mark else GROUNDS[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose by ground, length and fate; give each test its marks as properties, which also xdist passes on."""
    chosen = [item for item in items if _is_chosen(item)]
    if config.getoption("--once-more"):
        failed = set(config.cache.get(FAILED, {}))
        chosen = [item for item in chosen if _is_needed(item, failed)]
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen
    for item in items:
        item.user_properties.append(("ground", _ground(item)))
        item.user_properties.extend(("row", f"{name}/{case or ''}") for name, case in _rows(item))


def _is_needed(item: pytest.Item, failed: Collection[str]) -> bool:
    """Whether a test failed, or leads to one that did."""
    module = item.nodeid.partition("::")[0]
    is_story = item.get_closest_marker("story") is not None
    return item.nodeid in failed or (is_story and any(name.partition("::")[0] == module for name in failed))


def _is_chosen(item: pytest.Item) -> bool:
    is_long = item.get_closest_marker("soak") is not None
    ground = item.config.getoption("--ground") or _ground(item)
    return is_long == item.config.getoption("--soak") and _ground(item) == ground


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a ground without long tests pass a soak run."""
    if session.config.getoption("--soak") and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


class Reporter:
    """Gathers how each test with a row ended, and writes it when the session is over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, list[tuple[str, Entry]]] = {}
        self.phases: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase of a test; the whole is as bad as its worst phase."""
        phases = self.phases.setdefault(report.nodeid, [])
        retried = report.when in phases
        phases.append(report.when)
        entries = self.entries.setdefault(report.nodeid, list(_entries(report)))
        outcome = "retried" if retried else _outcome(report)
        for _, entry in entries:
            if entry["outcome"] in {"passed", "incomplete"}:
                entry["outcome"] = outcome

    def pytest_sessionfinish(self) -> None:
        """Write the rows, those with the same id together."""
        shown: Shown = {}
        for entries in self.entries.values():
            for row, entry in entries:
                shown.setdefault(row, []).append(entry)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(dict(sorted(shown.items())), indent=1) + "\n")


def _entries(report: pytest.TestReport) -> Iterator[tuple[str, Entry]]:
    properties = [(str(key), str(value)) for key, value in report.user_properties]
    ground = dict(properties).get("ground", GROUNDS[0])
    for key, value in properties:
        if key == "row":
            name, _, case = value.partition("/")
            yield name, Entry(case=case or None, test=report.nodeid, outcome="incomplete", ground=ground)


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xpassed" if report.passed else "xfailed"
    if report.when != "call" and report.passed:
        return "passed" if report.when == "teardown" else "incomplete"
    return report.outcome
