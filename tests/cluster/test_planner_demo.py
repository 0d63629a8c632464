"""The story of the samples by kubectl apply of their three files, on a cluster of four nodes with eight GPUs each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from gpuyard.cli.happened import happened
from gpuyard.sandbox.demo.consolidation import look, start
from gpuyard.sandbox.demo.stage import manifests

from tests.cli.demo import as_written
from tests.cli.test_story import STEP_1, STEP_2, STEP_3
from tests.cluster.planner import plans_for, with_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.yard import Json, Yard

pytestmark = pytest.mark.ground("processes")

SAMPLE = manifests() / "samples" / "consolidation"
KEEP_NODES_EMPTY = "consolidation: {keepNodesEmpty: true}"
BEFORE = [{"training-job-1", "training-job-2"}, {"training-job-3"}, {"interactive-job"}]
"""Who shares a node, and below where the story ends, by default and by a move. Empty nodes are alike: which of them
kube-scheduler opens is chance."""

STARTED = [*BEFORE[:2], {"interactive-job", "training-job-b"}, {"training-job-a"}]
MOVED = [
    {"training-job-1", "training-job-a"},
    {"training-job-3", "training-job-2"},
    {"interactive-job", "training-job-b"},
]
SHARES = {"department-1": 13, "department-2": 11, "project-a": 7, "project-b": 6, "project-c": 6, "project-d": 5}


class Story:
    """The sample's objects in the shared sandbox."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.before: list[Json] = []

    def apply(self, name: str) -> None:
        """What a reader of the README types."""
        self.yard.cluster.kubectl("apply", "-f", str(SAMPLE / name))

    def begin(self) -> None:
        """The queues, and what runs before the story begins: one after the other."""
        self.yard.cluster.kubectl("apply", "-f", str(manifests() / "priority-classes" / "priority-classes.yaml"))
        self.apply("1-queues.yaml")
        start(self.yard.cluster, SAMPLE)
        assert self.lie_as(BEFORE)

    def go_on(self) -> None:
        """The new workloads, all at once."""
        self.before = look(self.yard.cluster)
        self.apply("3-new-workloads.yaml")

    def told(self) -> str:
        """What happened since then, the nodes numbered as in the written story."""
        return as_written(happened(self.before, look(self.yard.cluster)))

    def shares(self) -> dict[str, int]:
        """The fair share of each queue of the story, as the Queue objects say."""
        found: Json = json.loads(self.yard.cluster.kubectl("get", "queues.scheduling.run.ai", "-o", "json"))
        by_name = {one["metadata"]["name"]: one.get("status", {}).get("fairShare", {}) for one in found["items"]}
        return {name: int(share["nvidia.com/gpu"]) for name, share in by_name.items() if name in SHARES and share}

    def pods(self) -> list[Json]:
        found: Json = json.loads(self.yard.cluster.kubectl("get", "pods", "--all-namespaces", "-o", "json"))
        return [pod for pod in found["items"] if pod["metadata"]["namespace"].startswith("project-")]

    def lie_as(self, company: list[set[str]]) -> bool:
        """Whether these pods run, and share their nodes like this."""
        found: dict[str, set[str]] = {}
        for pod in self.pods():
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
                found.setdefault(pod["spec"]["nodeName"], set()).add(pod["metadata"]["name"])
        return sorted(found.values(), key=sorted) == sorted(company, key=sorted)

    def empty(self) -> str:
        """The node on which nobody is."""
        (name,) = {f"node-{number}" for number in range(1, 5)} - {pod["spec"].get("nodeName") for pod in self.pods()}
        return name

    def is_gone(self) -> bool:
        """Whether nothing of it is left."""
        kinds = "namespaces,queues.scheduling.run.ai"
        left = self.yard.cluster.kubectl("get", kinds, "--ignore-not-found", "-o", "name").split()
        return not any("/project-" in one or "/department-" in one for one in left)

    def evicted(self) -> list[str]:
        """The pods of the story that were evicted since it began."""
        lines = self.yard.cluster.audit_log.read_text().splitlines()
        events = [json.loads(line) for line in lines if '"subresource":"eviction"' in line]
        return [e["objectRef"]["name"] for e in events if e["objectRef"]["namespace"].startswith("project-")]

    def end(self) -> None:
        """Clean up in reverse order."""
        for name in ("3-new-workloads.yaml", "2-initial-state.yaml", "1-queues.yaml"):
            self.yard.cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", str(SAMPLE / name))


@pytest.fixture
def story(yard: Yard) -> Iterator[Story]:
    told = Story(yard)
    yield told
    told.end()
    yard.until(told.is_gone, 60, "nothing is left behind")


@pytest.fixture
def cordoned(story: Story) -> Iterator[Story]:
    """The story, of which the empty node takes nobody."""
    story.begin()
    empty = story.empty()
    story.yard.cluster.kubectl("cordon", empty)
    yield story
    story.yard.cluster.kubectl("uncordon", empty)


@pytest.mark.row("Q-34")
@pytest.mark.row("Q-44", case="default")
def test_in_default_mode_both_jobs_find_room_and_nobody_moves(story: Story) -> None:
    story.begin()
    before = len(story.evicted())
    story.go_on()
    story.yard.until(lambda: story.lie_as(STARTED), 60, "both run")
    assert len(story.evicted()) == before
    assert "Allocating 4 GPUs to training-job-a on node node-4" in story.told()
    story.yard.until(lambda: story.shares() == SHARES, 30, "the Queue objects say who is due what")


@pytest.mark.row("Q-35")
@pytest.mark.row("Q-44", case="keep-nodes-empty")
@pytest.mark.row("E-40", case="consolidate")
def test_with_nodes_kept_empty_one_job_moves_and_a_node_stays_empty(story: Story) -> None:
    with with_settings(story.yard.cluster, KEEP_NODES_EMPTY):
        story.begin()
        one_job_moves(story)


@pytest.mark.row("Q-36")
def test_with_the_empty_node_cordoned_the_same_happens_without_the_mode(cordoned: Story) -> None:
    one_job_moves(cordoned)


def one_job_moves(story: Story) -> None:
    """What happens is the written story, line by line."""
    before = len(story.evicted())
    story.go_on()
    story.yard.until(lambda: story.lie_as(MOVED), 60, "job A has its place, job 2 has moved")
    assert story.evicted()[before:] == ["training-job-2"]
    moved = next(pod for pod in story.pods() if pod["metadata"]["name"] == "training-job-2")
    assert "gpuyard.io/moved-from" in moved["metadata"]["annotations"]
    plans = [one for one in plans_for(story.yard, "project-c") if one["spec"]["phase"] == "consolidate"]
    (plan,) = [one for one in plans if one["metadata"]["name"] not in known(story.before)]
    story.yard.until(lambda: ended(story.yard, plan["metadata"]["name"]), 30, "the plan is kept")
    first, rest = story.told().split("\n\n", maxsplit=1)
    # Of those that came within one second nobody knows who was first.
    assert sorted(first.splitlines()) == sorted(STEP_1.splitlines())
    assert rest == f"{STEP_2}\n{STEP_3}"


def known(things: list[Json]) -> set[str]:
    return {thing["metadata"]["name"] for thing in things if thing["kind"] == "Plan"}


def ended(yard: Yard, plan: str) -> bool:
    found = json.loads(yard.cluster.kubectl("get", "plans.gpuyard.io", plan, "-o", "json"))
    return bool(found["status"]["state"] == "Kept")
