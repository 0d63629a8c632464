"""A node as the API server knows it, as far as the mock needs it."""

import msgspec
from gpuyard.common.kube.objects import Meta

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


DECODER = msgspec.json.Decoder(ClusterNode)
