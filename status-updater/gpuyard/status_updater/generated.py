"""Maps of single nodes that are made from pools: one for each node that carries a pool's label."""

from collections.abc import Iterable, Mapping

from gpuyard.common.kube.client import Json
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.common.topology.maps import GENERATED_LABEL, KEY, NODE_LABEL, PREFIX, Sheet
from gpuyard.common.topology.model import Pool
from gpuyard.common.topology.writing import per_node_document


def pool_of(node: ClusterNode, pools: Iterable[Pool]) -> Pool | None:
    """The pool that a node belongs to by its labels."""
    labels = node.metadata.labels or {}
    return next((pool for pool in pools if labels.get(pool.label) == pool.value), None)


def documents(nodes: Iterable[ClusterNode], pools: Iterable[Pool], listed: Mapping[str, object]) -> dict[str, str]:
    """The document of each node that a pool describes and the common map does not list, by the map's name."""
    pools = tuple(pools)
    found: dict[str, str] = {}
    for node in nodes:
        name = node.metadata.name
        pool = pool_of(node, pools)
        if pool is not None and name not in listed:
            found[PREFIX + name] = per_node_document(pool, name)
    return found


def superfluous(sheets: Mapping[str, Sheet], wanted: Mapping[str, str]) -> list[str]:
    """Generated maps that no pool asks for any more."""
    return [name for name, sheet in sheets.items() if sheet.found.generated and name not in wanted]


def body(name: str, text: str) -> Json:
    """A map to be created."""
    node = name.removeprefix(PREFIX)
    labels = {GENERATED_LABEL: "true", "node-topology": "true", NODE_LABEL: node}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {KEY: text},
    }
