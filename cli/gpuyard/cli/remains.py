"""What the mock leaves on a node, and the patches that take it away. Pure.

Which resources are ours the status updater noted on the node. Kubelet writes an entry again and again until five
minutes after its plugin has ended, then once more, as 0: only then can it be taken out.
"""

from collections.abc import Iterable

from gpuyard.common.kube.client import Json
from gpuyard.common.topology.cluster_node import RESOURCES_ANNOTATION, ClusterNode
from gpuyard.common.topology.reading import MOCK_LABEL

FIELDS = ("capacity", "allocatable")


def entries(node: ClusterNode) -> set[str]:
    """The resources of ours in the node's status."""
    status = node.status
    return node.mock_resources & {*(status.capacity or {}), *(status.allocatable or {})}


def held(node: ClusterNode) -> set[str]:
    """Those of them that kubelet would write again."""
    if node.played:
        return set()
    capacity = node.status.capacity or {}
    return {name for name in entries(node) if capacity.get(name, "0") != "0"}


def told(node: ClusterNode, labels: Iterable[str]) -> str:
    """What of ours the node carries, in words; `labels` are gfd's. Empty: nothing."""
    count = len(list(labels))
    parts = [
        f"{count} labels" if count else "",
        "the mark gpuyard.io/mock" if node.marked else "",
        ", ".join(sorted(entries(node))),
    ]
    return ", ".join(filter(None, parts))


def without(names: Iterable[str]) -> Json:
    """The status patch that takes entries away."""
    return {"status": {field: dict.fromkeys(sorted(names)) for field in FIELDS}}


def unmarked() -> Json:
    """The metadata patch that takes the status updater's marks away."""
    return {"metadata": {"labels": {MOCK_LABEL: None}, "annotations": {RESOURCES_ANNOTATION: None}}}
