"""A node as the API server knows it, as far as the mock needs it."""

import msgspec
from gpuyard.common.kube.objects import Meta
from gpuyard.common.topology.reading import MOCK_LABEL
from gpuyard.common.topology.resources import is_gpu

RESOURCES_ANNOTATION = "gpuyard.io/mock-resources"
"""The resources that the mock offers on a node, and on one that the topology no longer names what is left of them."""

KWOK = "kwok"
KWOK_ANNOTATION = "kwok.x-k8s.io/node"


class Condition(msgspec.Struct, frozen=True):
    """One condition of a node."""

    type: str = ""
    status: str = ""


class NodeInfo(msgspec.Struct, frozen=True, rename="camel"):
    """What runs on the node."""

    container_runtime_version: str = ""


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What a kubelet, or who plays it, reports."""

    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    conditions: tuple[Condition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class ClusterNode(msgspec.Struct, frozen=True):
    """A node."""

    metadata: Meta
    status: NodeStatus = NodeStatus()

    @property
    def played(self) -> bool:
        """Whether KWOK plays it: there is no kubelet, and no pod of a DaemonSet really runs there."""
        annotated = KWOK_ANNOTATION in (self.metadata.annotations or {})
        return annotated or self.status.node_info.container_runtime_version.startswith(KWOK)

    @property
    def ready(self) -> bool:
        """Whether its status has been set up."""
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.status.conditions)

    @property
    def marked(self) -> bool:
        """Whether the mock noted that the topology names it."""
        return (self.metadata.labels or {}).get(MOCK_LABEL) == "true"

    @property
    def noted(self) -> set[str]:
        """Resources that the mock noted as its own: on a node with a kubelet they may outlast the mark."""
        names = (self.metadata.annotations or {}).get(RESOURCES_ANNOTATION, "")
        return {name for name in names.split(",") if name}

    @property
    def mock_resources(self) -> set[str]:
        """Resources that the mock offers: those it noted, and all GPU resources of a node that it marked."""
        marked = {name for name in self.status.capacity or {} if is_gpu(name)} if self.marked else set[str]()
        return self.noted | marked


DECODER = msgspec.json.Decoder(ClusterNode)
