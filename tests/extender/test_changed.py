"""The pods that were changed behind the ledger's back, as the extender tells of them."""

from __future__ import annotations

import msgspec
import pytest
from gpuyard.common.cluster.changed_pods import NAMED, ChangedPods, ChangedPodsCollector
from prometheus_client import CollectorRegistry, generate_latest

Altered = dict[str, tuple[str, ...]]
MANY: Altered = {f"team-a/p{number:03}": ("kai.scheduler/queue",) for number in reversed(range(NAMED + 20))}


def read(altered: Altered) -> ChangedPods:
    return msgspec.json.decode(ChangedPodsCollector(lambda: altered).page(), type=ChangedPods)


def test_a_changed_pod_is_named_with_what_differs() -> None:
    altered: Altered = {"team-a/p": ("gpu-fraction", "kai.scheduler/queue")}
    assert read(altered) == ChangedPods(1, altered)


@pytest.mark.row("X-62")
def test_all_changed_pods_are_counted_and_the_first_hundred_are_named() -> None:
    told = read(MANY)
    assert told.count == NAMED + 20
    assert list(told.named) == sorted(MANY)[:NAMED]


@pytest.mark.row("X-62")
def test_the_metric_counts_them_as_they_are_now_and_names_none() -> None:
    altered: Altered = {}
    made = CollectorRegistry()
    made.register(ChangedPodsCollector(lambda: altered))
    assert made.get_sample_value("gpuyard_changed_pods") == 0
    altered |= MANY
    assert made.get_sample_value("gpuyard_changed_pods") == len(MANY)
    assert b"team-a/" not in generate_latest(made)
