"""Delays grow, stay short enough to notice a return, and differ between processes."""

from gpuyard.common.kube.backoff import Backoff
from hypothesis import given
from hypothesis import strategies as st


def test_delays_double_up_to_the_longest() -> None:
    backoff = Backoff(lambda: 0, first=1, longest=5)
    assert [backoff.delay() for _ in range(5)] == [1, 2, 4, 5, 5]


def test_after_a_reset_the_first_delay_comes_again() -> None:
    backoff = Backoff(lambda: 0, first=1, longest=5)
    backoff.delay()
    backoff.delay()
    backoff.reset()
    assert backoff.delay() == 1


def test_what_the_server_asks_for_is_waited_at_least() -> None:
    assert Backoff(lambda: 0, first=1).delay(at_least=7) == 7


@given(st.floats(0, 1), st.integers(0, 50))
def test_chance_shortens_a_delay_by_half_at_most(chance: float, attempts: int) -> None:
    backoff, steady = Backoff(lambda: chance), Backoff(lambda: 0)
    for _ in range(attempts):
        backoff.delay()
        steady.delay()
    full = steady.delay()
    assert full / 2 <= backoff.delay() <= full <= 3
