"""The consolidation demo as the cluster reports it between its second and third step."""

import re

from tests.cli.shell import sample
from tests.engine.kube.written import Json, node

MOVES = ("--set", "moveBarePods=true")
"""The jobs of the demo are bare pods; an extender moves such only where that is allowed."""

PLACES = {
    "training-job-1": "node-1",
    "training-job-2": "node-1",
    "training-job-3": "node-2",
    "interactive-job": "node-3",
}


def nodes(*, cordoned: str = "") -> list[Json]:
    names = [f"node-{n}" for n in range(1, 5)]
    return [node(name, unschedulable=True) if name == cordoned else node(name) for name in names]


def running() -> list[Json]:
    """The initial workloads, placed."""
    return [_placed(pod, PLACES[pod["metadata"]["name"]]) for pod in sample("2-initial-state.yaml")]


def demo(*, cordoned: str = "") -> list[Json]:
    """Everything, the new workloads waiting."""
    return [*nodes(cordoned=cordoned), *sample("1-queues.yaml"), *running(), *sample("3-new-workloads.yaml")]


def _placed(pod: Json, where: str) -> Json:
    return pod | {"spec": pod["spec"] | {"nodeName": where}, "status": {"phase": "Running"}}


def as_written(told: str) -> str:
    """What was told, its nodes numbered as in the written story: which empty node is opened first is chance."""
    stood = dict(re.findall(r"Allocating \d GPUs to (\S+) on node node-(\d)$", told, re.MULTILINE))
    number = {stood[job]: node.removeprefix("node-") for job, node in PLACES.items()}
    return re.sub(r"\b(node-|Node )(\d)", lambda found: found[1] + number.get(found[2], "4"), told)
