"""Utilization: the expressions that a user may write, and the value at a time."""

import pytest
from gpuyard.common.topology.utilization import Script, Span, UtilizationError, parse, seconds, value
from hypothesis import given
from hypothesis import strategies as st

DAY = '{"steps":[{"time":"1h","utilization":80},{"time":"1h","utilization":0}],"repeat":5}'
BARE = """
  {
      {
          time: "1h"
          utilization: 80
      },
      {
          time: "1h"
          utilization: 0
      }
      repeat: 5
  }
"""
HOUR = 3600


def at(text: str, hours: float) -> int:
    return value(parse(text), seed="uid", now=1000 + hours * HOUR, started=1000)


@pytest.mark.row("M-24")
@pytest.mark.parametrize(("hours", "percent"), [(0.5, 80), (1.5, 0), (8.5, 80), (9.98, 0), (12, 0)])
def test_a_script_plays_its_steps_again_and_then_stays(hours: float, percent: int) -> None:
    assert at(DAY, hours) == percent


@pytest.mark.row("M-25", case="loose-spelling")
def test_bare_objects_without_quotes_and_commas_mean_the_same_script() -> None:
    assert parse(BARE) == parse(DAY)


@pytest.mark.row("M-25", case="nonsense")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{what: ever}", "does not know 'what'"),
        ("{", "never closed"),
        ("{}}", "closing brace too many"),
        ("{}", "0 steps"),
        ("{{time: 1h}}", "exactly time and utilization"),
        ("{{time: 1x utilization: 5}}", "no duration"),
        ("{{time: 0s utilization: 5}}", "above zero"),
        ("{{time: 1h utilization: 500}}", "above 100"),
        ("{{time: 1h utilization: 5 utilization: 6}}", "written twice"),
        ("{{time: 1h utilization: 5} repeat: 0}", "from 1"),
        ("{80}", "without a key"),
        ("{time: <1h>}", "cannot read"),
        ("{" + "x" * 20_000, "longer than"),
    ],
)
def test_text_without_sense_is_refused_with_the_rule(text: str, reason: str) -> None:
    with pytest.raises(UtilizationError, match="write a whole number 0-100") as error:
        parse(text)
    assert reason in str(error.value)


@pytest.mark.parametrize("text", ["80-20", "200", "-1", "10.5", "abc", "", "1-200", "٣"])
def test_a_number_or_range_that_breaks_the_rule_is_refused(text: str) -> None:
    with pytest.raises(UtilizationError, match="range like 10-30"):
        parse(text)


@pytest.mark.row("M-26")
def test_a_range_draws_both_of_its_ends_and_nothing_outside() -> None:
    drawn = [value(parse("15-30"), seed="uid", now=second, started=0) for second in range(10_000)]
    assert set(drawn) == set(range(15, 31))
    assert drawn == [value(parse("15-30"), seed="uid", now=second, started=0) for second in range(10_000)]


def test_two_pods_with_one_range_are_not_drawn_alike() -> None:
    one, two = ([Span(0, 100).at(seed, second) for second in range(50)] for seed in ("a", "b"))
    assert one != two


def test_a_step_may_be_a_range() -> None:
    assert 10 <= at("{{time: 1h utilization: 10-30}}", 0.5) <= 30


def test_a_script_before_its_start_plays_its_first_step() -> None:
    assert at(DAY, -1) == 80


@pytest.mark.parametrize(("text", "length"), [("90s", 90), ("1h30m", 5400), ("0.5h", 1800), ("1d", 86400)])
def test_durations_add_up(text: str, length: float) -> None:
    assert seconds(text) == length


@given(st.integers(0, 100), st.integers(0, 100))
def test_what_is_written_is_read_back(one: int, two: int) -> None:
    span = Span(min(one, two), max(one, two))
    assert parse(str(span)) == span


def test_a_script_written_is_read_back() -> None:
    script = parse("{{time: 1h30m utilization: 10-30},{time: 5s utilization: 4} repeat: 2}")
    assert isinstance(script, Script)
    assert parse(str(script)) == script
