"""Lent GPUs come back: through the real kube-scheduler, the Eviction API and Plan objects."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.planner import evicted, states_of

if TYPE_CHECKING:
    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")

OLD = [f"old-{number}" for number in range(4)]
NEW = [f"new-{number}" for number in range(4)]
OWN = [f"own-{number}" for number in range(4)]


@pytest.fixture
def lent(yard: Yard) -> str:
    """The borrower's queue: it owns half of the cluster and runs on all of it."""
    borrower = yard.queue("borrower", quota=16)
    for names in (OLD, NEW):
        yard.submit(*names, queue=borrower, gpus=4)
        yard.until(lambda names=names: yard.placed() >= set(names), 20, "they run")  # type: ignore[misc]
        time.sleep(1.1)  # creation times are whole seconds
    return borrower


@pytest.mark.usefixtures("lent")
def test_a_queue_gives_back_what_it_borrowed_and_not_more(yard: Yard) -> None:
    owner = yard.queue("owner", quota=16)
    yard.submit(*OWN, queue=owner, gpus=4)
    yard.until(lambda: yard.placed() == {*OLD, *OWN}, 60, "the owner has its half")
    assert sorted(evicted(yard)) == NEW
    yard.until(lambda: set(states_of(yard, owner)) == {"Kept"}, 15, "the plans are kept")
    yard.submit("fifth", queue=owner, gpus=4)
    yard.until(lambda: "fifth" in yard.verdicts(), 15, "one more waits")
    yard.rests(lambda: len(evicted(yard)) == 4 and yard.placed() == {*OLD, *OWN}, 4, "nobody leaves for it")
