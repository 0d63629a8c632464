"""What can be set of the extender: the file `ExtenderConfig`, reloaded while it runs.

apiVersion: gpuyard.io/v1alpha1
kind: ExtenderConfig
defaultQueue: research
filter: {maxNodes: 32}
reservation: {ttl: 60s}
"""

from typing import Annotated, Literal

import msgspec
from gpuyard.common.settings import Seconds, Strict
from gpuyard.engine.settings import Settings

VOLUME_TTL = 660
"""Seconds that kube-scheduler may wait for a pod's volumes before it binds the pod or gives up."""

MaxNodes = Annotated[int, msgspec.Meta(ge=10)]


class Filter(Strict, frozen=True):
    """How `filter` answers."""

    max_nodes: MaxNodes = 32
    """The longest answer."""


class Reservation(Strict, frozen=True):
    """How long a yes counts that nobody has confirmed."""

    ttl: Seconds = Seconds(60)


class ExtenderConfig(Strict, frozen=True):
    """The settings of the extender, with their defaults."""

    default_queue: str = ""
    pods_without_queue: Literal["pass", "refuse"] = "pass"
    namespace_match: Literal["off", "name", "label"] | bool = "off"
    filter: Filter = Filter()
    reservation: Reservation = Reservation()

    def __post_init__(self) -> None:
        """Refuse the one word that YAML reads as something else and that means nothing here."""
        if self.namespace_match is True:
            raise ValueError("namespaceMatch is off, name or label")

    @property
    def engine(self) -> Settings:
        """What the engine needs of it."""
        # YAML reads a bare `off` as false.
        match = "off" if isinstance(self.namespace_match, bool) else self.namespace_match
        return Settings(
            default_queue=self.default_queue, pods_without_queue=self.pods_without_queue, namespace_match=match
        )

    def ttl(self, *, claims_volumes: bool) -> float:
        """How long a pod's reservation counts."""
        return max(self.reservation.ttl, VOLUME_TTL) if claims_volumes else self.reservation.ttl
