"""What a run of the engine says: actions in order, where every pod ends, why the others wait, what the queues are due.

These are the words of `gpuyard plan`; nothing here is text for people. `Waiting.facts` is a typed value that `explain`
turns into sentences.

Decided in docs/decisions.md: "`Outranked` is the verbs' word".
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec
from gpuyard.engine.model import Amounts
from gpuyard.engine.model.settings import Phase


class Reason(StrEnum):
    """Why a pod waits: the closed list."""

    OVER_LIMIT = "OverLimit"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
    PREEMPTION_DELAY = "PreemptionDelayNotElapsed"
    NO_NODE_FITS = "PodSchedulingErrors"
    QUEUE_MISSING = "QueueMissing"
    OTHER_SCHEDULER = "OtherScheduler"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    GANG_INCOMPLETE = "GangIncomplete"
    GANG_DOES_NOT_FIT = "GangDoesNotFit"
    FRAGMENTED = "Fragmented"
    RECLAIM_NOT_ALLOWED = "ReclaimNotAllowed"
    PROTECTED_BY_MIN_RUNTIME = "ProtectedByMinRuntime"
    PROTECTED_BY_BUDGET = "ProtectedByDisruptionBudget"
    PROMISED_TO_OTHER = "PromisedToOther"
    OUTRANKED = "Outranked"
    RECLAIM_IN_PROGRESS = "ReclaimInProgress"
    REFUSED_BY_SCHEDULER = "RefusedByScheduler"


# --- facts: one type per kind of reason


class Bound(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A limit or quota that would be passed (`OverLimit`, `NonPreemptibleOverQuota`), in engine units."""

    queue: str
    resource: str
    kind: Literal["limit", "quota"]
    bound: int
    used: int
    asked: int
    unset: bool = False
    """Nobody set the bound, so it counts as 0."""


class NoQueue(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A label that leads to no queue for pods (`QueueDoesNotExist`, `QueueMissing`)."""

    label: str
    why: Literal["absent", "unknown", "not a leaf", "orphan", "circle", "too deep"]
    parent: str = ""
    """The parent that does not exist, of an orphan; the queue that is its own ancestor, of a circle."""
    nearest: str = ""
    """The leaf whose name is most alike."""


class Foreign(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Somebody else's pod, or one of the wrong namespace (`OtherScheduler`, `NamespaceMismatch`)."""

    found: str
    """The scheduler's name, or the queue's."""
    wanted: str = ""
    """The namespace's queue, for a mismatch."""


class Gap(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A gang that is not whole or finds room for a part only (`GangIncomplete`, `GangDoesNotFit`)."""

    found: int
    needed: int
    part: str = ""
    """The sub-group that is short."""
    gated: int = 0
    """Pods of a gang that is not whole which do not count because of their scheduling gates."""
    causes: Mapping[str, int] = {}
    """Why the nodes take none of its pods, as in `NodeCounts`, where not even one has room."""


class NodeCounts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How many nodes fail for which cause (`PodSchedulingErrors`, `Fragmented`), the first cause of each node."""

    causes: Mapping[str, int] = {}
    """By cause: `gpus`, `cpu`, `memory`, `pods`, `selector`, `taint`, `affinity`, `not-ready`, `cordoned`, `dip`, and
    `gpu-memory`: the node does not say how much one of its GPUs has."""
    free: int = 0
    """Milli-GPUs free in sum on the nodes that suit otherwise."""
    largest: int = 0
    """The largest free hole on one node, in milli-GPUs."""
    asked: int = 0


class Share(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A queue at or over what it may take from others (`ReclaimNotAllowed`)."""

    queue: str
    resource: str
    fair_share: int
    quota: int
    allocated: int
    asked: int


class Until(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something fixed in time protects others (`PreemptionDelayNotElapsed`, `ProtectedByMinRuntime`)."""

    until: int
    """Seconds since the epoch."""
    who: str = ""
    """The queue whose setting it is, or the workload that is delayed."""
    victim: str = ""


class Protected(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Victims exist, but budgets protect them (`ProtectedByDisruptionBudget`)."""

    budgets: tuple[str, ...]


class Kept(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The place is kept for, or goes first to, somebody else (`PromisedToOther`, `Outranked`, `RefusedByScheduler`)."""

    node: str = ""
    workload: str = ""
    queue: str = ""
    since: int = 0


class Verdict(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What kube-scheduler said of a pod, where no eviction helps by it (`RefusedByScheduler`)."""

    said: str


class Clearing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Room is being made (`ReclaimInProgress`)."""

    node: str
    left: int
    """Pods that are still to go."""
    plan: str = ""


Facts = Bound | NoQueue | Foreign | Gap | NodeCounts | Share | Until | Protected | Kept | Verdict | Clearing


class Waiting(msgspec.Struct, frozen=True):
    """Why one pod waits."""

    reason: Reason
    facts: Facts | None = None


# --- actions


class Bind(msgspec.Struct, frozen=True, kw_only=True, tag="bind", tag_field="do"):
    """Starts now on free resources."""

    pod: str
    node: str
    gpus: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()


class Nominate(msgspec.Struct, frozen=True, kw_only=True, tag="nominate", tag_field="do"):
    """Is promised a place that is still being freed."""

    pod: str
    node: str
    phase: Phase
    groups: tuple[str, ...] = ()


class Evict(msgspec.Struct, frozen=True, kw_only=True, tag="evict", tag_field="do"):
    """Loses its place, in this phase, for that workload."""

    pod: str
    node: str
    phase: Phase
    claimant: str = ""
    """Key of the pod that it makes room for (the first of its workload); empty when it goes for its own sake."""
    account: "Account | None" = None


class Standing(msgspec.Struct, frozen=True):
    """A queue's numbers at the moment of a decision."""

    queue: str
    allocated: Amounts
    quota: Amounts
    fair_share: Amounts
    priority: int


class Account(msgspec.Struct, frozen=True):
    """Both sides of an eviction: who takes and who loses."""

    claimant: Standing | None
    victim: Standing | None


Action = Bind | Nominate | Evict


class Cycle(msgspec.Struct, frozen=True):
    """The actions of one cycle, in the order they must be carried out."""

    actions: tuple[Action, ...] = ()


class FinalState(StrEnum):
    """Where a pod is after the plan."""

    RUNNING = "Running"
    PENDING = "Pending"
    BOUND = "Bound"
    NOMINATED = "Nominated"
    EVICTED = "Evicted"
    TERMINATING = "Terminating"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Final(msgspec.Struct, frozen=True, kw_only=True):
    """Where one pod ends."""

    state: FinalState
    node: str = ""
    gpus: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()


class QueueShare(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's numbers at the start of the first cycle, in engine units (`UNLIMITED` stays in `deserved`)."""

    fair_share: Amounts
    allocated: Amounts
    requested: Amounts
    deserved: Amounts
    limit: Amounts


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer of a run over one or more cycles. Maps are in the order of their keys."""

    settled: bool
    cycles: tuple[Cycle, ...]
    final: Mapping[str, Final]
    pending: Mapping[str, Waiting]
    queues: Mapping[str, QueueShare]
