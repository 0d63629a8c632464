"""What a node offers, and whether anything may be placed there."""

import pytest
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.nodes import node
from gpuyard.engine.model import Node, Taint

from tests.engine.kube import written
from tests.engine.kube.written import Heard, Json, seen


def read(of: Json, heard: Heard | None = None) -> Node:
    complain = heard if heard is not None else Heard()
    made = node(seen(objects.Node, of), complain)
    assert heard is not None or not complain
    return made


def test_a_node_offers_what_is_allocatable() -> None:
    made = read(written.node(gpus="8", labels={"nvidia.com/gpu.memory": "81559"}))
    assert (made.gpus, made.cpu, made.memory, made.pods, made.gpu_memory) == (8, 64_000, 256 << 30, 110, 81559)


@pytest.mark.row("B-33", case="lowered")
@pytest.mark.parametrize(
    ("capacity", "known", "all_allocatable"),
    [({"nvidia.com/gpu": "8"}, 8, False), ({"nvidia.com/gpu": "7"}, 7, True), ({}, -1, True)],
)
def test_capacity_says_whether_a_node_has_gpus_that_no_pod_can_get(
    capacity: Json, known: int, all_allocatable: bool
) -> None:
    given = written.node(gpus="7")
    made = read(given | {"status": given["status"] | {"capacity": capacity}})
    assert (made.capacity, made.all_allocatable) == (known, all_allocatable)


def test_a_node_without_a_ready_condition_counts_as_ready() -> None:
    assert read({"kind": "Node", "metadata": {"name": "n"}}).ready


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_not(status: str) -> None:
    given = written.node() | {"status": {"conditions": [{"type": "Ready", "status": status}]}}
    assert not read(given).ready


def test_a_cordoned_node_is_ready_but_not_open() -> None:
    made = read(written.node(unschedulable=True))
    assert (made.ready, made.cordoned, made.open) == (True, True, False)


def test_taints_that_keep_pods_away_are_told_from_those_that_only_discourage() -> None:
    taints = [{"key": "gpu", "effect": "NoSchedule", "value": "x"}, {"key": "old", "effect": "PreferNoSchedule"}]
    found = read(written.node(taints=taints))
    assert found.taints == (Taint("gpu", "x", "NoSchedule"),)
    assert found.soft_taints == (Taint("old", "", "PreferNoSchedule"),)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (written.node(gpus="eight"), "status.allocatable.nvidia.com/gpu"),
        (written.node(gpus=5000), "status.allocatable.nvidia.com/gpu"),
        (written.node(labels={"nvidia.com/gpu.memory": "80GB"}), "metadata.labels.nvidia.com/gpu.memory"),
        (written.node(taints=[{"key": "a", "effect": "Never"}]), "spec.taints[0].effect"),
    ],
    ids=["no-number", "too-many", "memory", "taint"],
)
def test_what_cannot_be_read_is_named_by_its_field(given: Json, field: str) -> None:
    heard = Heard()
    read(given, heard)
    assert [where for where, _ in heard] == [field]
