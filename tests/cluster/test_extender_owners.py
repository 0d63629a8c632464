"""Training jobs whose size only their owner tells: through the real kube-scheduler, whole or not at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from gpuyard.common.cluster.owners import KINDS

from tests.cluster.owners import definition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

PYTORCH = KINDS["PyTorchJob"]


@pytest.fixture
def training(yard: Yard) -> Iterator[Yard]:
    """A cluster in which PyTorchJobs are installed."""
    found = definition(PYTORCH)
    yard.apply(found)
    name = found["metadata"]["name"]
    yard.cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
    yield yard
    yard.cluster.kubectl("delete", "crd", name, "--timeout=60s")


def submitted(yard: Yard, name: str, workers: int) -> str:
    """A PyTorchJob of one master and so many workers is created; its UID."""
    replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": workers}}
    kind = {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.kind}
    yard.apply(
        kind | {"metadata": {"name": name, "namespace": yard.namespace}, "spec": {"pytorchReplicaSpecs": replicas}}
    )
    found = yard.cluster.kubectl("get", f"{PYTORCH.plural}.kubeflow.org", name, "-n", yard.namespace, "-o", "json")
    return str(json.loads(found)["metadata"]["uid"])


def of_job(pod: Json, job: str, uid: str) -> Json:
    """The pod as the training operator would make it."""
    owner = {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.kind, "name": job, "uid": uid, "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


@pytest.mark.row("Q-47", case="pytorchjob")
def test_a_training_job_starts_whole_or_not_at_all(training: Yard) -> None:
    yard, team = training, training.queue("team")
    yard.submit("rock-1", "rock-2", gpus=8)
    yard.until(lambda: len(yard.placed()) == 2, 30, "two nodes are left")
    uid = submitted(yard, "train", workers=2)
    names = {"train-master-0", "train-worker-0", "train-worker-1"}
    yard.apply(*(of_job(yard.pod(name, team, 8), "train", uid) for name in sorted(names)))
    yard.until(lambda: names <= set(yard.verdicts()), 60, "all three wait")
    yard.rests(lambda: not names & yard.placed(), 5, "none of them runs, though there is room for two")
    yard.delete("rock-1")
    yard.until(lambda: names <= yard.placed(), 90, "with room for all three it starts whole")


def test_a_job_may_say_by_its_own_annotation_how_many_of_its_pods_start_together(yard: Yard) -> None:
    team = yard.queue("team")
    yard.submit("rock-1", "rock-2", "rock-3", gpus=8)
    yard.until(lambda: len(yard.placed()) == 3, 30, "one node is left")
    template = yard.pod("job", team, 8)
    spec = template["spec"] | {"restartPolicy": "Never"}
    yard.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "job",
                "namespace": yard.namespace,
                "annotations": {"kai.scheduler/batch-min-member": "2"},
            },
            "spec": {
                "parallelism": 2,
                "completions": 2,
                "template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": spec},
            },
        }
    )
    yard.until(lambda: len(yard.verdicts()) == 2, 60, "both wait")
    yard.rests(lambda: len(yard.placed()) == 3, 5, "none of them runs, though there is room for one")
    yard.delete("rock-1")
    yard.until(lambda: len(yard.placed()) == 4, 90, "with room for both they start")
