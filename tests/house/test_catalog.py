"""rows.toml is well formed, and a row counts as shown under one strict rule."""

import json
from pathlib import Path

import pytest

from tests.plugins.catalog import Entry, Row, load, merge, rows_shown

ROWS_FILE = Path(__file__).parents[1] / "rows.toml"


def entry(case: str | None = None, outcome: str = "passed", ground: str = "none") -> Entry:
    return Entry(case=case, test="test_it", outcome=outcome, ground=ground)


def row(*grounds: str, cases: tuple[str | None, ...] = (None,)) -> Row:
    return Row("E-01", "wire", "something", dict.fromkeys(cases, grounds))


def test_a_row_is_shown_when_its_test_passed_on_its_ground() -> None:
    assert row("none").is_shown([entry()])


def test_a_row_without_a_test_is_not_shown() -> None:
    assert not row("none").is_shown([])


@pytest.mark.parametrize("outcome", ["failed", "skipped", "xfailed", "xpassed", "retried", "incomplete"])
def test_one_test_that_did_not_pass_keeps_its_row_from_being_shown(outcome: str) -> None:
    assert not row("none").is_shown([entry(), entry(outcome=outcome)])


def test_a_row_needs_every_one_of_its_cases() -> None:
    cases = row("none", cases=("a", "b"))
    assert not cases.is_shown([entry("a")])
    assert cases.is_shown([entry("a"), entry("b")])


def test_a_more_real_ground_stands_in() -> None:
    assert row("processes").is_shown([entry(ground="kind")])


def test_a_less_real_ground_does_not() -> None:
    assert not row("processes").is_shown([entry(ground="none")])


def test_where_several_grounds_are_listed_each_is_meant() -> None:
    both = row("none", "processes")
    assert not both.is_shown([entry(ground="processes"), entry(ground="kind")])
    assert both.is_shown([entry(ground="none"), entry(ground="processes")])


def test_cases_may_need_different_grounds(tmp_path: Path) -> None:
    rows = tmp_path / "rows.toml"
    rows.write_text('X-1 = { area = "a", shows = "s", cases = { live = "kind", pure = "none" } }')
    assert load(rows)["X-1"].needs == {"live": ("kind",), "pure": ("none",)}


def test_an_unknown_ground_in_the_list_is_named(tmp_path: Path) -> None:
    rows = tmp_path / "rows.toml"
    rows.write_text('X-1 = { area = "a", ground = "cloud", shows = "s" }')
    with pytest.raises(ValueError, match="row X-1: no ground 'cloud'"):
        load(rows)


def test_reports_of_several_runs_are_read_together(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json.dumps({"E-02": [entry("a")], "E-01": [entry()]}))
    two.write_text(json.dumps({"E-02": [entry("b")]}))
    assert list(merge([one, two]).items()) == [("E-01", [entry()]), ("E-02", [entry("a"), entry("b")])]


def test_the_rows_shown_are_named() -> None:
    rows = {"E-01": row("none"), "E-02": row("kind")}
    assert rows_shown(rows, {"E-01": [entry()], "E-02": [entry()]}) == ["E-01"]


def test_every_series_of_rows_is_complete() -> None:
    rows = load(ROWS_FILE)
    for series, last in {"E": 42, "M": 54, "Q": 48, "V": 36, "S": 23, "U": 26}.items():
        numbers = [name for name in rows if name.startswith(series)]
        assert numbers == [f"{series}-{number:02}" for number in range(1, last + 1)]


def test_every_row_says_what_it_shows_in_one_line_and_no_two_cases_are_the_same() -> None:
    for name, value in load(ROWS_FILE).items():
        assert 20 <= len(value.shows) <= 120, name
        assert value.area, name
