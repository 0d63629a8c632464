"""Quantities become integers exactly, and what is none is named."""

import pytest
from gpuyard.engine.kube import quantity
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "millicores"),
    [("2", 2000), (2, 2000), ("500m", 500), ("0.1", 100), (0.1, 100), ("1e3", 1_000_000), ("1500u", 2), ("0", 0)],
    ids=repr,
)
def test_cpu_is_counted_in_millicores_rounded_up(text: str | float, millicores: int) -> None:
    assert quantity.cpu(text) == millicores


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64Mi", 64 << 20),
        ("1.5Gi", 3 << 29),
        ("1G", 10**9),
        ("128974848", 128974848),
        ("100k", 100_000),
        ("5E", 5 * 10**18),
    ],
)
def test_memory_is_counted_in_bytes(text: str, size: int) -> None:
    assert quantity.size(text) == size


def test_a_count_must_be_whole() -> None:
    assert quantity.count("8") == 8
    with pytest.raises(ValueError, match=r"'0\.5' is not a whole number"):
        quantity.count("0.5")


@pytest.mark.parametrize(("text", "milli"), [("0.5", 500), (0.3, 300), ("0.3333", 333), ("0.3335", 334), (2, 2000)])
def test_a_scaled_number_is_rounded_to_the_nearest(text: str | float, milli: int) -> None:
    assert quantity.scaled(text, 3) == milli


@pytest.mark.parametrize(
    "text", ["", "x", "1x", "1 Gi", "--1", "1.2.3", ".", "1e", "Ki", "1K", "0x10", "\uff11", "9" * 65]
)
def test_what_is_no_quantity_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.size(text)


@pytest.mark.parametrize(
    ("text", "why"), [("-1", "negative"), ("-1m", "negative"), ("9E9E", "quantity"), ("1e99", "large")]
)
def test_what_nobody_can_ask_for_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        quantity.cpu(text)


def test_minus_zero_is_zero() -> None:
    assert quantity.cpu("-0") == 0


@given(st.integers(min_value=0, max_value=10**12))
def test_a_whole_number_keeps_its_value_in_every_notation(number: int) -> None:
    assert quantity.size(number) == quantity.size(str(number)) == quantity.size(f"{number}000m") == number
