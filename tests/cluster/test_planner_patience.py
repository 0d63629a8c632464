"""Nobody has to go for a pod that would not run all the same, by kube-scheduler's own word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.planner import evicted
from tests.cluster.test_ask import answer, ask
from tests.cluster.test_extender_filter import VOLUMES

if TYPE_CHECKING:
    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

SOON = 60


def volume(yard: Yard) -> list[Json]:
    """A volume that is there, and the claim to it that pods name."""
    room = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    name = f"{yard.namespace}-data"
    meta = {"name": "never", "namespace": yard.namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": common | {"capacity": room, "hostPath": {"path": "/tmp/data"}},  # noqa: S108 - nobody mounts it
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": meta,
            "spec": common | {"resources": {"requests": room}, "volumeName": name},
        },
    ]


def is_bound(yard: Yard) -> bool:
    found = json.loads(yard.cluster.kubectl("get", "pvc", "never", "--namespace", yard.namespace, "-o", "json"))
    return bool(found["status"].get("phase") == "Bound")


def test_nobody_is_evicted_for_a_pod_whose_volume_is_missing_until_it_is_there(yard: Yard) -> None:
    borrower, owner = yard.queue("borrower", quota=0), yard.queue("owner", quota=8)
    yard.submit("b-1", "b-2", "b-3", "b-4", queue=borrower, gpus=8)
    yard.until(lambda: len(yard.placed()) == 4, SOON, "the cluster is lent")
    yard.submit("own", queue=owner, gpus=8, volumes=VOLUMES)
    yard.until(lambda: "never" in yard.verdicts().get("own", ""), SOON, "kube-scheduler misses its volume")
    yard.rests(lambda: not evicted(yard), 5, "nobody goes for it")
    # Nor do the commands name anybody who would have to go; they say kube-scheduler's word instead.
    told = answer(yard, "explain", "pod/own", "-n", yard.namespace)
    assert (told["reason"], '"never" not found' in told["message"]) == ("RefusedByScheduler", True)
    assert '"never" not found' in ask(yard, "plan", "--live", "--check", f"{yard.namespace}/own", code=1)
    yard.apply(*volume(yard))
    yard.until(lambda: is_bound(yard), SOON, "the volume is there")
    yard.until(lambda: "own" in yard.placed(), 2 * SOON, "now somebody goes, and it runs")
    assert len(evicted(yard)) == 1
    yard.cluster.kubectl("delete", "pv", f"{yard.namespace}-data", "--wait=false")
