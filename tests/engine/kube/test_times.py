"""Moments are read without a clock and a calendar library, and agree with them."""

from datetime import UTC, datetime

import pytest
from gpuyard.engine.kube.times import moment, written
from hypothesis import given
from hypothesis import strategies as st

MOMENTS = st.integers(min_value=0, max_value=int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()))


@given(MOMENTS)
def test_a_moment_is_what_the_calendar_says(seconds: int) -> None:
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    assert moment(text) == seconds
    assert written(seconds) == text


@pytest.mark.parametrize(
    "text",
    ["2026-01-01T00:00:00Z", "2026-01-01t00:00:00.999z", "2026-01-01T05:30:00+05:30", "2025-12-31T16:00:00-08:00"],
)
def test_fractions_are_cut_off_and_zones_are_taken_into_account(text: str) -> None:
    assert moment(text) == 1767225600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "today",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-01-01",
        "1969-12-31T23:59:59Z",
    ],
)
def test_what_is_no_time_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time, as 2026-01-31T12:00:00Z"):
        moment(text)


def test_nothing_lies_before_the_epoch() -> None:
    assert moment("1970-01-01T00:00:00+01:00") == 0
