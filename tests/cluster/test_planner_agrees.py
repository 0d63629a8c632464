"""The live cluster ends as `gpuyard plan` says it would: Jobs, the default kube-scheduler, evictions counted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from gpuyard.sandbox.demo.stage import manifests

from tests.cluster.planner import evicted

if TYPE_CHECKING:
    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

KINDS = "nodes,pods,queues.scheduling.run.ai,podgroups.scheduling.run.ai,priorityclasses,pdb"


class Job(NamedTuple):
    """Pods of one kind that a Job looks after."""

    name: str
    queue: str
    pods: int
    gpus: int
    priority: str = "train"
    gang: int = 0
    fixed: bool = False


def pod_of(yard: Yard, job: Job, name: str) -> Json:
    labels = {"kai.scheduler/preemptibility": "non-preemptible"} if job.fixed else {}
    notes = {"kai.scheduler/batch-min-member": str(job.gang)} if job.gang else {}
    made = yard.pod(name, job.queue, job.gpus, priorityClassName=job.priority, restartPolicy="Never")
    made["metadata"]["labels"] |= labels
    made["metadata"]["annotations"] |= notes
    return made


def submit(yard: Yard, *jobs: Job) -> None:
    for job in jobs:
        template = pod_of(yard, job, job.name)
        meta = {"name": job.name, "namespace": yard.namespace}
        spec = {
            "parallelism": job.pods,
            "completions": job.pods,
            "backoffLimit": 50,
            "template": {"metadata": {k: template["metadata"][k] for k in ("labels", "annotations")}}
            | {"spec": template["spec"]},
        }
        yard.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


def placed(yard: Yard) -> Counter[str]:
    """How many pods of each queue stand on a node and stay there."""
    return Counter(
        pod["metadata"]["labels"]["kai.scheduler/queue"]
        for pod in yard.pods().values()
        if pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and pod["status"]["phase"] != "Failed"
    )


def foretold(yard: Yard, *jobs: Job) -> tuple[Counter[str], int]:
    """How many pods of each queue stand after these were submitted, and how many evictions that takes."""
    cluster = json.loads(yard.cluster.kubectl("get", KINDS, "--all-namespaces", "-o", "json"))
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for job in jobs:
        for number in range(job.pods):
            made = pod_of(yard, job, f"{job.name}-{number}")
            owner = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": job.name,
                "uid": f"job-{job.name}",
                "controller": True,
            }
            made["metadata"] |= {"creationTimestamp": now, "ownerReferences": [owner]}
            cluster["items"].append(made)
    command = [sys.executable, "-m", "gpuyard.cli", "plan", "-f", "-", "-o", "json", "--now", now]
    said = json.loads(
        subprocess.run(command, input=json.dumps(cluster), capture_output=True, text=True, check=True).stdout
    )
    queues = {
        f"{one['metadata'].get('namespace', 'default')}/{one['metadata']['name']}": one["metadata"].get("labels", {})
        for one in cluster["items"]
        if one["kind"] == "Pod"
    }
    final = Counter(
        queues[pod]["kai.scheduler/queue"]
        for pod, end in said["final"].items()
        if pod.startswith(f"{yard.namespace}/") and end["state"] in ("Running", "Bound")
    )
    return final, sum(action["do"] == "evict" for cycle in said["cycles"] for action in cycle["actions"])


def runs(yard: Yard, *jobs: Job) -> None:
    """These jobs have run for more than a second: creation times are whole seconds."""
    submit(yard, *jobs)
    yard.until(lambda: sum(placed(yard).values()) >= sum(job.pods for job in jobs), 30, "they run")
    time.sleep(1.1)


def agrees(yard: Yard, *jobs: Job) -> int:
    """Submit jobs: the cluster ends as foretold, and stays so. How many evictions that took."""
    expected, evictions = foretold(yard, *jobs)
    before = len(evicted(yard)) + len(deleted_by_kube_scheduler(yard))
    submit(yard, *jobs)

    def gone() -> int:
        return len(evicted(yard)) + len(deleted_by_kube_scheduler(yard)) - before

    yard.until(
        lambda: placed(yard) == expected and gone() == evictions, 60, f"as foretold: {expected}, {evictions} leave"
    )
    yard.rests(lambda: placed(yard) == expected and gone() == evictions, 3, "it stays so")
    return evictions


def deleted_by_kube_scheduler(yard: Yard) -> set[str]:
    """The pods that preempt let it evict."""
    events = yard.audit("delete", "pods")
    return {one["objectRef"]["name"] for one in events if one["user"]["username"] == "system:kube-scheduler"}


@pytest.fixture(autouse=True)
def classes(yard: Yard) -> None:
    yard.cluster.kubectl("apply", "-f", str(manifests() / "priority-classes" / "priority-classes.yaml"))


@pytest.mark.row("E-40", case="allocate")
def test_what_fits_within_the_limit_starts(yard: Yard) -> None:
    team = yard.queue("team", limit=16)
    assert agrees(yard, Job("job", team, 6, 4)) == 0
    assert placed(yard)[team] == 4


@pytest.mark.row("E-40", case="reclaim")
def test_lent_gpus_come_back(yard: Yard) -> None:
    borrower, owner = yard.queue("borrower", quota=16), yard.queue("owner", quota=16)
    runs(yard, Job("old", borrower, 4, 4))
    submit(yard, Job("new", borrower, 4, 4))
    yard.until(lambda: placed(yard)[borrower] == 8, 30, "the cluster is full")
    time.sleep(1.1)
    assert agrees(yard, Job("own", owner, 5, 4)) == 4
    assert placed(yard) == {borrower: 4, owner: 4}
    assert all(name.startswith("new-") for name in evicted(yard))


@pytest.mark.row("E-40", case="consolidate")
def test_small_jobs_move_together_for_a_large_one(yard: Yard) -> None:
    team = yard.queue("team")
    runs(yard, Job("rock", team, 2, 8, fixed=True), Job("one", team, 1, 4))
    submit(yard, Job("guest", team, 1, 4))
    yard.until(lambda: placed(yard)[team] == 4, 30, "two share a node")
    runs_elsewhere = Job("two", team, 1, 4)
    submit(yard, runs_elsewhere)
    yard.until(lambda: placed(yard)[team] == 5, 30, "the third has a node of its own")
    yard.cluster.kubectl("delete", "job", "guest", "--namespace", yard.namespace)
    yard.until(lambda: placed(yard)[team] == 4, 30, "two nodes are half full")
    time.sleep(1.1)
    assert agrees(yard, Job("large", team, 1, 8)) == 1


@pytest.mark.row("E-40", case="gang")
@pytest.mark.row("Q-47", case="job")
def test_a_gang_that_does_not_fit_starts_nothing(yard: Yard) -> None:
    team = yard.queue("team")
    runs(yard, Job("rock", team, 2, 8, fixed=True))
    assert agrees(yard, Job("gang", team, 3, 8, gang=3)) == 0
    assert placed(yard)[team] == 2
    yard.cluster.kubectl("delete", "job", "rock", "--namespace", yard.namespace)
    yard.until(lambda: placed(yard)[team] == 3, 60, "with room for all three it starts whole")


@pytest.mark.row("E-40", case="preempt")
def test_within_a_queue_the_lower_priority_makes_room(yard: Yard) -> None:
    team, other = yard.queue("team", quota=16), yard.queue("other", quota=16)
    runs(yard, Job("theirs", other, 4, 4))
    submit(yard, Job("low", team, 4, 4))
    yard.until(lambda: placed(yard)[team] == 4, 30, "the cluster is full")
    time.sleep(1.1)
    assert agrees(yard, Job("high", team, 2, 4, priority="build-preemptible")) == 2
    assert placed(yard) == {team: 4, other: 4}
