"""Whether a pod has to let others go first: where room is scarce, since kube-scheduler asks in an order of its own.

    ┌──────────┐   enough for all in line, and for it
    │ NEWCOMER │ ──────────────────────────────────────────────▶ it goes
    └──────────┘   else it is outranked, until ...
         │ the planner looks, and wakes it                         ▲
         ▼                                                         │
    ┌──────────┐   enough for those before it, and for it          │
    │ IN LINE  │ ──────────────────────────────────────────────────┘
    └──────────┘   else it is outranked

Only those count that could take what is offered, and that are alive: that are new, were offered nodes a moment ago, or
are about to be asked because a pod ended. Pods that kube-scheduler never asks about (a volume, a port) starve nobody.

While there is room for all that wait, or no line yet, each goes. The planner makes the line at each look, and a
newcomer causes one. Where few wait the line is made within the answer, when a pod has come or room has become free.

Decided in docs/decisions.md: "Who ranks first is asked only where room is scarce".
"""

from collections.abc import Callable, Collection, Generator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import NamedTuple

from gpuyard.engine.model import GPU, Pod, Workload
from gpuyard.engine.model.results import Reason, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.node_room import Room
from gpuyard.engine.stepwise import at_once
from gpuyard.extender.ledger import Ledger, Phase
from gpuyard.extender.ledger.gate_check import has_minimum, starts_with
from gpuyard.extender.precedence.free_room import ClearedRoom, FreeRoom, OfferedRoom, free_gpus, is_scarce
from gpuyard.extender.precedence.lining_up import line_up
from gpuyard.extender.precedence.waiting_line import Demand, Line, demand

FEW = 16
"""So many waiting workloads are lined up within an answer; more would take longer than one may."""


class Contender(NamedTuple):
    """Who is asked about: a governed pod that its gates let through, and where it may go."""

    snapshot: Snapshot
    """The cluster in which it waits."""
    workload: Workload
    pod: Pod
    offered: Collection[str]


class Precedence:
    """Asked by filter and preempt. `clock` never jumps; `today` says what time it is."""

    def __init__(self, ledger: Ledger, *, clock: Callable[[], float], today: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._today = today
        self._line: Line | None = None
        self._lined_up: AbstractSet[str] = frozenset()
        """The workloads that waited when the line was made, if those were few."""
        self._missed: set[str] | None = None
        """To whom something has happened while a new line is made."""
        self.blocked: AbstractSet[str] = frozenset()
        """The pods that kube-scheduler never asks about, though there is room; the planner knows."""
        self._free = 0
        """The whole GPUs that were free when a pod was asked about last."""
        self._freed = float("-inf")
        """When some became free last: whoever waits is asked about then, in whatever order."""
        self._grace = float("inf")

    def outranked(self, contender: Contender, settings: Settings, grace: float) -> Waiting | None:
        """Why a pod that could go has to wait for others, if it has to."""
        snapshot, workload, pod, offered = contender
        line = self._current(snapshot, settings, grace)
        if line is None:
            return None
        room = OfferedRoom(snapshot, pod, offered, self._ledger)
        if room.is_news:
            self._freed = self._clock()
        own = demand(starts_with(snapshot, workload, pod), snapshot.fleet.smallest_gpu)
        return None if self._is_enough(room, line, contender, own) else Waiting(Reason.OUTRANKED)

    def nodes_for(
        self, contender: Contender, settings: Settings, grace: float, cleared: Mapping[str, Room]
    ) -> list[str]:
        """The nodes that a pod would have itself, were they as empty as this: the others go to who ranks before it."""
        snapshot = contender.snapshot
        line = self._current(snapshot, settings, grace)
        if line is None:
            return list(cleared)
        own, free = demand([contender.pod], snapshot.fleet.smallest_gpu), free_gpus(snapshot)
        rooms = {node: ClearedRoom(snapshot, node, room, free) for node, room in cleared.items()}
        return [node for node, room in rooms.items() if self._is_enough(room, line, contender, own)]

    def _is_enough(self, room: FreeRoom, line: Line, contender: Contender, own: Demand) -> bool:
        """Whether there is enough for those who go first and could take it, and for the pod as well."""
        alive_only = self._clock() - self._freed >= self._grace
        place = line.place_of((contender.workload.key, has_minimum(contender.snapshot, contender.workload)))
        before = line.asked_before(place, room.fits, alive_only=alive_only)
        return not any(before) or room.serves(before.plus(own))

    # --- the line ---

    def line_up(self, snapshot: Snapshot, settings: Settings) -> Generator[None]:
        """Make the line anew; others may do something between two values. While there is room for all there is none."""
        self._ledger.take_touched()
        # The snapshot may have those in flight on a node already; to make a line for nothing does no harm.
        if not is_scarce(snapshot, self._ledger.in_flight.gpus):
            self._line = None
            return
        missed: set[str] = set()
        self._missed = missed
        line = Line(snapshot.fleet.smallest_gpu)
        try:
            yield from line_up(line, snapshot, settings)
            for pod in list(line.pods):
                self._note(line, pod)
                yield
            while missed:
                self._note(line, missed.pop())
                yield
            self._line, self._lined_up = line, _few_waiting(snapshot) or frozenset()
        finally:
            self._missed = None

    def _current(self, snapshot: Snapshot, settings: Settings, grace: float) -> Line | None:
        """The line as it is by now; None: there is none, or room for all."""
        now, free = self._clock(), free_gpus(snapshot) - self._ledger.in_flight.gpus
        if has_become_free := free > self._free:
            self._freed = now
        self._free, self._grace = free, grace
        if snapshot.wanted <= free * GPU:
            return None
        self._follow()
        if self._missed is None and self._is_to_be_made(snapshot, has_become_free=has_become_free):
            at_once(self.line_up(snapshot, settings))
        if self._line is not None:
            self._line.pass_over(self.blocked)
            self._line.bury(now - grace)
        return self._line

    def _follow(self) -> None:
        """Tell the line of all that has happened."""
        touched = self._ledger.take_touched()
        if touched is None:
            # The next look makes it anew.
            self._line = None
            return
        if self._missed is not None:
            self._missed.update(touched)
        if self._line is not None:
            for pod in touched:
                self._note(self._line, pod)

    def _is_to_be_made(self, snapshot: Snapshot, *, has_become_free: bool) -> bool:
        """Whether to line up within this answer: few wait, and some have come, or others may be within bounds now."""
        waiting = _few_waiting(snapshot)
        return waiting is not None and (self._line is None or has_become_free or not waiting <= self._lined_up)

    def _note(self, line: Line, key: str) -> None:
        """Tell a line whether a pod still waits, and when it gave its last sign of life, if that is not long ago."""
        entry = self._ledger.entries.get(key)
        if entry is None or entry.phase is not Phase.PENDING:
            line.leave(key)
            return
        now, offered = self._clock(), self._ledger.last_offer(entry.seen.pod)
        sign = now - max(0, self._today() - entry.seen.pod.created)
        if offered is not None:
            sign = max(sign, offered)
        if sign >= now - self._grace:
            line.sign_of_life(key, sign)


def _few_waiting(snapshot: Snapshot) -> AbstractSet[str] | None:
    """The workloads that wait; None: too many for a line within an answer."""
    if sum(map(len, snapshot.waiting.values())) > FEW:
        return None
    return frozenset(chain.from_iterable(snapshot.waiting.values()))
