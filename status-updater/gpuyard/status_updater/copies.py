"""Copies of what users wrote, as it last could be read: what stays in force for those who start while a map is broken.

A copy is written when the user changed something; usage alone does not count. While the map is broken the copy is in
force, so the usage goes there. It goes when the map goes, as its owner reference says.

Decided in docs/decisions.md: "The last good topology is a ConfigMap beside the broken one".
"""

from collections.abc import Iterator

from gpuyard.common.kube.client import Json
from gpuyard.common.topology.maps import KEY, LAST_GOOD, NODE_LABEL, ConfigMap
from gpuyard.common.topology.model import Node, Topology


def same_but_for_usage(one: Topology, other: Topology) -> bool:
    """Whether a user would see no difference."""
    if one.form is not other.form or one.pools != other.pools or one.nodes.keys() != other.nodes.keys():
        return False
    return all(same_node(node, other.nodes[name]) for name, node in one.nodes.items())


def same_node(one: Node, other: Node) -> bool:
    """Whether two nodes differ in their usage at most."""
    return one.hardware == other.hardware and list(_gpus(one)) == list(_gpus(other))


def _gpus(node: Node) -> Iterator[tuple[object, ...]]:
    for gpu in node.gpus:
        yield gpu.id, gpu.healthy, gpu.xid, gpu.zone, gpu.mig and [instance.id for instance in gpu.mig], gpu.mig is None


def body(found: ConfigMap, text: str) -> Json:
    """The copy of a map, to be created."""
    meta = found.metadata
    labels = {name: value for name, value in (meta.labels or {}).items() if name == NODE_LABEL}
    about = f"What ConfigMap {meta.name} said when it last could be read; in force while it cannot."
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta.name, "uid": meta.uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": LAST_GOOD + meta.name,
            "labels": labels,
            "annotations": {"kubernetes.io/description": about},
            "ownerReferences": [owner],
        },
        "data": {KEY: text},
    }
