"""Which labels of a node are ours, and what would make them right.

Server-side apply remembers who set what, so nothing is kept here: a label is ours if the API server says so. An
apply with fewer labels removes those that are missing from it, and no others.
"""

import msgspec
from gpuyard.common.kube.client import Json
from gpuyard.gfd.labels import TIMESTAMP, Labels

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


def owned(node: LabelledNode) -> Labels:
    """The labels that we set, with their values."""
    named = [
        field.removeprefix("f:")
        for managed in node.metadata.managed_fields
        if managed.manager == MANAGER and managed.operation == "Apply"
        for field in managed.fields_v1.get("f:metadata", {}).get("f:labels", {})
    ]
    present = node.metadata.labels or {}
    return {name: present[name] for name in named if name in present}


def change(node: LabelledNode, wanted: Labels) -> Labels | None:
    """What to apply, or None when all is right already. A timestamp alone is no reason to write."""
    ours = owned(node)
    if _timeless(ours) == _timeless(wanted):
        return None
    return wanted


def _timeless(labels: Labels) -> Labels:
    return {name: value for name, value in labels.items() if name != TIMESTAMP}


def body(name: str, wanted: Labels) -> Json:
    """The apply's body: all that we want to own of this node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": wanted}}
