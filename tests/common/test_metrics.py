"""The process's own metrics say what runs and what its caches hold."""

import asyncio
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.common import metrics
from gpuyard.common.kube.reflector import Counts, Reflector
from gpuyard.common.kube.resources import PODS
from gpuyard.common.metrics import SAMPLES, CacheCollector, CertificateCollector, LeaseCollector, Page, new_registry
from gpuyard.common.version import __version__
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from gpuyard.common.lease import Elector


def cache(**state: object) -> Reflector[Any]:
    known = {"store": {"a": 1, "b": 2}, "synced": True, "age": lambda: 3.5, "counts": Counts(lists=2, undecodable=1)}
    return cast("Reflector[Any]", SimpleNamespace(address=PODS.within(), **(known | state)))


def test_the_build_is_known() -> None:
    text = generate_latest(new_registry("gpuyard-gfd")).decode()
    (line,) = [line for line in text.splitlines() if line.startswith("gpuyard_build_info{")]
    assert 'component="gpuyard-gfd"' in line
    assert f'version="{__version__}"' in line
    assert line.endswith(" 1.0")


def test_each_process_has_a_registry_of_its_own() -> None:
    assert b'component="a"' not in generate_latest(new_registry("b"))
    assert b'component="a"' in generate_latest(new_registry("a"))


def test_memory_of_the_process_is_measured() -> None:
    assert b"process_resident_memory_bytes" in generate_latest(new_registry("a"))


def test_a_cache_is_described_by_its_resource() -> None:
    registry = new_registry("a")
    registry.register(CacheCollector([cache()]))
    text = generate_latest(registry).decode()
    for line in (
        'gpuyard_cache_objects{resource="pods"} 2.0',
        'gpuyard_cache_synced{resource="pods"} 1.0',
        'gpuyard_cache_age_seconds{resource="pods"} 3.5',
        'gpuyard_cache_lists_total{resource="pods"} 2.0',
        'gpuyard_cache_undecodable_total{resource="pods"} 1.0',
    ):
        assert line in text


def test_the_state_is_read_at_each_scrape() -> None:
    registry, store = new_registry("a"), dict[str, int]()
    registry.register(CacheCollector([cache(store=store)]))
    store["new"] = 1
    assert 'gpuyard_cache_objects{resource="pods"} 1.0' in generate_latest(registry).decode()


def test_a_lease_says_whether_we_lead_and_how_often_it_changed_hands() -> None:
    registry = new_registry("a")
    elector = SimpleNamespace(name="gpuyard-extender", leading=True, transitions=3)
    registry.register(LeaseCollector([cast("Elector", elector)]))
    text = generate_latest(registry).decode()
    assert 'gpuyard_lease_leading{lease="gpuyard-extender"} 1.0' in text
    assert 'gpuyard_lease_transitions_total{lease="gpuyard-extender"} 3.0' in text


def test_certificates_say_at_each_scrape_when_they_run_out() -> None:
    registry, ends = new_registry("a"), {"tls.crt": 7.0}
    registry.register(CertificateCollector(lambda: ends))
    ends["tls.crt"] = 8.0
    told = 'gpuyard_certificate_expiry_timestamp_seconds{file="tls.crt"} 8.0'
    assert told in generate_latest(registry).decode()


# --- the page for many readers ----------------------------------------------------------------------------------------


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Slow(Collector):
    """Metrics each of which takes a while, and a count of how often they were collected."""

    def __init__(self) -> None:
        self.times = 0

    def collect(self) -> Iterator[Metric]:
        self.times += 1
        for number in range(10):
            time.sleep(0.002)
            yield GaugeMetricFamily(f"slow_{number}", "Slow.", self.times)


def slow() -> tuple[CollectorRegistry, Slow]:
    registry, collector = CollectorRegistry(auto_describe=False), Slow()
    registry.register(collector)
    collector.times = 0
    return registry, collector


@pytest.mark.row("X-91", case="once")
async def test_readers_within_a_second_get_the_same_text() -> None:
    (registry, collector), clock = slow(), Clock()
    page = Page(registry, clock)
    first = await asyncio.gather(*(page.text() for _ in range(8)))
    clock.now += 0.9
    assert {*first, await page.text()} == {first[0]}
    assert collector.times == 1


@pytest.mark.row("X-91", case="once")
async def test_after_a_second_the_text_is_rendered_anew() -> None:
    (registry, collector), clock = slow(), Clock()
    page = Page(registry, clock)
    before = await page.text()
    clock.now += 1
    assert await page.text() != before
    assert collector.times == 2


async def turns_of_others(registry: CollectorRegistry) -> int:
    """How often another task has its turn while the page is rendered, if no step is too short to count."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await Page(registry).text()
    task.cancel()
    return turns


@pytest.mark.row("X-91", case="steps")
async def test_other_tasks_run_between_two_metrics() -> None:
    assert await turns_of_others(slow()[0]) >= 10


@pytest.mark.row("X-91", case="steps")
async def test_other_tasks_run_while_a_metric_of_ten_thousand_queues_is_rendered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = CollectorRegistry()
    used = Gauge("used", "GPUs by queue.", ["queue"], registry=registry)
    for number in range(10_000):
        used.labels(f"queue-{number}").set(number)
    monkeypatch.setattr(metrics, "STEP", 0)
    assert await turns_of_others(registry) >= 10_000 / SAMPLES


async def test_the_page_is_the_text_format_whatever_the_types_and_sizes() -> None:
    registry = CollectorRegistry()
    many = Gauge("many", "A gauge\nof many samples.", ["one"], registry=registry)
    for number in range(1234):
        many.labels(f"with \\ and \n {number}").set(number)
    Counter("calls", "A counter.", ["verb"], registry=registry).labels("filter").inc()
    Histogram("seconds", "A histogram.", registry=registry).observe(3)
    Gauge("empty", "A gauge without samples.", ["one"], registry=registry)
    assert await Page(registry).text() == generate_latest(registry)


async def test_a_reader_that_leaves_does_not_end_the_rendering_for_the_others() -> None:
    registry, collector = slow()
    page = Page(registry)
    leaving, staying = asyncio.create_task(page.text()), asyncio.create_task(page.text())
    await asyncio.sleep(0.005)
    leaving.cancel()
    assert b"slow_9" in await staying
    assert collector.times == 1
