"""Which labels of a node gpuyard's feature discovery has set.

Server-side apply remembers who set what, so nothing is kept here: a label is ours if the API server says so. An
apply with fewer labels removes those that are missing from it, and no others.
"""

import msgspec
from gpuyard.common.kube.client import Json

MANAGER = "gpuyard-gfd"


class ManagedFields(msgspec.Struct, frozen=True, rename="camel"):
    """What one manager set."""

    manager: str = ""
    operation: str = ""
    fields_v1: Json = msgspec.field(default_factory=dict, name="fieldsV1")


class LabelledMeta(msgspec.Struct, frozen=True, rename="camel"):
    """A node's metadata with its managers."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    managed_fields: tuple[ManagedFields, ...] = ()

    @property
    def key(self) -> str:
        """The name."""
        return self.name


class LabelledNode(msgspec.Struct, frozen=True):
    """A node, as far as its labels go."""

    metadata: LabelledMeta


DECODER = msgspec.json.Decoder(LabelledNode)


def owned(node: LabelledNode) -> dict[str, str]:
    """The labels that we set, with their values."""
    named = [
        field.removeprefix("f:")
        for managed in node.metadata.managed_fields
        if managed.manager == MANAGER and managed.operation == "Apply"
        for field in managed.fields_v1.get("f:metadata", {}).get("f:labels", {})
    ]
    present = node.metadata.labels or {}
    return {name: present[name] for name in named if name in present}


def body(name: str, wanted: dict[str, str]) -> Json:
    """The apply's body: all that we want to own of this node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": wanted}}
