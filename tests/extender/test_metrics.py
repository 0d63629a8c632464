"""What the extender tells Prometheus."""

import pytest
from gpuyard.engine.model import Promise, Shape
from gpuyard.extender.metrics import LedgerCollector, UnreadableCollector, VerbMetrics
from prometheus_client import CollectorRegistry, generate_latest

from tests.extender.builders import Bench, node, pod, queue


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
