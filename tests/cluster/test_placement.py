"""The setting `placement`, through the real kube-scheduler: pods land where `gpuyard plan` says that they will."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.planner import HEAD, with_settings

if TYPE_CHECKING:
    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

TOGETHER, APART = {"node-4"}, {"node-2", "node-3"}


def uneven(yard: Yard) -> None:
    """Nobody's pods leave no GPU of node-1, six of node-2 and node-3, and two of node-4."""
    for node, gpus in ((1, 8), (2, 2), (3, 2), (4, 6)):
        yard.submit(f"rock-{node}", gpus=gpus, nodeName=f"node-{node}")
    yard.until(lambda: len(yard.placed()) == 4, 30, "the nodes are unevenly full")


def foretold(yard: Yard, pods: list[Json], *placement: str) -> set[str]:
    """The nodes on which the pods land, once they are submitted, as plan says with the settings of the option."""
    cluster = json.loads(yard.cluster.kubectl("get", "nodes,pods,queues.scheduling.run.ai", "-A", "-o", "json"))
    cluster["items"] += pods
    command = [sys.executable, "-m", "gpuyard.cli", "plan", "-f", "-", "-o", "json", *placement]
    done = subprocess.run(command, input=json.dumps(cluster), capture_output=True, text=True, check=True)
    final = json.loads(done.stdout)["final"]
    return {final[f"{yard.namespace}/{pod['metadata']['name']}"]["node"] for pod in pods}


def landed(yard: Yard, pods: list[Json]) -> set[str]:
    """The nodes on which the pods land, submitted one after the other.

    Of two at once the second may be asked about before a watch shows where the first is: equals are equals then.
    """
    nodes = set()
    for pod in pods:
        name = pod["metadata"]["name"]
        yard.apply(pod)
        yard.until(partial(is_placed, yard, name), 30, "it has a node")
        nodes.add(yard.one(name)["spec"]["nodeName"])
    return nodes


def is_placed(yard: Yard, name: str) -> bool:
    return name in yard.placed()


def two(yard: Yard, name: str) -> list[Json]:
    """Two pods of a queue, with one GPU each."""
    team = yard.queue(name)
    return [yard.pod(f"{name}-{number}", team) for number in (1, 2)]


@pytest.mark.parametrize(
    ("placement", "nodes"),
    [
        pytest.param("pack", TOGETHER, marks=pytest.mark.row("B-82", case="pack")),
        pytest.param("spread", APART, marks=pytest.mark.row("B-82", case="spread")),
    ],
)
def test_two_pods_land_where_plan_says_by_the_same_placement(yard: Yard, placement: str, nodes: set[str]) -> None:
    uneven(yard)
    with with_settings(yard.cluster, f"placement: {placement}\n"):
        pods = two(yard, "team")
        assert foretold(yard, pods, "--placement", placement) == nodes
        assert landed(yard, pods) == nodes


@pytest.mark.row("B-82", case="changed")
def test_a_changed_placement_acts_without_a_restart(yard: Yard) -> None:
    uneven(yard)
    with with_settings(yard.cluster, "placement: pack\n"):
        packed = two(yard, "packed")
        assert landed(yard, packed) == TOGETHER
        yard.delete(*(pod["metadata"]["name"] for pod in packed))
        (yard.cluster.folder / "extender.yaml").write_text(f"{HEAD}placement: spread\n")
        yard.until(lambda: prefers(yard) == APART, 15, "the emptiest nodes get the most points")
        pods = two(yard, "spread")
        assert foretold(yard, pods, "--set", "placement=spread") == APART
        assert landed(yard, pods) == APART


def prefers(yard: Yard) -> set[str]:
    """The nodes to which prioritize gives the most points."""
    asked = {"Pod": yard.pod("asked"), "Nodes": None, "NodeNames": [f"node-{number}" for number in range(1, 5)]}
    scores = {one["Host"]: one["Score"] for one in yard.ask("prioritize", asked)}
    return {host for host, score in scores.items() if score == max(scores.values())}
