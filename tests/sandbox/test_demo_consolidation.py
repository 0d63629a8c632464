"""What the sample `consolidation` begins with is submitted one by one, and pinned nowhere."""

from __future__ import annotations

from typing import Any

import yaml
from gpuyard.sandbox.demo.consolidation import INITIAL, start
from gpuyard.sandbox.demo.stage import manifests

SAMPLE = manifests() / "samples" / "consolidation"
JOBS = ["training-job-1", "training-job-2", "training-job-3", "interactive-job"]


def initial() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((SAMPLE / INITIAL).read_text()))


class Recording:
    """A cluster that only remembers what happens to the jobs with which the story begins."""

    def __init__(self) -> None:
        self.done: list[tuple[str, ...]] = []

    def kubectl(self, verb: str, *arguments: str) -> str:
        if "--selector" in arguments:
            key, _, value = arguments[arguments.index("--selector") + 1].partition("=")
            jobs = [pod["metadata"] for pod in initial() if pod["metadata"]["labels"].get(key) == value]
            self.done.append((verb, *(job["name"] for job in jobs)))
        return ""


def test_each_initial_job_is_submitted_when_the_one_before_runs() -> None:
    cluster: Any = Recording()
    start(cluster, SAMPLE)
    assert cluster.done == [(verb, job) for job in JOBS for verb in ("apply", "wait")]


def test_kube_scheduler_is_free_to_place_the_initial_jobs() -> None:
    """Else the queues are passed by, and `overlays/admission` refuses the file."""
    assert [pod["metadata"]["name"] for pod in initial()] == JOBS
    assert not [pod for pod in initial() if {"nodeName", "nodeSelector", "affinity"} & pod["spec"].keys()]
