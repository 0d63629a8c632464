"""What the demo says: a line for each thing that happens, and the tables at the end. 80 columns, no colours."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuyard.common.kube.changes import Change
    from gpuyard.sandbox.demo.objects import Node, Pod, Queue, Scene

WIDTH = 80
_STAMP = 11  # "[  0.0 s] "


def pod_line(change: Change[Pod]) -> str:
    """What happened to a pod, or nothing worth a line."""
    old, new = change.old, change.new
    if new is None:
        return f"{_name(old)} is gone" if old else ""
    if new.leaving:
        return "" if old and old.leaving else f"{_name(new)} was told to go"
    if new.spec.node_name and not (old and old.spec.node_name):
        return f"{_name(new)} runs on {new.spec.node_name}"
    if new.why_waiting and (old is None or new.why_waiting != old.why_waiting):
        return f"{_name(new)} waits: {new.why_waiting}"
    if old is None:
        return f"{_name(new)} asks for {_gpus(new.gpus)} in queue {new.queue}"
    return ""


def queue_line(change: Change[Queue]) -> str:
    """What happened to a queue."""
    old, new = change.old, change.new
    if new is None:
        return f"queue {old.metadata.name} is gone" if old else ""
    if old is not None and old.spec == new.spec:
        return ""
    bounds = new.spec.resources.gpu
    limit = "no limit" if bounds.limit < 0 else f"limit {bounds.limit:g}"
    return f"queue {new.metadata.name}: quota {_bound(bounds.quota)} GPUs, {limit}"


def stamped(seconds: float, text: str) -> str:
    """A line with its time in front, folded to the width."""
    body = textwrap.wrap(text, WIDTH - _STAMP) or [""]
    return "\n".join([f"[{seconds:6.1f} s] {body[0]}", *(" " * _STAMP + line for line in body[1:])])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as they need to be; the last one is folded to the width."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head) - 1)]
    indent = sum(widths) + 2 * len(widths)
    out = []
    for line in lines:
        start = "".join(cell.ljust(width + 2) for cell, width in zip(line, widths, strict=False))
        folded = textwrap.wrap(line[-1], WIDTH - indent) or [""]
        out += [(start + folded[0]).rstrip(), *(" " * indent + rest for rest in folded[1:])]
    return "\n".join(out)


def tables(scene: Scene) -> str:
    """How things are, for people."""
    nodes, queues, pods = scene
    return "\n\n".join((nodes_table(nodes, pods), queues_table(queues, pods), pods_table(pods)))


def document(scene: Scene) -> dict[str, list[dict[str, object]]]:
    """How things are, for programs."""
    nodes, queues, pods = scene
    return {
        "nodes": [{"name": n.metadata.name, "gpus": n.gpus} for n in nodes],
        "queues": [{"name": q.metadata.name, **msgspec.to_builtins(q.spec.resources.gpu)} for q in queues],
        "pods": [
            {
                "name": p.metadata.name,
                "queue": p.queue,
                "gpus": p.gpus,
                "node": p.spec.node_name,
                "waits": p.why_waiting,
            }
            for p in pods
        ],
    }


def nodes_table(nodes: Iterable[Node], pods: Sequence[Pod]) -> str:
    """Each node with its GPUs and whose they are."""
    rows = []
    for node in sorted(nodes, key=lambda n: n.metadata.name):
        here = [pod for pod in pods if pod.spec.node_name == node.metadata.name]
        used = sum(pod.gpus for pod in here)
        names = ", ".join(f"{pod.metadata.name} ({pod.gpus})" for pod in here)
        rows.append((node.metadata.name, f"{used} of {node.gpus}", "#" * used + "." * (node.gpus - used), names or "-"))
    return table(("NODE", "GPUS", "IN USE", "PODS"), rows)


def queues_table(queues: Iterable[Queue], pods: Sequence[Pod]) -> str:
    """Each queue with its bounds, what it uses and what it waits for."""
    rows = []
    for queue in sorted(queues, key=lambda q: q.metadata.name):
        name, bounds = queue.metadata.name, queue.spec.resources.gpu
        mine = [pod for pod in pods if pod.queue == name]
        used = sum(pod.gpus for pod in mine if pod.spec.node_name)
        waits = sum(pod.gpus for pod in mine if not pod.spec.node_name)
        rows.append((name, _bound(bounds.quota), _bound(bounds.limit), str(used), str(waits)))
    return table(("QUEUE", "QUOTA", "LIMIT", "USED", "WAITING"), rows)


def pods_table(pods: Sequence[Pod]) -> str:
    """Each pod, where it is or why it is nowhere."""
    rows = [
        (p.metadata.name, p.queue, str(p.gpus), p.spec.node_name or f"waits: {p.why_waiting}")
        for p in sorted(pods, key=lambda p: (p.queue, p.metadata.name))
    ]
    return table(("POD", "QUEUE", "GPUS", "WHERE"), rows)


def _name(pod: Pod | None) -> str:
    return pod.metadata.name if pod else ""


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _bound(value: float) -> str:
    return "none" if value < 0 else f"{value:g}"
