"""Gangs through the real kube-scheduler, which knows nothing of them: whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

PORT = {"containerPort": 80, "hostPort": 28080}


def gang(yard: Yard, name: str, queue: str, size: int) -> list[Json]:
    """A PodGroup, and its members with eight GPUs each, not yet submitted."""
    yard.apply(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": yard.namespace},
            "spec": {"minMember": size, "queue": queue},
        }
    )
    note = {"pod-group-name": name}
    return [yard.pod(f"{name}-{number}", queue, 8, annotations=note) for number in range(size)]


def with_port(pod: Json) -> Json:
    """The pod with a port of its node."""
    pod["spec"]["containers"][0]["ports"] = [PORT]
    return pod


def names(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def test_a_gang_that_fits_starts_as_a_whole(yard: Yard) -> None:
    members = gang(yard, "g", yard.queue("team"), 4)
    yard.apply(*members)
    yard.until(lambda: yard.placed() == names(members), 30, "all run")
    assert len({pod["spec"]["nodeName"] for pod in yard.pods().values()}) == 4


def test_of_a_gang_that_does_not_fit_nobody_starts(yard: Yard) -> None:
    members = gang(yard, "g", yard.queue("team"), 5)
    yard.apply(*members)
    sentence = "the gang needs room for 5 pods at once"
    yard.until(lambda: sum(sentence in said for said in yard.verdicts().values()) == 5, 30, "all wait for room")
    yard.rests(lambda: not yard.placed(), 5, "nobody runs")


def test_of_two_gangs_for_the_same_room_one_starts_whole_and_the_other_not_at_all(yard: Yard) -> None:
    queue = yard.queue("team")
    both = [gang(yard, name, queue, 3) for name in ("g", "h")]
    yard.apply(*both[0], *both[1])
    yard.until(lambda: len(yard.placed()) == 3, 30, "three run")
    yard.rests(lambda: yard.placed() in map(names, both), 5, "they are of one gang")


@pytest.mark.row("E-41")
def test_a_gang_waits_for_a_member_that_finds_its_port_taken_everywhere(yard: Yard) -> None:
    holders = [with_port(yard.pod(f"port-{n}", gpus=0, nodeName=f"node-{n}")) for n in range(1, 5)]
    yard.apply(*holders)
    yard.until(lambda: yard.placed() == names(holders), 20, "the port is taken on every node")
    members: list[Any] = gang(yard, "g", yard.queue("team"), 3)
    with_port(members[2])
    yard.apply(*members)
    yard.until(lambda: set(yard.verdicts()) == names(members), 30, "all wait")
    yard.rests(lambda: yard.placed() == names(holders), 5, "nobody of the gang runs")
    yard.delete("port-2")
    yard.until(lambda: names(members) <= yard.placed(), 60, "all run")
    assert yard.pods()["g-2"]["spec"]["nodeName"] == "node-2"
