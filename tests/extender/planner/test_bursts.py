"""When the planner decides about pods that have only just come, which kube-scheduler may place by itself."""

from datetime import UTC, datetime
from typing import Any

import pytest
from gpuyard.extender.planner import loop

from tests.extender.builders import Json, node, pod, queue
from tests.extender.planner.stage import Stage


def split(stage: Stage, **given: Any) -> Json:  # noqa: ANN401 - parts of a Pod
    """A pod that fits on neither node, though there is enough in sum; it has come this very moment."""
    now = datetime.fromtimestamp(stage.bench.today, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return pod("large", "team", 4, created=now, **given)


@pytest.fixture
def halves() -> Stage:
    """Two nodes with three free GPUs each, and nobody who could move."""
    fixed = (pod(f"fixed-{number}", "team", 5, on=f"n{number}", fixed=True) for number in (1, 2))
    return Stage(node("n1"), node("n2"), queue("team"), *fixed)


async def test_nothing_is_decided_for_a_burst_that_only_stands_in_kube_schedulers_queue(halves: Stage) -> None:
    halves.submit(split(halves))
    await halves.look()
    assert halves.ear.heard == []


async def test_who_is_refused_is_decided_about_at_once(halves: Stage) -> None:
    halves.submit(split(halves, verdict="0/2 nodes are available: 2 Insufficient nvidia.com/gpu."))
    await halves.look()
    assert halves.ear.heard == [("large", "Fragmented")]


async def test_of_whom_nobody_speaks_for_long_is_decided_about_all_the_same(halves: Stage) -> None:
    halves.submit(split(halves))
    await halves.look()
    await halves.look(after=loop.IN_LINE)
    assert halves.ear.heard == [("large", "Fragmented")]


async def test_where_room_is_short_nobody_is_waited_for(halves: Stage) -> None:
    halves.submit(split(halves), pod("more", "team", 4))
    await halves.look()
    assert {name for name, _ in halves.ear.heard} == {"large", "more"}
