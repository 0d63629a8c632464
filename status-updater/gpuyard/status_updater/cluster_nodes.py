"""What a cluster node should carry so that the mock shows on it: our marks, and on KWOK nodes the resources.

The marks say whose the resources in a KWOK node's status are. So they come before the resources and go after them:
whichever write is refused, the next look at the node knows what is ours there.

Decided in docs/decisions.md: "The marks of a KWOK node come before its resources and go after them".
"""

from collections.abc import Mapping

from gpuyard.common.kube.client import Json
from gpuyard.common.topology.cluster_node import RESOURCES_ANNOTATION, ClusterNode
from gpuyard.common.topology.model import Node
from gpuyard.common.topology.reading import MOCK_LABEL
from gpuyard.common.topology.resources import offers


def marks(node: ClusterNode, named: Node | None) -> Json | None:
    """The metadata patch that the node needs, if any: the label, and which resources are ours."""
    labels, annotations = node.metadata.labels or {}, node.metadata.annotations or {}
    offered, left = set(offers(named)) if named else set[str](), _left(node)
    names = offered | left
    # A kubelet shows what its plugin offered as 0 for good: the note of that stays, but the node is no mock node.
    label = "true" if offered or (left and node.played) else None
    ours = ",".join(sorted(names)) or None
    if (labels.get(MOCK_LABEL), annotations.get(RESOURCES_ANNOTATION)) == (label, ours):
        return None
    return {"metadata": {"labels": {MOCK_LABEL: label}, "annotations": {RESOURCES_ANNOTATION: ours}}}


def _left(node: ClusterNode) -> set[str]:
    """What of ours the status still shows: who takes it away needs to know."""
    shown = (node.status.capacity or {}).keys() | (node.status.allocatable or {}).keys()
    return node.mock_resources & shown


def capacity(node: ClusterNode, named: Node | None) -> Json | None:
    """The status patch that a KWOK node needs, if any. Before it is Ready, KWOK has not set its status up."""
    if not node.played or not node.ready:
        return None
    offered = offers(named) if named else {}
    wanted = {
        "capacity": {name: str(len(each)) for name, each in offered.items()},
        "allocatable": {name: str(sum(offer.healthy for offer in each)) for name, each in offered.items()},
    }
    before = {"capacity": node.status.capacity or {}, "allocatable": node.status.allocatable or {}}
    gone = node.mock_resources - offered.keys()
    changes = {field: _changes(before[field], wanted[field], gone) for field in wanted}
    return {"status": changes} if any(changes.values()) else None


def _changes(before: Mapping[str, str], wanted: Mapping[str, str], gone: set[str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {name: count for name, count in wanted.items() if before.get(name) != count}
    return changed | {name: None for name in gone if name in before}
