"""`filter` through the real kube-scheduler: limits, quotas, reservations, and who is not asked about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "never"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "nobody-provides",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
STORAGE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "nobody-provides"},
    "provisioner": "example.com/nobody",
    "volumeBindingMode": "WaitForFirstConsumer",
}
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "never"}}]


def waiting_for_its_volume(yard: Yard, name: str, queue: str) -> None:
    """Submit a pod that kube-scheduler assumes on a node and does not bind: nobody provides its volume."""
    claim = CLAIM | {"metadata": {"name": "never", "namespace": yard.namespace}}
    yard.apply(STORAGE, claim)
    yard.submit(name, queue=queue, volumes=VOLUMES)

    def chosen() -> bool:
        found = yard.cluster.kubectl("get", "pvc", "never", "--namespace", yard.namespace, "-o", "json")
        return "volume.kubernetes.io/selected-node" in json.loads(found)["metadata"].get("annotations", {})

    yard.until(chosen, 15, "kube-scheduler has chosen a node for the volume")


def test_pods_within_their_limit_are_bound_by_the_default_scheduler(yard: Yard) -> None:
    queue = yard.queue("team", limit=4)
    yard.submit("a", "b", queue=queue, gpus=2)
    yard.until(lambda: yard.placed() == {"a", "b"}, 15, "both run")


@pytest.mark.row("E-05")
def test_a_full_queue_waits_with_our_sentence_and_the_same_bytes_each_time(yard: Yard) -> None:
    queue = yard.queue("team", limit=8)
    yard.submit(*(f"run-{number}" for number in range(8)), queue=queue)
    yard.until(lambda: len(yard.placed()) == 8, 15, "eight run")
    yard.submit("late", queue=queue)
    yard.until(lambda: "late" in yard.verdicts(), 15, "kube-scheduler has said why it waits")
    assert f" queue {queue} has a limit of 8 GPUs" in yard.verdicts()["late"]
    late = yard.pods()["late"]
    answers = {json.dumps(yard.filter(late)) for _ in range(100)}
    assert len(answers) == 1
    answer = json.loads(answers.pop())
    assert answer["NodeNames"] == []
    assert answer["FailedNodes"] == {}
    assert set(answer["FailedAndUnresolvableNodes"]) == {"node-1", "node-2", "node-3", "node-4"}
    assert "late" not in yard.placed()


@pytest.mark.row("E-07")
def test_what_was_granted_and_is_not_bound_yet_is_taken(yard: Yard) -> None:
    queue = yard.queue("team", limit=1)
    waiting_for_its_volume(yard, "a", queue)
    yard.submit("b", queue=queue)
    yard.until(lambda: "b" in yard.verdicts(), 15, "b is refused")
    assert "has a limit of 1 GPU" in yard.verdicts()["b"]
    assert yard.placed() == set()
    yard.delete("a")
    yard.until(lambda: yard.placed() == {"b"}, 15, "b follows when a is gone")


def test_pods_without_gpus_are_none_of_our_business(yard: Yard) -> None:
    yard.submit("plain", gpus=0)
    yard.until(lambda: yard.placed() == {"plain"}, 15, "it runs")


def test_gpu_pods_without_a_queue_pass(yard: Yard) -> None:
    yard.submit("free", gpus=1)
    yard.until(lambda: yard.placed() == {"free"}, 15, "it runs")


def test_a_pod_that_names_the_other_profile_is_served_by_queue_as_well(yard: Yard) -> None:
    queue = yard.queue("team", limit=1)
    yard.submit("first", "second", queue=queue, schedulerName="kai-scheduler")
    yard.until(lambda: len(yard.placed()) == 1 and len(yard.verdicts()) == 1, 15, "one runs, one waits")


def test_a_department_at_its_limit_holds_back_its_teams(yard: Yard) -> None:
    department = yard.queue("dept", limit=1)
    team = yard.queue("team", parentQueue=department)
    yard.submit("first", queue=team)
    yard.until(lambda: yard.placed() == {"first"}, 15, "the first runs")
    yard.submit("second", queue=team)
    yard.until(lambda: f"queue {department} has a limit of 1 GPU" in yard.verdicts().get("second", ""), 15, "it waits")


def test_a_queue_with_nonsense_is_refused_and_the_last_good_one_stays(yard: Yard) -> None:
    queue = yard.queue("team", limit=1)
    with pytest.raises(Exception, match="must be -1"):
        yard.queue("team", limit=-3)
    yard.submit("first", "second", queue=queue)
    yard.until(lambda: len(yard.placed()) == 1 and len(yard.verdicts()) == 1, 15, "one runs, one waits")
