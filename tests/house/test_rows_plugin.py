"""The pytest plugin of the house: wrong marks stop the collection, and the report says how each row fared."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = "pytester"

ROWS = """
E-01 = { area = "wire", ground = "none", shows = "one thing" }
E-02 = { area = "wire", ground = "processes", shows = "two things", cases = ["a", "b"] }
"""
INI = """
[pytest]
addopts = -p tests.plugins.rows
asyncio_default_fixture_loop_scope = function
rows_file = rows.toml
markers =
    row
    ground
    soak
    story
"""


@pytest.fixture(autouse=True)
def small_house(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with two rows."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makefile(".toml", rows=ROWS)
    pytester.makeini(INI)


def run(pytester: pytest.Pytester, body: str, *options: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    """Run a test module; the result and the report of its rows."""
    pytester.makepyfile(f"import pytest\n{body}")
    report = pytester.path / "build" / "rows.json"
    start = pytester.runpytest_subprocess if "-n" in options else pytester.runpytest_inprocess
    result = start("--rows", str(report), *options)
    return result, json.loads(report.read_text()) if report.exists() else {}


def outcomes(report: dict[str, Any], row: str = "E-01") -> list[str]:
    return [entry["outcome"] for entry in report[row]]


def test_a_passed_test_is_reported_under_its_row(pytester: pytest.Pytester) -> None:
    _, report = run(
        pytester,
        """
@pytest.mark.row("E-02", case="a")
@pytest.mark.ground("processes")
def test_it(): pass
""",
    )
    test = "test_a_passed_test_is_reported_under_its_row.py::test_it"
    assert report == {"E-02": [{"case": "a", "test": test, "outcome": "passed", "ground": "processes"}]}


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [
        ('row("E-99")', "*rows.toml has no row 'E-99'*"),
        ('row("E-02", case="c")', "*row E-02 has no case 'c': name one of a, b*"),
        ('row("E-02")', "*row E-02 has no case None: name one of a, b*"),
        ('row("E-01", case="a")', "*row E-01 has no cases: leave out case='a'*"),
        ('ground("cloud")', "*there is no ground 'cloud'; there are none, processes, kind*"),
    ],
)
def test_a_wrong_mark_stops_the_collection(pytester: pytest.Pytester, mark: str, complaint: str) -> None:
    result, _ = run(pytester, f"@pytest.mark.{mark}\ndef test_it(): pass")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert result.parseoutcomes() == {"errors": 1}
    result.stdout.fnmatch_lines([complaint])


def test_a_wrong_mark_stops_the_collection_through_xdist_too(pytester: pytest.Pytester) -> None:
    result, _ = run(pytester, "@pytest.mark.row('E-99')\ndef test_it(): pass", "-n", "1")
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*rows.toml has no row 'E-99'*"])


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("def test_it(): assert False", "failed"),
        ("def test_it(): pytest.skip('no')", "skipped"),
        ("@pytest.mark.skip(reason='no')\ndef test_it(): pass", "skipped"),
        ("@pytest.mark.xfail(reason='no')\ndef test_it(): assert False", "xfailed"),
        ("@pytest.mark.xfail(reason='no')\ndef test_it(): pass", "xpassed"),
    ],
)
def test_a_row_is_reported_as_its_test_ended(pytester: pytest.Pytester, body: str, outcome: str) -> None:
    _, report = run(pytester, f"@pytest.mark.row('E-01')\n{body}")
    assert outcomes(report) == [outcome]


def test_a_failing_teardown_spoils_a_passed_test(pytester: pytest.Pytester) -> None:
    _, report = run(
        pytester,
        """
@pytest.fixture
def cluster():
    yield
    raise RuntimeError("left something behind")

@pytest.mark.row("E-01")
def test_it(cluster): pass
""",
    )
    assert outcomes(report) == ["failed"]


def test_a_failing_setup_counts_as_failed(pytester: pytest.Pytester) -> None:
    _, report = run(
        pytester,
        """
@pytest.fixture
def cluster():
    raise RuntimeError("cannot be had")

