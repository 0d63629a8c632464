"""The process's own metrics: a registry of its own, who we are, and what the caches hold.

Decided in docs/decisions.md: "Metrics are rendered in steps on the loop, not in a thread".
"""

import asyncio
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuyard.common.kube.reflector import Reflector
from gpuyard.common.lease import Elector
from gpuyard.common.version import __version__
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LIFETIME = 1.0
"""Seconds for which a text is served again."""

STEP = 0.0005
"""Seconds of rendering after which other tasks run."""

SAMPLES = 200
"""The most samples that one step renders, which takes about as long."""


def new_registry(component: str) -> CollectorRegistry:
    """A registry with `gpuyard_build_info` and the process's memory, CPU and file descriptors."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    info = Gauge(
        "gpuyard_build_info", "Always 1; says what runs.", ["component", "version", "python"], registry=registry
    )
    info.labels(component, __version__, platform.python_version()).set(1)
    return registry


def _parts(registry: CollectorRegistry) -> Iterator[bytes]:
    """The text of all metrics, one that has many samples in several parts."""
    for metric in registry.collect():
        for number, part in enumerate(_split(metric)):
            text = generate_latest(_Only(part))
            # The same two lines, HELP and TYPE, begin the text of each part.
            yield text.split(b"\n", 2)[2] if number else text


def _split(metric: Metric) -> list[Metric]:
    """A gauge in parts of some samples each. Other types stay whole: prometheus_client reorders their samples."""
    if metric.type != "gauge" or len(metric.samples) <= SAMPLES:
        return [metric]
    parts = []
    for begin in range(0, len(metric.samples), SAMPLES):
        part = Metric(metric.name, metric.documentation, metric.type)
        part.samples = metric.samples[begin : begin + SAMPLES]
        parts.append(part)
    return parts


class _Only(Collector):
    """A collector of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


class Page:
    """The text of all metrics for many readers: rendered at most once a second, in steps between which others run."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._clock = clock
        self._begun = float("-inf")
        self._rendering: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """The text as it was at most a second ago; one reader that leaves does not end the rendering for the others."""
        if self._rendering is None or (self._rendering.done() and self._clock() >= self._begun + LIFETIME):
            self._begun = self._clock()
            self._rendering = asyncio.create_task(self._render())
        return await asyncio.shield(self._rendering)

    async def _render(self) -> bytes:
        parts, begun = [], time.perf_counter()
        for part in _parts(self._registry):
            parts.append(part)
            if time.perf_counter() - begun >= STEP:
                await asyncio.sleep(0)
                begun = time.perf_counter()
        return b"".join(parts)


class LeaseCollector(Collector):
    """Reads at each scrape who leads."""

    def __init__(self, electors: Sequence[Elector]) -> None:
        self._electors = electors

    def collect(self) -> Iterator[Metric]:
        """Each metric with one sample a lease."""
        leading = GaugeMetricFamily("gpuyard_lease_leading", "1 while this process leads.", labels=["lease"])
        changes = CounterMetricFamily("gpuyard_lease_transitions", "Changes of the holder.", labels=["lease"])
        for elector in self._electors:
            leading.add_metric([elector.name], elector.leading)
            changes.add_metric([elector.name], elector.transitions)
        yield from (leading, changes)


class CertificateCollector(Collector):
    """Reads at each scrape until when our certificates are good."""

    def __init__(self, ends: Callable[[], Mapping[str, float]]) -> None:
        self._ends = ends

    def collect(self) -> Iterator[Metric]:
        """One sample a file."""
        ends = GaugeMetricFamily(
            "gpuyard_certificate_expiry_timestamp_seconds",
            "When what is in force runs out, in seconds since 1970.",
            labels=["file"],
        )
        for file, end in self._ends().items():
            ends.add_metric([file], end)
        yield ends


class CacheCollector(Collector):
    """Reads the state of the caches at each scrape."""

    def __init__(self, caches: Sequence[Reflector[Any]]) -> None:
        self._caches = caches

    def collect(self) -> Iterator[Metric]:
        """Each metric with one sample a cache."""
        label = ["resource"]
        objects = GaugeMetricFamily("gpuyard_cache_objects", "Objects in the cache.", labels=label)
        synced = GaugeMetricFamily("gpuyard_cache_synced", "1 once the collection was read as a whole.", labels=label)
        age = GaugeMetricFamily(
            "gpuyard_cache_age_seconds", "Time since the API server last spoke about the collection.", labels=label
        )
        lists = CounterMetricFamily("gpuyard_cache_lists", "Lists read.", labels=label)
        watches = CounterMetricFamily("gpuyard_cache_watches", "Watches begun.", labels=label)
        failures = CounterMetricFamily("gpuyard_cache_failures", "Lists and watches that failed.", labels=label)
        bad = CounterMetricFamily("gpuyard_cache_undecodable", "Objects that could not be read.", labels=label)
        for cache in self._caches:
            name = [cache.address.about]
            objects.add_metric(name, len(cache.store))
            synced.add_metric(name, cache.synced)
            age.add_metric(name, cache.age())
            lists.add_metric(name, cache.counts.lists)
            watches.add_metric(name, cache.counts.watches)
            failures.add_metric(name, cache.counts.failures)
            bad.add_metric(name, cache.counts.undecodable)
        yield from (objects, synced, age, lists, watches, failures, bad)
