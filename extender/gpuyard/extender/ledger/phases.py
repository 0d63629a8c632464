"""The phases of a pod, as the ledger counts it; from everywhere it goes back to Gone once it has ended.

    Gone                           granted
     │ seen waiting            ┌──────────────▶ Reserved ──┐
     ├────────────────▶ Pending│                 │    ▲    │ lapsed
     │                     │  ◀┼─────────────────┼────┼────┘
     │ seen placed         │ seen placed         │    └─ adopted (at start only)
     └────────────────▶  Bound  ◀────────────────┘ seen placed

Nothing that arrives out of order is an error.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec
from gpuyard.common.cluster.sighting import Sighting
from gpuyard.engine.model import Pod, State
from msgspec.structs import replace


class Phase(StrEnum):
    """Where a pod stands."""

    GONE = "Gone"
    PENDING = "Pending"
    RESERVED = "Reserved"
    BOUND = "Bound"


class Event(StrEnum):
    """What can happen to it."""

    SEEN_WAITING = "seen waiting"
    SEEN_PLACED = "seen placed"
    GRANTED = "granted"
    ADOPTED = "adopted"
    LAPSED = "lapsed"
    ENDED = "ended"


_G, _P, _R, _B = Phase.GONE, Phase.PENDING, Phase.RESERVED, Phase.BOUND
_EVENTS = (Event.SEEN_WAITING, Event.SEEN_PLACED, Event.GRANTED, Event.ADOPTED, Event.LAPSED, Event.ENDED)

TRANSITIONS: Mapping[Phase, Mapping[Event, Phase]] = {
    #  in ...                 seen waiting, placed, granted, adopted, lapsed, ended
    _G: dict(zip(_EVENTS, (_P, _B, _G, _G, _G, _G), strict=True)),
    _P: dict(zip(_EVENTS, (_P, _B, _R, _R, _P, _G), strict=True)),
    _R: dict(zip(_EVENTS, (_R, _B, _R, _R, _P, _G), strict=True)),
    _B: dict(zip(_EVENTS, (_B, _B, _B, _B, _B, _G), strict=True)),
}
"""The next phase, for every phase and event: nothing that arrives out of order is an error."""

COUNTED_NOWHERE = frozenset({Phase.PENDING, Phase.GONE})
"""The phases in which a pod uses nothing of its queue."""


class Grant(NamedTuple):
    """What a verb said yes to."""

    node: str = ""
    """The only node that it is for; empty: one of `nodes`."""
    nodes: tuple[str, ...] = ()
    """The nodes that filter returned, where there are several."""
    groups: tuple[str, ...] = ()
    """The shared GPUs on its only node."""
    victims: tuple[str, ...] = ()
    """The UIDs of those whom preempt lets kube-scheduler evict."""

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that the pod may have."""
        return (self.node,) if self.node else self.nodes


class Reservation(msgspec.Struct, frozen=True):
    """What was granted: since when, until when, and what the pod looked like then."""

    since: float
    until: float
    version: int
    verdict: str | None
    grant: Grant = Grant()


UNASKED = 1 << 63
"""The version of a reservation made before kube-scheduler asked: no word of its on the pod is newer."""


class Entry(msgspec.Struct, frozen=True):
    """A pod in the ledger."""

    phase: Phase
    seen: Sighting
    reservation: Reservation | None = None

    @property
    def counted(self) -> Pod:
        """The pod as the snapshot has it: a reserved one stands already, though mostly nobody knows where."""
        if self.reservation is None:
            return self.seen.pod
        grant = self.reservation.grant
        return replace(self.seen.pod, state=State.BOUND, node=grant.node, gpu_groups=grant.groups)
