"""Room that a plan keeps, through the real kube-scheduler: for whom it was made, and for nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")


@pytest.mark.row("E-39")
def test_a_pod_that_nobody_governs_never_gets_the_room_that_is_made_for_another(yard: Yard) -> None:
    lender, owner = yard.queue("lender", quota=0), yard.queue("owner", quota=8)
    borrowers = {f"borrower-{number}" for number in range(4)}
    yard.submit(*borrowers, queue=lender, gpus=8, terminationGracePeriodSeconds=5)
    yard.until(lambda: yard.placed() == borrowers, 15, "the cluster is full")
    yard.submit("stranger", gpus=8)
    yard.submit("claimant", queue=owner, gpus=8)
    yard.until(lambda: "claimant" in yard.placed(), 60, "room is made for the claimant")
    assert "stranger" not in yard.placed()
    yard.delete("claimant")
    yard.until(lambda: "stranger" in yard.placed(), 30, "what is nobody's any more is for all")
