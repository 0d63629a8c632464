"""Two extenders and one Lease: one answers, the other sends its callers away, and takes over when the first is gone.

A Service would route kube-scheduler's connections to the pod with the leader's label. On this ground there are no
Services, so a small proxy does that on the port that kube-scheduler asks (`contenders.py`).
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import ports, processes
from gpuyard.sandbox.demo.stage import EXTENDER, extender_port, start_extender

from tests.cluster.contenders import Contender, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")


@pytest.fixture
def pair(yard: Yard) -> Iterator[tuple[Contender, Contender]]:
    """The leader and the one that stands by."""
    yard.submit("a", "b", gpus=0)
    both = [Contender(yard.cluster, name, yard.namespace) for name in ("a", "b")]
    yard.until(lambda: any(one.serves() for one in both), 60, "one of them leads")
    leader = next(one for one in both if one.serves())
    yield leader, next(one for one in both if one is not leader)
    for one in both:
        processes.end(one.process, grace=0)


def labelled(yard: Yard) -> set[str]:
    """The pods that carry the leader's label."""
    return {name for name, pod in yard.pods().items() if "gpuyard.io/leader" in pod["metadata"].get("labels", {})}


@pytest.fixture
def routed(yard: Yard, pair: tuple[Contender, Contender]) -> Iterator[tuple[Contender, Contender]]:
    """The pair, and kube-scheduler's calls led to the one of them that leads."""
    yard.cluster.stop(EXTENDER)
    route = Route(extender_port(yard.cluster), pair)
    yield pair
    route.close()
    yard.until(lambda: not ports.taken(extender_port(yard.cluster)), 10, "the port is free again")
    start_extender(yard.cluster)


@pytest.mark.row("E-20", case="leader-killed")
def test_after_the_leader_was_killed_gpu_pods_go_on(yard: Yard, routed: tuple[Contender, Contender]) -> None:
    queue = yard.queue("team", limit=2)
    yard.submit("before", queue=queue)
    yard.until(lambda: "before" in yard.placed(), 30, "the leader lets it run")
    leader, other = routed
    processes.end(leader.process, grace=0)
    yard.submit("after", "over", queue=queue)
    yard.until(lambda: len(yard.placed() & {"after", "over"}) == 1, 30, "one of them runs")
    assert other.serves()
    yard.rests(lambda: len(yard.placed() & {"before", "after", "over"}) == 2, 3, "the limit holds")


def test_only_the_leader_decides_and_carries_the_label(yard: Yard, pair: tuple[Contender, Contender]) -> None:
    leader, other = pair
    yard.until(lambda: other.ask()[0]["Error"] == "not leader", 60, "the other one stands by")
    assert other.ask()[1], "its caller shall look for the leader"
    assert not leader.ask()[1]
    assert labelled(yard) == {leader.name}


def test_a_leader_that_stops_hands_over_at_once(yard: Yard, pair: tuple[Contender, Contender]) -> None:
    leader, other = pair
    processes.end(leader.process, grace=20)
    assert yard.until(other.serves, 30, "the other one leads") < 15
    assert labelled(yard) == {other.name}


def test_a_leader_that_was_paused_knows_that_it_leads_no_longer(yard: Yard, pair: tuple[Contender, Contender]) -> None:
    leader, other = pair
    processes.send(leader.process, signal.SIGSTOP)
    yard.until(other.serves, 60, "the other one leads")
    processes.send(leader.process, signal.SIGCONT)
    assert leader.ask()[0]["Error"] == "not leader"
    assert other.serves()
