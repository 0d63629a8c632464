"""The process's own metrics: a registry of its own, who we are, and what the caches hold."""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpuyard.common.kube.reflector import Reflector
from gpuyard.common.lease import Elector
from gpuyard.common.version import __version__
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def new_registry(component: str) -> CollectorRegistry:
    """A registry with `gpuyard_build_info` and the process's memory, CPU and file descriptors."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    info = Gauge(
        "gpuyard_build_info", "Always 1; says what runs.", ["component", "version", "python"], registry=registry
    )
    info.labels(component, __version__, platform.python_version()).set(1)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """All metrics in the text format."""
    return generate_latest(registry)


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
