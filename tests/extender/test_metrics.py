"""What the extender tells Prometheus, and that it answers kube-scheduler meanwhile."""

import asyncio

import aiohttp
import pytest
from gpuyard.common import metrics
from gpuyard.common.metrics import Page
from gpuyard.engine.model import Promise, Shape
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.http.server import Server, Verb
from gpuyard.extender.http.wire import CANDIDATES, FilterAnswer
from gpuyard.extender.ledger.metrics import LedgerCollector, UnreadableCollector
from prometheus_client import CollectorRegistry, generate_latest

from tests.extender.builders import Bench, anybody, node, pod, queue


@pytest.fixture
def registry() -> CollectorRegistry:
    bench = Bench(node("n1"), queue("team"), pod("a", "team", 2, on="n1"), pod("b", "team"), pod("c", "team"))
    bench.passes(pod("c", "team"))
    made = CollectorRegistry()
    made.register(LedgerCollector(bench.ledger))
    VerbMetrics(made)
    return made


@pytest.mark.parametrize(("phase", "count"), [("Bound", 1), ("Pending", 1), ("Reserved", 1)])
def test_pods_are_counted_by_phase(registry: CollectorRegistry, phase: str, count: int) -> None:
    assert registry.get_sample_value("gpuyard_ledger_pods", {"phase": phase}) == count


def test_the_use_of_each_queue_is_told_in_gpus(registry: CollectorRegistry) -> None:
    assert registry.get_sample_value("gpuyard_queue_allocated_gpus", {"queue": "team"}) == 3
    assert registry.get_sample_value("gpuyard_queue_requested_gpus", {"queue": "team"}) == 4


def test_it_is_told_how_many_wait_for_which_reason_and_for_how_many_room_is_kept() -> None:
    bench = Bench(node("n1"), queue("team", limit=0), pod("a", "team"), pod("b", "team"))
    for name in ("a", "b"):
        assert not bench.passes(pod(name, "team"))
    bench.ledger.put_promises([Promise(plan="plan-1", pod="ns/x", shape=Shape(gpus=8), node="n1")])
    made = CollectorRegistry()
    made.register(LedgerCollector(bench.ledger))
    assert made.get_sample_value("gpuyard_refused_pods", {"reason": "OverLimit"}) == 2
    assert made.get_sample_value("gpuyard_promises") == 1


def test_no_pod_is_ever_a_label(registry: CollectorRegistry) -> None:
    assert b"ns/" not in generate_latest(registry)


def test_what_is_unreadable_is_told_by_kind() -> None:
    made = CollectorRegistry()
    made.register(UnreadableCollector(lambda: {"pods": 2, "nodes": 0}))
    assert made.get_sample_value("gpuyard_unreadable_objects", {"resource": "pods"}) == 2
    assert made.get_sample_value("gpuyard_unreadable_objects", {"resource": "nodes"}) == 0


@pytest.mark.row("X-91", case="verbs")
async def test_a_call_is_answered_while_the_metrics_of_many_queues_are_rendered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "STEP", 0)
    monkeypatch.setattr(metrics, "SAMPLES", 1)
    teams = [f"team-{number}" for number in range(300)]
    waiting = pod("p", "team-1")
    bench = Bench(node("n1"), *map(queue, teams), *(pod(team, team, on="n1") for team in teams), waiting)
    made = CollectorRegistry()
    made.register(LedgerCollector(bench.ledger))
    verb = Verb("filter", CANDIDATES, bench.verbs.filter, lambda why: FilterAnswer(error=why))
    served = Server([verb], VerbMetrics(made), anybody()).listening(0, "127.0.0.1")
    async with served as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        rendering = asyncio.create_task(Page(made).text())
        answer = await session.post("/scheduler/filter", json={"Pod": waiting, "NodeNames": ["n1"]})
        assert "FailedNodes" in await answer.json()
        assert not rendering.done()
        assert b'gpuyard_queue_allocated_gpus{queue="team-299"}' in await rendering
