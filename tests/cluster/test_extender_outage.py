"""The API server away for a minute, in the middle of the work: nothing is granted twice, and all goes on afterwards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import down
from gpuyard.sandbox.demo.stage import set_up

from tests.cluster.planner import evicted
from tests.cluster.yard import Yard

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(900)]

AWAY = 60
"""Seconds; after 75 the extender would say that it is cut off."""

LIMIT = 20
API_SERVER = "kube-apiserver"


@pytest.fixture
def broken(sandbox_names: Iterator[str]) -> Iterator[Yard]:
    """A sandbox of its own: what happens here is nothing for other tests."""
    cluster = set_up(next(sandbox_names), print)
    try:
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        yield Yard(cluster, "default")
    finally:
        down(cluster.name)


def of_team(yard: Yard, team: str) -> set[str]:
    return {
        name
        for name, pod in yard.pods().items()
        if pod["metadata"]["labels"].get("kai.scheduler/queue") == team and pod["spec"].get("nodeName")
    }


def bindings(yard: Yard) -> list[str]:
    """The pods that were bound, once for each time."""
    return [
        one["objectRef"]["name"]
        for one in yard.audit("create", "pods", subresource="binding")
        if one.get("responseStatus", {}).get("code") == 201
    ]


def test_a_minute_without_the_api_server_under_load_breaks_no_limit_and_costs_nobody_his_place(broken: Yard) -> None:
    team, other = broken.queue("team", limit=LIMIT, quota=LIMIT), broken.queue("other", quota=4)
    broken.submit(*(f"runs-{number}" for number in range(10)), queue=team)
    broken.until(lambda: len(of_team(broken, team)) == 10, 60, "ten run")
    # kube-scheduler is in the middle of these when the API server goes.
    broken.submit("large", queue=team, gpus=LIMIT + 1)
    large = broken.one("large")
    broken.submit(*(f"burst-{number}" for number in range(40)), queue=team)
    broken.cluster.kill(API_SERVER)
    over = time.monotonic() + AWAY
    while time.monotonic() < over:
        answer = broken.filter(large)
        assert answer["Error"] or not answer["NodeNames"], "the limit holds while nobody can be asked"
        time.sleep(1)
    broken.cluster.start(API_SERVER)
    broken.until(lambda: len(of_team(broken, team)) == LIMIT, 180, "as many run as may")
    broken.submit("late", queue=other, gpus=4)
    broken.until(lambda: "late" in broken.placed(), 120, "new ones run as well")
    broken.rests(lambda: len(of_team(broken, team)) == LIMIT, 5, "and not one more")
    assert evicted(broken) == []
    bound = bindings(broken)
    assert sorted(bound) == sorted(set(bound))
    assert broken.filter(large)["NodeNames"] == []
