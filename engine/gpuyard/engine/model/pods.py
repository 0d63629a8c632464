"""Pods: where they stand in their lives, what counts of them, and what others say of them."""

from enum import StrEnum

import msgspec
from gpuyard.engine.model.nodes import NO_LABELS, Labels
from gpuyard.engine.model.shapes import Shape

STUCK_AFTER = 120
"""A pod that should have been gone for longer than these seconds gives its place back to nobody."""


class State(StrEnum):
    """Where a pod is in its life, as the input says."""

    PENDING = "Pending"
    BOUND = "Bound"
    RUNNING = "Running"
    TERMINATING = "Terminating"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod. `workload` is empty for a pod that is not governed: it only uses up what it holds."""

    key: str
    """`namespace/name`."""
    uid: str = ""
    workload: str = ""
    group: str = ""
    """Its sub-group in the gang; empty: the only one."""
    shape: Shape
    state: State = State.PENDING
    node: str = ""
    gated: bool = False
    """A pod with scheduling gates does not exist yet."""
    created: int = 0
    started: int | None = None
    deleted_at: int | None = None
    """When it should be gone, for a terminating pod."""
    nominated: str = ""
    """The node of `status.nominatedNodeName`: a standing promise of kube-scheduler."""
    task_priority: int = 0
    leader: bool = False
    """Master or launcher: first to start, last to go."""
    gpu_groups: tuple[str, ...] = ()
    """The shared GPUs it stands on, by their names on the node. A pod that asks for no part of a GPU keeps its group's
    GPU for the pods that do."""
    devices: tuple[int, ...] = ()
    """The indices of its GPUs on the node, where known."""
    owner: str = ""
    """UID of the owner that replaces it under a new name; empty for pods that keep their name (bare, StatefulSet)."""
    bare: bool = False
    """Whether it has no owner at all, so that no controller replaces it."""
    labels: Labels = NO_LABELS
    spreads: bool = False
    """Whether it would rather be spread over a topology (`ScheduleAnyway`)."""

    @property
    def prefers(self) -> bool:
        """Whether it says itself which of the nodes that it may have it would rather have."""
        shape = self.shape
        terms = (*shape.pod_affinity, *shape.pod_anti_affinity)
        return self.spreads or bool(shape.preferred) or any(term.weight for term in terms)

    @property
    def namespace(self) -> str:
        """The part of the key before the slash."""
        return self.key.partition("/")[0]

    @property
    def holds(self) -> bool:
        """Whether it takes up room on its node."""
        return self.state in HOLDING

    @property
    def active(self) -> bool:
        """Whether it counts as allocated in its queue: placed and not on its way out."""
        return self.state in ACTIVE

    @property
    def waits(self) -> bool:
        """Whether it is there and asks for a place."""
        return self.state in _WAITING and not self.gated


# Sets, as Python takes longer to look up a member of an Enum than to find a text in a set.
HOLDING = frozenset({State.BOUND, State.RUNNING, State.TERMINATING})
ACTIVE = frozenset({State.BOUND, State.RUNNING})
_WAITING = frozenset({State.PENDING})


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget: how many of these pods may still be evicted."""

    name: str
    """`namespace/name`."""
    pods: frozenset[str]
    allowed: int


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What kube-scheduler said of a pod's nodes: a fresh list of those it offers, and those it keeps refusing."""

    nodes: frozenset[str] | None = None
    refused: frozenset[str] = frozenset()
    since: int = 0
    in_vain: str = ""
    """Why no eviction would help the pod; empty: one may."""
