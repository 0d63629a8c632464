"""The samples do what their comments say, applied as they stand."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.demo.stage import manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")

ROOT = Path(__file__).parents[2]
WITHIN = 60
WORKERS = {f"training-worker-{number}" for number in range(3)}
TRAINING = {"training-master-0"} | WORKERS


class Sample:
    """A sample in the shared sandbox; it is gone afterwards."""

    def __init__(self, yard: Yard, name: str) -> None:
        self.yard = yard
        self.folder = manifests() / "samples" / name

    def apply(self, name: str) -> None:
        self.yard.cluster.kubectl("apply", "-f", str(self.folder / name))

    def placed(self, namespace: str) -> set[str]:
        """The pods of a namespace that have a node and stay there."""
        found = self.yard.cluster.kubectl("get", "pods", "--namespace", namespace, "-o", "json")
        pods = json.loads(found)["items"]
        here = [pod for pod in pods if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]
        return {pod["metadata"]["name"] for pod in here}

    def node(self, namespace: str, pod: str) -> str:
        where = ("-o", "jsonpath={.spec.nodeName}")
        return self.yard.cluster.kubectl("get", "pod", pod, "--namespace", namespace, *where)

    def remove(self) -> None:
        for file in sorted(self.folder.glob("*.yaml"), reverse=True):
            self.yard.cluster.kubectl("delete", "--ignore-not-found", "--timeout=60s", "-f", str(file))


def accounts(yard: Yard, *namespaces: str) -> None:
    """Wait until pods can be made there."""
    for name in namespaces:
        yard.cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s", "--namespace", name)


@pytest.fixture
def distributed(yard: Yard) -> Iterator[Sample]:
    sample = Sample(yard, "distributed")
    sample.apply("1-queue.yaml")
    accounts(yard, "distributed")
    yield sample
    sample.remove()


def test_a_distributed_training_starts_as_a_whole_and_a_job_after_it_waits_as_a_whole(distributed: Sample) -> None:
    until = distributed.yard.until
    distributed.apply("2-training.yaml")
    until(lambda: distributed.placed("distributed") == TRAINING, WITHIN, "master and workers run")
    distributed.apply("3-job.yaml")
    until(lambda: len(pods_of_the_job(distributed)) == 3, WITHIN, "the Job has its pods")
    distributed.yard.rests(lambda: distributed.placed("distributed") == TRAINING, 3, "none of the Job's pods runs")
    distributed.yard.cluster.kubectl("delete", "-f", str(distributed.folder / "2-training.yaml"))
    until(lambda: distributed.placed("distributed") == pods_of_the_job(distributed), WITHIN, "all of them run")


def pods_of_the_job(sample: Sample) -> set[str]:
    selected = ("--selector", "batch.kubernetes.io/job-name=evaluation", "-o", "name")
    found = sample.yard.cluster.kubectl("get", "pods", "--namespace", "distributed", *selected)
    return {name.removeprefix("pod/") for name in found.split()}


@pytest.fixture
def consolidation(yard: Yard) -> Iterator[Sample]:
    sample = Sample(yard, "consolidation")
    yield sample
    sample.remove()


@pytest.mark.row("Q-44", case="clean-up")
def test_the_readme_of_the_consolidation_can_be_typed_line_by_line(consolidation: Sample) -> None:
    text = (consolidation.folder / "README.md").read_text()
    lines = re.findall(r"^    (kubectl .*|for (?:.*\n)+?    done)$", text, re.MULTILINE)
    away = [line for line in lines if " delete " in line]
    for line in lines[: -len(away)]:
        typed(consolidation.yard, line)
        if "2-initial-state" in line:
            first = consolidation.node("project-a", "training-job-1")
            assert consolidation.node("project-c", "training-job-2") == first
        if "1-queues" in line:
            # Whoever types is slower than the API server.
            accounts(consolidation.yard, *(f"project-{name}" for name in "abcd"))
    jobs = {"project-a": "training-job-b", "project-c": "training-job-a"}
    for namespace, job in jobs.items():
        here = lambda where=namespace, who=job: who in consolidation.placed(where)  # noqa: E731
        consolidation.yard.until(here, WITHIN, f"{job} runs")
    for line in away:
        typed(consolidation.yard, line)
    left = typed(consolidation.yard, "kubectl get namespaces,queues.scheduling.run.ai -o name")
    assert not re.search(r"/(project|department)-", left)


def typed(yard: Yard, line: str) -> str:
    """What a command or a loop of commands says, typed into a shell at the top of the checkout."""
    kubectl = yard.cluster.program("kubectl")
    command = "set -e; " + re.sub(r"\bkubectl\b", f"{kubectl} --kubeconfig {yard.cluster.kubeconfig}", line)
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)  # noqa: S602
    assert done.returncode == 0, line + done.stderr
    return done.stdout
