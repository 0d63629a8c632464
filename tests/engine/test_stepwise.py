"""What is done a little at a time comes to the same as at once."""

from collections.abc import Iterator
from random import Random

import pytest
from gpuyard.engine.stepwise import at_once, in_order


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 128, 2000])
def test_all_items_come_in_order_with_a_pause_for_every_few(size: int) -> None:
    items = Random(size).sample(range(10_000), size)
    found: list[int] = []

    def sorting() -> Iterator[None]:
        found.extend((yield from in_order(items)))

    assert len(list(sorting())) >= size // 8
    assert found == sorted(items)


def test_what_steps_come_to_can_be_had_at_once() -> None:
    assert at_once(in_order([3, 1, 2])) == [1, 2, 3]
