"""Maps of single nodes that are made from pools: one for each node that carries a pool's label.

Decided in docs/decisions.md: "A label of the user's says which nodes are filled in"; "A node whose GPUs are only
counted is a pool of one".
"""

from collections.abc import Container, Iterable, Mapping

from gpuyard.common.kube.client import Json
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.common.topology.maps import GENERATED_LABEL, KEY, NODE_LABEL, PREFIX, Sheet, node_named_by
from gpuyard.common.topology.model import Pool
from gpuyard.common.topology.pools import node_of
from gpuyard.common.topology.writing import per_node_document
from gpuyard.status_updater.copies import same_node


def pool_of(node: ClusterNode, pools: Iterable[Pool]) -> Pool | None:
    """The pool that a node belongs to by its labels."""
    labels = node.metadata.labels or {}
    return next((pool for pool in pools if pool.takes(node.metadata.name, labels)), None)


def assigned(nodes: Iterable[ClusterNode], pools: Iterable[Pool], listed: Container[str]) -> dict[str, Pool]:
    """The pool of each node that has one and is not listed in the common map, by the name of the node's map."""
    pools = tuple(pools)
    found: dict[str, Pool] = {}
    for node in nodes:
        name = node.metadata.name
        pool = pool_of(node, pools)
        if pool is not None and name not in listed:
            found[PREFIX + name] = pool
    return found


def document(sheet: Sheet, pool: Pool) -> str:
    """What the map of a pool's node says, usage apart: as it stands if that is right."""
    name = node_named_by(sheet.found)
    wanted = node_of(pool, name)
    # A user may have written another form, or the name of another node, into it.
    found = sheet.topology.nodes.get(name) if sheet.topology is not None else None
    stands = not sheet.problem and found is not None and same_node(found, wanted)
    return sheet.found.text if stands else per_node_document(pool, name)


def superfluous(sheets: Mapping[str, Sheet], wanted: Container[str]) -> list[str]:
    """Generated maps that no pool asks for any more."""
    return [name for name, sheet in sheets.items() if sheet.found.generated and name not in wanted]


def body(name: str, pool: Pool) -> Json:
    """A map to be created."""
    node = name.removeprefix(PREFIX)
    labels = {GENERATED_LABEL: "true", "node-topology": "true", NODE_LABEL: node}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {KEY: per_node_document(pool, node)},
    }
