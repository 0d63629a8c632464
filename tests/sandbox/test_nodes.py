"""Nodes come with all their GPUs, and are told ready from not ready."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from gpuyard.sandbox import nodes
from gpuyard.sandbox.api import Api
from gpuyard.sandbox.spec import Spec

NOON = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)


class Objects(Api):
    """Answers for an API server that has these objects."""

    def __init__(self, **collections: list[dict[str, Any]]) -> None:
        self.collections = collections  # no connection: these objects are all there is
        self.created: list[dict[str, Any]] = []

    def items(self, path: str) -> list[dict[str, Any]]:
        return self.collections.get(path.rsplit("/", 1)[-1], [])

    def create(self, path: str, body: dict[str, Any]) -> None:
        assert path == nodes.NODES
        self.created.append(body)


def node(name: str, ready: str = "True", *taints: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"taints": [{"key": taint} for taint in taints]} if taints else {},
        "status": {"conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": ready}]},
    }


def lease(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_only_missing_nodes_are_created() -> None:
    objects = Objects(nodes=[node("node-2"), node("somebody-elses")])
    nodes.create(objects, Spec(nodes=3), "v1.36.4", NOON)
    assert [each["metadata"]["name"] for each in objects.created] == ["node-1", "node-3"]


def test_a_node_has_its_gpus_and_is_ready_from_the_first_moment() -> None:
    made = nodes.node(1, Spec(name="mine", gpus=8), "v1.36.4", NOON)
    assert made["status"]["capacity"]["nvidia.com/gpu"] == made["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    (ready,) = made["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["lastHeartbeatTime"]) == ("Ready", "True", "2026-11-18T12:00:00Z")
    assert made["metadata"]["labels"]["gpuyard.io/sandbox"] == "mine"
    assert made["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.4"


def test_a_node_without_gpus_does_not_name_them() -> None:
    assert "nvidia.com/gpu" not in nodes.node(1, Spec(gpus=0), "v1.36.4", NOON)["status"]["capacity"]


def test_nodes_have_addresses_of_their_own() -> None:
    made = (nodes.node(index, Spec(), "v1.36.4", NOON) for index in range(1, 2000))
    assert len({each["status"]["addresses"][0]["address"] for each in made}) == 1999


@pytest.mark.parametrize(
    ("there", "leases", "waiting"),
    [
        (node("a"), [lease("a")], []),
        (node("a", "True", "some.other/taint"), [lease("a")], []),
        (node("a"), [], ["a"]),
        (node("a", "Unknown"), [lease("a")], ["a"]),
        (node("a", "True", "node.kubernetes.io/not-ready"), [lease("a")], ["a"]),
    ],
    ids=["ready", "tainted by its owner", "not taken over by KWOK", "silent", "just created"],
)
def test_a_node_that_cannot_take_pods_yet_is_waited_for(
    there: dict[str, Any], leases: list[dict[str, Any]], waiting: list[str]
) -> None:
    assert nodes.unready(Objects(nodes=[there], leases=leases)) == waiting


def test_what_is_told_of_the_nodes_is_what_is_there_and_not_what_was_asked_for() -> None:
    there = [nodes.node(index, Spec(gpus=8), "v1.36.4", NOON) for index in (1, 2, 3)]
    assert nodes.told(Objects(nodes=there)) == "3 nodes with 8 GPUs each"
    more = nodes.node(4, Spec(gpus=4), "v1.36.4", NOON)
    assert nodes.told(Objects(nodes=[*there, more])) == "3 nodes with 8 GPUs each, 1 node with 4 GPUs"
    assert nodes.told(Objects(nodes=[nodes.node(1, Spec(gpus=0), "v1.36.4", NOON)])) == "1 node with 0 GPUs"
    assert nodes.told(Objects()) == "no nodes"
