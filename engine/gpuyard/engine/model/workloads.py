"""Workloads: one or more pods that start together, as gangs with parts and topologies."""

from collections.abc import Mapping

import msgspec


class TopologyConstraint(msgspec.Struct, frozen=True):
    """Keep the pods within one domain: of the required level for certain, of the preferred one if possible."""

    topology: str
    required: str = ""
    preferred: str = ""


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the gang's tree. A leaf (no `parts`) needs `minimum` pods, another node `minimum` of its parts."""

    name: str = ""
    minimum: int = 1
    parts: tuple["Gang", ...] = ()
    topology: TopologyConstraint | None = None

    def stands(self, pods: Mapping[str, int]) -> bool:
        """Whether these numbers of pods, by sub-group, are enough."""
        if not self.parts:
            return pods.get(self.name, 0) >= self.minimum
        return sum(part.stands(pods) for part in self.parts) >= self.minimum

    @property
    def has_topology(self) -> bool:
        """Whether the nodes of its pods, or of those of a part of it, depend on each other."""
        return self.topology is not None or any(part.has_topology for part in self.parts)

    @property
    def leaves(self) -> tuple["Gang", ...]:
        """The sub-groups that hold pods."""
        return tuple(leaf for part in self.parts for leaf in part.leaves) or (self,)


ALONE = Gang()
"""The gang of a pod that starts by itself."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One or more pods that start together."""

    key: str
    """`namespace/name`."""
    queue: str | None = None
    """The queue's name as the labels give it (or the default queue's); None: no queue, not governed."""
    scheduler: str = ""
    """A `schedulerName` that is not ours to serve; empty when it is."""
    priority: int = 50
    priority_class: str = ""
    preemptible: bool = True
    gang: Gang = ALONE
    created: int = 0
    last_evicted: int | None = None
    preemption_delay: int = 0
    stale_since: int | None = None
    staleness_grace: int | None = None
    """Seconds; negative: never evicted for it; None: the setting's."""
    display: str = ""

    @property
    def namespace(self) -> str:
        """The part of the key before the slash."""
        return self.key.partition("/")[0]

    @property
    def governed(self) -> bool:
        """Whether the queues' rules are for it."""
        return self.queue is not None and not self.scheduler
