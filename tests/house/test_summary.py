"""The end of a run tells what was shown, and hides neither a broken stage nor a skipped ground."""

from pathlib import Path

import pytest

from tests.plugins.catalog import Entry, Row
from tests.stages import Outcome, Result, Stage
from tests.summary import Case, Tally, read_junit, rows_lines, tally, tell

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite>
  <testcase classname="tests.engine.test_order" name="test_a" time="0.5">
    <properties><property name="ground" value="processes" /><property name="row" value="E-01/" /></properties>
  </testcase>
  <testcase classname="tests.engine.test_order" name="test_b" time="2.5"><failure message="no">x</failure></testcase>
  <testcase classname="tests.engine.test_order" name="test_c" time="0"><error message="no">x</error></testcase>
  <testcase classname="tests.engine.test_order" name="test_d" time="0"><skipped message="no">x</skipped></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    (tmp_path / "junit-unit.xml").write_text(JUNIT)
    return tmp_path


def case(outcome: str = "passed", ground: str = "none", seconds: float = 0) -> Case:
    return Case("test", outcome, ground, seconds)


def result(name: str, outcome: Outcome, ground: str = "") -> Result:
    return Result(Stage(name, (), ground=ground), outcome, 0, Path("none.log"))


def test_tests_are_read_with_outcome_ground_and_time(reports: Path) -> None:
    cases = list(read_junit(reports / "junit-unit.xml"))
    assert [(case.outcome, case.ground, case.seconds) for case in cases] == [
        ("passed", "processes", 0.5),
        ("failed", "none", 2.5),
        ("failed", "none", 0),
        ("skipped", "none", 0),
    ]
    assert cases[0].name == "tests.engine.test_order::test_a"


def test_the_closing_line_counts_tests(reports: Path) -> None:
    total = tally([result("unit", Outcome.FAILED, "none"), result("lint", Outcome.PASSED)], reports)
    assert total.closing_line() == "1 passed, 2 failed, 1 skipped"


def test_nothing_skipped_is_not_mentioned() -> None:
    assert Tally((case(), case()), ()).closing_line() == "2 passed, 0 failed"


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOT_RUN])
def test_a_stage_that_broke_without_a_failed_test_is_a_failure(tmp_path: Path, outcome: Outcome) -> None:
    total = tally([result("lint", outcome), result("cluster", outcome, "processes")], tmp_path)
    assert total.broken == ("lint", "cluster")
    assert total.closing_line() == "0 passed, 2 failed"


def test_a_ground_that_passed_without_a_test_is_a_failure(tmp_path: Path) -> None:
    total = tally([result("lint", Outcome.PASSED), result("unit", Outcome.PASSED, "none")], tmp_path)
    assert total.broken == ("unit",)
    assert total.closing_line() == "0 passed, 1 failed"


def test_a_ground_without_long_tests_is_no_failure_of_a_soak(tmp_path: Path) -> None:
    soaked = Result(Stage("kind", (), ground="kind", may_be_empty=True), Outcome.PASSED, 0, Path("none.log"))
    assert tally([soaked], tmp_path).broken == ()


def test_a_stage_with_failed_tests_is_counted_by_its_tests(reports: Path) -> None:
    assert tally([result("unit", Outcome.FAILED, "none")], reports).count("failed") == 2


def test_a_test_that_passed_only_when_repeated_is_told_apart(reports: Path) -> None:
    passed = '<testsuite><testcase classname="tests.engine.test_order" name="test_b" time="1" /></testsuite>'
    (reports / "junit-unit-again.xml").write_text(passed)
    total = tally([result("unit", Outcome.FAILED, "none")], reports)
    assert [(case.name, case.why) for case in total.repeated()] == [("tests.engine.test_order::test_b", "no")]
    assert total.closing_line() == "2 passed, 1 failed, 1 skipped"


def test_a_test_that_passed_counts_as_it_did_though_its_story_was_told_once_more(reports: Path) -> None:
    again = '<testsuite><testcase classname="tests.engine.test_order" name="test_a" time="9" /></testsuite>'
    (reports / "junit-unit-again.xml").write_text(again)
    total = tally([result("unit", Outcome.FAILED, "none")], reports)
    assert total.repeated() == []
    assert total.cases[0].seconds == 0.5


def test_a_failed_test_is_told_with_the_first_line_of_its_message(tmp_path: Path) -> None:
    failed = '<testcase classname="c" name="n" time="1"><failure message="no room&#10;at all" /></testcase>'
    (tmp_path / "junit-unit.xml").write_text(f"<testsuite>{failed}</testsuite>")
    [told] = tell(tally([result("unit", Outcome.FAILED, "none")], tmp_path).failed())
    assert told.split(maxsplit=2) == ["1.0", "s", "c::n: no room"]


def test_a_test_skipped_on_a_real_cluster_is_called_hidden() -> None:
    skipped = case("skipped", "kind")
    assert Tally((skipped, case("skipped"), case("passed", "kind")), ()).hidden() == [skipped]


def test_a_ground_has_run_when_a_test_passed_on_it() -> None:
    total = Tally((case(ground="kind"), case("failed", "processes"), case()), ())
    assert total.grounds() == ["none", "kind"]


def test_the_slowest_come_first() -> None:
    total = Tally(tuple(case(seconds=n) for n in (1, 9, 3, 7, 5, 2)), ())
    assert [case.seconds for case in total.slowest()] == [9, 7, 5, 3, 2]
    assert tell(total.slowest())[0] == "      9.0 s  test"


def test_rows_shown_are_counted_in_all_and_by_series() -> None:
    rows = {name: Row(name, "wire", "x", {None: ("none",)}) for name in ("E-01", "E-02", "M-01")}
    entry = Entry(case=None, test="test", outcome="passed", ground="none")
    lines = rows_lines(rows, {"E-02": [entry]})
    assert lines == ["rows shown: 1 of 3", "            E 1 of 2, M 0 of 1"]
