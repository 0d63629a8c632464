"""What the demo says: one line a thing that happens, tables that fit 80 columns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from gpuyard.common.kube.changes import Change
from gpuyard.sandbox.demo.objects import Node, Pod, Queue
from gpuyard.sandbox.demo.telling import (
    WIDTH,
    nodes_table,
    pod_line,
    pods_table,
    queue_line,
    queues_table,
    stamped,
    table,
)

FULL = (
    "0/4 nodes are available: 1 queue red has a limit of 16 GPUs, 3 Insufficient nvidia.com/gpu. "
    "no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
)

BARRED = FULL.replace("3 Insufficient nvidia.com/gpu", "1 node(s) had untolerated taint(s)")
"""As on kind, whose control plane is no node for pods."""


def pod(name: str = "p", gpus: int = 2, node: str = "", message: str = "", reason: str = "", **more: Any) -> Pod:  # noqa: ANN401
    said = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}] if message else []
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": {"kai.scheduler/queue": "red"}} | more.pop("metadata", {}),
            "spec": {
                "nodeName": node,
                "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
            },
            "status": {"phase": "Running" if node else "Pending", "conditions": said} | more,
        },
        Pod,
    )


def queue(name: str = "red", limit: float = 16, quota: float = 12) -> Queue:
    bounds = {"gpu": {"limit": limit, "quota": quota}}
    return msgspec.convert({"metadata": {"name": name}, "spec": {"resources": bounds}}, Queue)


def node(name: str, gpus: int = 8) -> Node:
    return msgspec.convert({"metadata": {"name": name}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}, Node)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (None, pod(gpus=1), "p asks for 1 GPU in queue red"),
        (None, pod(), "p asks for 2 GPUs in queue red"),
        (pod(), pod(node="n1"), "p runs on n1"),
        (pod(), pod(message=FULL), "p waits: queue red has a limit of 16 GPUs"),
        (pod(), pod(message=BARRED), "p waits: queue red has a limit of 16 GPUs"),
        (pod(), pod(message=FULL, reason="SchedulerError"), ""),
        (pod(message=FULL), pod(message=FULL), ""),
        (pod(node="n1"), pod(node="n1"), ""),
        (pod(node="n1"), pod(node="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "p was told to go"),
        (pod(node="n1"), None, "p is gone"),
    ],
)
def test_a_line_for_each_thing_that_happens_to_a_pod(old: Pod | None, new: Pod | None, line: str) -> None:
    assert pod_line(Change(old, new)) == line


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (None, queue(), "queue red: quota 12 GPUs, limit 16"),
        (queue(), queue(), ""),
        (queue(), queue(limit=-1), "queue red: quota 12 GPUs, no limit"),
        (queue(), None, "queue red is gone"),
    ],
)
def test_a_line_for_each_thing_that_happens_to_a_queue(old: Queue | None, new: Queue | None, line: str) -> None:
    assert queue_line(Change(old, new)) == line


def test_a_pod_that_only_full_nodes_keep_waiting_says_so() -> None:
    message = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available."
    assert pod(message=message).why_waiting == "Insufficient nvidia.com/gpu"


def test_a_message_of_another_form_is_told_as_it_is() -> None:
    assert pod(message="gpuyard is starting").why_waiting == "gpuyard is starting"


def test_a_pod_is_decided_when_it_runs_or_has_a_reason() -> None:
    assert not pod().decided
    assert not pod(message=FULL, reason="SchedulerError").decided, "kube-scheduler tries again by itself"
    assert pod(message=FULL).decided
    assert pod(node="n1").decided
    assert not pod(node="n1", phase="Pending").decided


def test_the_nodes_table_shows_each_gpu() -> None:
    assert nodes_table([node("n2"), node("n1")], [pod("a", 3, "n1"), pod("b", 1)]).splitlines() == [
        "NODE  GPUS    IN USE    PODS",
        "n1    3 of 8  ###.....  a (3)",
        "n2    0 of 8  ........  -",
    ]


def test_the_queues_table_adds_up() -> None:
    pods = [pod("a", 3, "n1"), pod("b", 1)]
    assert queues_table([queue(limit=-1)], pods).splitlines() == [
        "QUEUE  QUOTA  LIMIT  USED  WAITING",
        "red    12     none   3     1",
    ]


def test_the_pods_table_says_where_or_why() -> None:
    assert pods_table([pod("b", 1, message=FULL), pod("a", 3, "n1")]).splitlines() == [
        "POD  QUEUE  GPUS  WHERE",
        "a    red    3     n1",
        "b    red    1     waits: queue red has a limit of 16 GPUs",
    ]


def test_long_lines_are_folded_within_the_width() -> None:
    words = " ".join(["word"] * 60)
    for text in (stamped(12.3, words), table(("A", "B"), [("cell", words)])):
        lines = text.splitlines()
        assert len(lines) > 1
        assert all(len(line) <= WIDTH for line in lines)
        assert lines[-1].startswith(" ")
