"""Rows Q-10 to Q-13: which workloads may run at all, and the bound that is named when one may not."""

import pytest
from gpuyard.engine.model.results import Bound, Reason

from tests.engine.builders import yard


@pytest.mark.row("Q-10", case="preemptible")
def test_a_quota_is_no_cap_for_what_can_be_preempted() -> None:
    told = yard().nodes(1).queue("a", quota=2).pending("a", gpus=5).plan()
    assert told.placed() == ["a-1"]


@pytest.mark.row("Q-10", case="non-preemptible")
def test_a_quota_is_a_cap_for_what_cannot_be_preempted() -> None:
    told = yard().nodes(1).queue("a", quota=2).pending("a", gpus=5, preemptible=False).plan()
    assert told.waits() == ["a-1"]
    assert told.reason("a-1") is Reason.NON_PREEMPTIBLE_OVER_QUOTA
    assert told.facts("a-1") == Bound(queue="a", resource="gpu", kind="quota", bound=2000, used=0, asked=5000)


@pytest.mark.row("Q-11", case="queue")
def test_a_queue_at_its_limit_is_refused() -> None:
    told = yard().nodes(2).queue("a", quota=8, limit=8).running("a", 8).pending("a").plan()
    assert told.reason("a-9") is Reason.OVER_LIMIT
    assert told.facts("a-9") == Bound(queue="a", resource="gpu", kind="limit", bound=8000, used=8000, asked=1000)


@pytest.mark.row("Q-11", case="department")
def test_a_limit_further_up_names_whose_it_is() -> None:
    some = yard().nodes(2).queue("d", quota=8, limit=10).queue("a", parent="d", quota=8)
    told = some.running("a", 9).pending("a", gpus=2).plan()
    assert told.reason("a-10") is Reason.OVER_LIMIT
    assert told.facts("a-10") == Bound(queue="d", resource="gpu", kind="limit", bound=10_000, used=9000, asked=2000)


@pytest.mark.row("Q-12", case="fits")
def test_fractions_are_added_exactly() -> None:
    some = yard().nodes(1).queue("a", quota="0.3")
    some.running("a", gpus="0.1", preemptible=False, pod={"gpu_groups": ("gpu-0",)})
    told = some.pending("a", gpus="0.2", preemptible=False).plan()
    assert told.placed() == ["a-1", "a-2"]


@pytest.mark.row("Q-12", case="one-milli-over")
def test_a_thousandth_of_a_gpu_over_the_quota_is_refused() -> None:
    some = yard().nodes(1).queue("a", quota="0.3")
    some.running("a", gpus="0.1", preemptible=False, pod={"gpu_groups": ("gpu-0",)})
    told = some.pending("a", gpus="0.201", preemptible=False).plan()
    assert told.reason("a-2") is Reason.NON_PREEMPTIBLE_OVER_QUOTA


@pytest.mark.row("Q-13")
def test_a_limit_that_nobody_set_counts_as_0_and_says_so() -> None:
    told = yard().nodes(1).queue("a", quota=8, limit=0, unset=("gpu.limit",)).pending("a").plan()
    assert told.reason("a-1") is Reason.OVER_LIMIT
    facts = told.facts("a-1")
    assert isinstance(facts, Bound)
    assert facts.unset
    assert "its gpu limit is not set, which counts as 0" in told.sentence("a-1")
