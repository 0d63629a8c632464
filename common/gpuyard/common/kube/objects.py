"""The part that all Kubernetes objects share, typed. Callers add the fields that they read, and no more."""

from typing import Protocol

import msgspec
from gpuyard.common.kube.resources import Resource


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    """Who owns an object."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone where there is no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Identity(Protocol):
    """The least that a cache must know of an object; `Meta` has it."""

    @property
    def uid(self) -> str:
        """Which object it is, whatever its name."""

    @property
    def resource_version(self) -> str:
        """Which state of it this is."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone."""


class HasMeta(Protocol):
    """Any typed object: a msgspec struct with `metadata: Meta`, or with metadata of the caller's own."""

    @property
    def metadata(self) -> Identity:
        """What the object is called."""


class Bare(msgspec.Struct, frozen=True):
    """An object of which only the metadata matters."""

    metadata: Meta = Meta()


class ObjectReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which object an event or a binding speaks of."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


def refer(resource: Resource, meta: Meta) -> ObjectReference:
    """A reference to an object of this resource."""
    return ObjectReference(resource.api_version, resource.kind, meta.name, meta.namespace, meta.uid)