@pytest.mark.row("E-01")
def test_it(cluster): pass
""",
    )
    assert outcomes(report) == ["failed"]


def test_a_test_that_runs_twice_is_retried_not_passed(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
from _pytest.runner import runtestprotocol
def pytest_runtest_protocol(item, nextitem):
    runtestprotocol(item, nextitem=nextitem)
    runtestprotocol(item, nextitem=nextitem)
    return True
""")
    _, report = run(pytester, "@pytest.mark.row('E-01')\ndef test_it(): pass")
    assert outcomes(report) == ["retried"]


def test_one_test_may_show_several_rows_and_each_parameter_its_own_case(pytester: pytest.Pytester) -> None:
    _, report = run(
        pytester,
        """
@pytest.mark.row("E-01")
@pytest.mark.parametrize("case", [
    pytest.param("a", marks=pytest.mark.row("E-02", case="a")),
    pytest.param("b", marks=pytest.mark.row("E-02", case="b")),
])
def test_it(case): assert case == "a"
""",
    )
    assert outcomes(report) == ["passed", "failed"]
    assert {entry["case"]: entry["outcome"] for entry in report["E-02"]} == {"a": "passed", "b": "failed"}


def test_the_report_is_the_same_through_xdist(pytester: pytest.Pytester) -> None:
    body = """
@pytest.mark.row("E-01")
@pytest.mark.parametrize("n", range(6))
def test_it(n): assert n != 3
"""
    _, alone = run(pytester, body)
    _, spread = run(pytester, body, "-n", "2")
    by_test = sorted(spread["E-01"], key=lambda entry: str(entry["test"]))
    assert by_test == alone["E-01"]


def test_junit_names_the_row_of_a_test(pytester: pytest.Pytester) -> None:
    run(pytester, "@pytest.mark.row('E-02', case='a')\ndef test_it(): pass", "--junit-xml=junit.xml")
    assert '<property name="row" value="E-02/a" />' in (pytester.path / "junit.xml").read_text()


LONG_AND_SHORT = """
@pytest.mark.soak
def test_long(): pass
def test_short_one(): pass
def test_short_two(): pass
"""


def test_long_runs_are_left_out_unless_asked_for(pytester: pytest.Pytester) -> None:
    result, _ = run(pytester, LONG_AND_SHORT)
    assert result.parseoutcomes() == {"passed": 2, "deselected": 1}


def test_soak_runs_the_long_ones_alone(pytester: pytest.Pytester) -> None:
    result, _ = run(pytester, LONG_AND_SHORT, "--soak")
    assert result.parseoutcomes() == {"passed": 1, "deselected": 2}


def test_a_soak_run_without_long_tests_passes(pytester: pytest.Pytester) -> None:
    result, _ = run(pytester, "def test_short(): pass", "--soak")
    assert result.ret == pytest.ExitCode.OK


def test_a_ground_without_tests_does_not_pass(pytester: pytest.Pytester) -> None:
    result, _ = run(pytester, "def test_short(): pass", "--ground", "kind")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_tests_of_one_ground_can_be_chosen(pytester: pytest.Pytester) -> None:
    body = "def test_pure(): pass\n@pytest.mark.ground('processes')\ndef test_real(): pass"
    result, _ = run(pytester, body, "--ground", "processes")
    assert result.parseoutcomes() == {"passed": 1, "deselected": 1}


BREAKING = """
import pathlib
def test_first(): pass
def test_second(): assert pathlib.Path("mended").exists()
def test_third(): pass
"""


def ran_once_more(pytester: pytest.Pytester, marks: str) -> pytest.RunResult:
    """Run three tests of which the second fails, mend what it misses, and try once more."""
    result, _ = run(pytester, marks + BREAKING)
    result.assert_outcomes(passed=2, failed=1)
    (pytester.path / "mended").touch()
    return run(pytester, marks + BREAKING, "--once-more")[0]


def test_once_more_runs_what_failed_and_nothing_else(pytester: pytest.Pytester) -> None:
    ran_once_more(pytester, "").assert_outcomes(passed=1, deselected=2)


def test_once_more_tells_a_story_from_its_beginning(pytester: pytest.Pytester) -> None:
    ran_once_more(pytester, "pytestmark = pytest.mark.story").assert_outcomes(passed=3)


def test_once_more_after_nothing_failed_runs_nothing(pytester: pytest.Pytester) -> None:
    result, _ = run(pytester, "def test_it(): pass", "--once-more")
    result.assert_outcomes(deselected=1)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
