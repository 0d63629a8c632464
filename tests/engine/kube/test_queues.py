"""Queues in their units, and what an absent bound means."""

import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.queues import history, queue
from gpuyard.engine.model import SCALE, UNLIMITED, Amounts, Queue

from tests.engine.kube import written
from tests.engine.kube.written import MORNING, Heard, Json, seen, with_meta


def read(of: Json, heard: Heard | None = None) -> Queue:
    complain = heard if heard is not None else Heard()
    made = queue(seen(objects.Queue, of), 5, complain)
    assert heard is not None or not complain
    return made


def with_resources(**resources: Json) -> Json:
    return written.queue() | {"spec": {"resources": resources}}


def test_units_are_gpus_millicores_and_millions_of_bytes() -> None:
    bounds = {"quota": 8, "limit": 64}
    made = read(with_resources(gpu=bounds, cpu=bounds, memory=bounds))
    assert made.quota == Amounts(8000, 8, 8_000_000)
    assert made.limit == Amounts(64_000, 64, 64_000_000)


def test_fractions_of_a_gpu_are_exact() -> None:
    assert read(with_resources(gpu={"quota": 0.3, "limit": 0.1})).quota.gpu == 300


def test_minus_one_is_unlimited() -> None:
    assert read(with_resources(gpu={"quota": -1, "limit": -1.0})).limit.gpu == UNLIMITED


def test_an_absent_block_of_cpu_or_memory_is_unlimited() -> None:
    made = read(with_resources(gpu={"quota": 1, "limit": 1}))
    assert (made.limit.cpu, made.quota.memory, made.unset) == (UNLIMITED, UNLIMITED, ())


def test_inside_a_block_an_absent_bound_is_zero_and_remembered_as_unset() -> None:
    made = read(with_resources(gpu={"quota": 4}, cpu={"limit": 5}))
    assert (made.limit.gpu, made.quota.cpu) == (0, 0)
    assert made.unset == ("gpu.limit", "cpu.quota")
    assert made.weight == Amounts(SCALE, SCALE, SCALE)


def test_weights_are_scaled() -> None:
    assert read(with_resources(gpu={"quota": 1, "limit": 1, "overQuotaWeight": 1.5})).weight.gpu == 1_500_000


def test_parent_priority_runtimes_name_and_age_are_read() -> None:
    given = written.queue(parent="dep", priority=150, preemptMinRuntime="10m", reclaimMinRuntime="90s")
    made = read(with_meta(given, creationTimestamp=MORNING, annotations={"gpuyard.io/display-name": "Team A"}))
    assert (made.parent, made.priority, made.display) == ("dep", 150, "Team A")
    assert (made.preempt_min_runtime, made.reclaim_min_runtime, made.created) == (600, 90, 1772352000)


def test_a_queue_that_says_little_gets_the_defaults() -> None:
    made = read(written.queue())
    assert (made.parent, made.priority, made.preempt_min_runtime, made.created) == ("", 100, None, 5)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.resources"),
        ({"resources": {"gpu": {"quota": -2, "limit": 1}}}, "spec.resources.gpu.quota"),
        ({"resources": {"memory": {"quota": 1e30, "limit": 1}}}, "spec.resources.memory.quota"),
        ({"resources": {"gpu": {"overQuotaWeight": -1}}}, "spec.resources.gpu.overQuotaWeight"),
        ({"resources": {}, "reclaimMinRuntime": "soon"}, "spec.reclaimMinRuntime"),
    ],
    ids=["no-resources", "negative", "too-large", "weight", "duration"],
)
def test_what_cannot_be_read_is_named_by_its_field(spec: Json, field: str) -> None:
    heard = Heard()
    read(written.queue() | {"spec": spec}, heard)
    assert [where for where, _ in heard] == [field]


def test_past_use_is_a_share_of_the_cluster() -> None:
    heard = Heard()
    usage = seen(objects.QueueUsage, {"queues": {"a": {"gpu": 0.5, "cpu": 1}, "b": {}}})
    assert history(usage, heard) == {"a": Amounts(SCALE // 2, SCALE, 0), "b": Amounts()}
    assert not heard
