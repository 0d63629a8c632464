"""Waiting for a cluster: bounded, patient with the errors that a test expects, and clear about what it saw last."""

from collections.abc import Callable

import pytest

from tests.mock.daemons import eventually


class RefusedError(Exception):
    """What a test expects for a while."""


def refusing(times: int) -> Callable[[], str]:
    """A check that raises so many times before it holds."""
    left = iter(range(times))

    def check() -> str:
        if next(left, None) is not None:
            raise RefusedError("pod does not exist")
        return "held"

    return check


@pytest.mark.row("B-30", case="waiting")
def test_an_expected_error_is_waited_out() -> None:
    eventually(refusing(3), pause=0, tolerate=RefusedError)


@pytest.mark.row("B-30", case="waiting")
def test_the_last_error_is_in_the_failure_when_the_time_is_over() -> None:
    with pytest.raises(AssertionError, match="pod does not exist"):
        eventually(refusing(1_000_000), within=0, pause=0, tolerate=RefusedError)


@pytest.mark.row("B-30", case="waiting")
def test_an_error_that_nobody_expects_ends_the_wait_at_once() -> None:
    with pytest.raises(RefusedError):
        eventually(refusing(1), pause=0)
