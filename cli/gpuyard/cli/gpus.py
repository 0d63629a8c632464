"""The mock GPUs as rows: what `gpuyard gpu list` shows. Pure: topology and pods in, rows and lines out."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from gpuyard.common.topology.ids import physical_id
from gpuyard.common.topology.model import Node, Usage


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One GPU, or one slice of it."""

    node: str
    index: int
    id: str
    product: str
    health: str
    utilization: int
    memory_used: int
    memory: int
    profile: str = ""
    xid: int = 0
    namespace: str = ""
    pod: str = ""
    container: str = ""
    exact: bool | None = None
    """Whether kubelet named this device for the container; None while nobody uses it."""


def rows(nodes: Mapping[str, Node], pods: Iterable[Mapping[str, Any]], now: float | None = None) -> list[Row]:
    """A row per device, in the topology's order."""
    given = {place for pod in pods for place in _given(pod)}
    at = time.time() if now is None else now
    return [row for name in sorted(nodes) for row in _of_node(nodes[name], given, at)]


Place = tuple[str, str, str, str]


def _given(pod: Mapping[str, Any]) -> set[Place]:
    """Namespace, pod, container and device, as kubelet said it."""
    meta = pod["metadata"]
    return {
        (meta["namespace"], meta["name"], status["name"], physical_id(device["resourceID"]))
        for status in pod.get("status", {}).get("containerStatuses", ())
        for resource in status.get("allocatedResourcesStatus", ())
        for device in resource.get("resources", ())
    }


def _of_node(node: Node, given: set[Place], now: float) -> Iterable[Row]:
    for gpu in node.gpus:
        devices = [(each.id, each.usage, each.profile.memory, each.profile.name) for each in gpu.mig or ()]
        for device, usage, memory, profile in devices or [(gpu.id, gpu.usage, node.hardware.memory, "")]:
            owner = usage.owner
            yield Row(
                node=node.name,
                index=gpu.index,
                id=device,
                product=node.hardware.product,
                health="healthy" if gpu.healthy else "unhealthy",
                utilization=usage.utilization(now),
                memory_used=usage.fb_used(memory),
                memory=memory,
                profile=profile,
                xid=gpu.xid,
                namespace=owner.namespace if owner else "",
                pod=owner.pod if owner else "",
                container=owner.container if owner else "",
                exact=_exact(usage, device, given),
            )


def _exact(usage: Usage, device: str, given: set[Place]) -> bool | None:
    if usage.owner is None:
        return None
    return (usage.owner.namespace, usage.owner.pod, usage.owner.container, device) in given


def name_lines(found: Iterable[Row]) -> str:
    """`node/index`, one a line."""
    return "".join(f"{name}\n" for name in dict.fromkeys(f"{row.node}/{row.index}" for row in found))


_HEADS = ("NODE", "GPU", "PRODUCT", "HEALTH", "POD", "EXACT", "UTIL", "MEMORY")
_WIDE = ("ID", "CONTAINER", "XID")


def table_lines(found: Sequence[Row], *, wide: bool, headers: bool) -> str:
    """Columns for people."""
    lines = [_HEADS + (_WIDE if wide else ())] if headers else []
    lines += [_cells(row) + (_wide_cells(row) if wide else ()) for row in found]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    exact = {None: "", True: "yes", False: "no"}[row.exact]
    gpu = f"{row.index}/{row.profile}" if row.profile else str(row.index)
    pod = f"{row.namespace}/{row.pod}" if row.pod else "-"
    memory = f"{row.memory_used}/{row.memory} MiB"
    return row.node, gpu, row.product, row.health, pod, exact or "-", f"{row.utilization}%", memory


def _wide_cells(row: Row) -> tuple[str, ...]:
    return row.id, row.container or "-", str(row.xid)
