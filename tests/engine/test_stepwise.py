"""What is sorted a little at a time is sorted, with a pause for every few items."""

from collections.abc import Iterator
from random import Random

import pytest
from gpuyard.engine.stepwise import in_order


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 512, 2000])
def test_all_items_come_in_order_with_a_pause_for_every_few(size: int) -> None:
    items = Random(size).sample(range(10_000), size)
    found: list[int] = []

    def sorting() -> Iterator[None]:
        found.extend((yield from in_order(items)))

    assert len(list(sorting())) >= size // 16
    assert found == sorted(items)
