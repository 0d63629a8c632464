"""A plan as an object: who leaves, whose places are kept, how far it has come. It is written before the first eviction.

                       everybody has left, every place is taken
            Running ───────────────────────────────────────────▶ Kept
              │ └── somebody cannot leave, or nobody needs it ─▶ Impossible
              └── a place is free for too long ────────────────▶ Expired

A plan ends only when those whose eviction was accepted have left, and moved bare pods are back: what ends is done with.

A plan of phase `elastic` is written by somebody else. It evicts nobody, and asks that room on nodes is kept for
workloads whose next pods do not exist yet. The extender alone writes its status: accepted or Impossible.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from gpuyard.common.kube.objects import Meta
from gpuyard.engine.explain.sentences import LONGEST_TEXT, shortened
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model import Promise, Shape

ELASTIC = "elastic"
"""The phase of plans by other writers."""


class State(StrEnum):
    """Where a plan stands."""

    RUNNING = "Running"
    KEPT = "Kept"
    IMPOSSIBLE = "Impossible"
    EXPIRED = "Expired"


class Event(StrEnum):
    """What ends a plan."""

    SETTLED = "settled"
    HOPELESS = "hopeless"
    OVERDUE = "overdue"


TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.RUNNING: {
        Event.SETTLED: State.KEPT,
        Event.HOPELESS: State.IMPOSSIBLE,
        Event.OVERDUE: State.EXPIRED,
    },
    State.KEPT: {},
    State.IMPOSSIBLE: {},
    State.EXPIRED: {},
}
"""The next state; what has ended stays as it ended."""


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that leaves."""

    pod: str
    """`namespace/name`."""
    uid: str
    node: str
    reason: str = ""


class Room(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much an elastic plan promises to a workload on a node: whole GPUs, millicores, bytes."""

    gpus: int
    cpu: int = 0
    memory: int = 0


class Place(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A place that is kept: for the pod of that name, or for the first new pod of that owner and shape.

    Of an elastic plan: room for the pods of a workload on a node, up to these amounts.
    """

    node: str
    pod: str = ""
    shape: Shape | None = None
    amounts: Room | None = None
    owner: str = ""
    workload: str = ""
    queue: str = ""
    priority: int = 50
    gpu_groups: tuple[str, ...] = ()
    uid: str = ""
    """The pod's UID where it is known: whoever is moved comes back with another one."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a bare pod that is moved: which ControllerRevision, and a digest of what has to be in it.

    The ControllerRevision lies in the namespace of the pod, where others may write. The Plan does not.
    """

    uid: str
    """The UID of the pod."""
    revision: str
    """The UID of the ControllerRevision."""
    digest: str
    """The SHA-256 of its data."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided; it never changes."""

    phase: str
    workload: str = ""
    queue: str = ""
    evictions: tuple[Victim, ...] = ()
    promises: tuple[Place, ...] = ()


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How far it has come."""

    state: State = State.RUNNING
    message: str = ""
    accepted: bool | None = None
    """Whether the room that an elastic plan asks for is kept; None: not answered yet."""
    evicted: tuple[str, ...] = ()
    """UIDs of those whose eviction was accepted."""
    kept: tuple[Kept, ...] = ()
    """What is kept of the bare pods that are moved; written before they are evicted."""
    refused: tuple[str, ...] = ()
    """The pods to which kube-scheduler did not offer their places."""
    deserted: tuple[str, ...] = ()
    """The pods of the places that were taken and left again: these are kept no longer."""
    finished: str | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """gpuyard.io/v1alpha1 Plan, as far as it is ours."""

    metadata: Meta
    spec: Spec
    status: Status = Status()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.metadata.name

    @property
    def runs(self) -> bool:
        """Whether it is still being carried out."""
        return self.status.state is State.RUNNING

    @property
    def elastic(self) -> bool:
        """Whether somebody else has written it, to reserve room."""
        return self.spec.phase == ELASTIC

    @property
    def written(self) -> int:
        """When it was written, by the API server's clock; 0 where nobody says."""
        at = self.metadata.creation_timestamp
        return moment(at) if at else 0

    @property
    def victims(self) -> Mapping[str, Victim]:
        """Who leaves, by UID."""
        return {victim.uid: victim for victim in self.spec.evictions}

    def kept_of(self, uid: str) -> Kept | None:
        """What is kept of the pod with this UID."""
        return next((kept for kept in self.status.kept if kept.uid == uid), None)

    def keeping(self, kept: Kept) -> "Plan":
        """The same plan with this instead of what was kept of the pod before."""
        return self.with_status(kept=(*self.without_kept(kept.uid).status.kept, kept))

    def without_kept(self, uid: str) -> "Plan":
        """The same plan; nothing is kept of the pod with this UID."""
        return self.with_status(kept=tuple(kept for kept in self.status.kept if kept.uid != uid))

    def is_moved(self, place: Place) -> bool:
        """Whether a place is kept for somebody who has to leave another one first."""
        return any(victim.pod == place.pod for victim in self.spec.evictions)

    def with_status(self, **changes: object) -> "Plan":
        """The same plan, further on."""
        return msgspec.structs.replace(self, status=msgspec.structs.replace(self.status, **changes))

    def ended(self, event: Event, message: str, finished: str) -> "Plan":
        """The plan after what ends it."""
        after = TRANSITIONS[self.status.state].get(event, self.status.state)
        return self.with_status(state=after, message=shortened(message, LONGEST_TEXT), finished=finished)


def promise(plan: Plan, place: Place) -> Promise:
    """A kept place as the engine knows it."""
    room = place.amounts or Room(gpus=0)
    return Promise(
        plan=plan.name,
        pod=place.pod,
        owner=place.owner,
        workload=place.workload,
        shape=place.shape or Shape(gpus=room.gpus, cpu=room.cpu, memory=room.memory),
        node=place.node,
        gpu_groups=place.gpu_groups,
        queue=place.queue,
        priority=place.priority,
        since=plan.written if plan.elastic else 0,
    )
