"""Whether the room that is left goes to others first: kube-scheduler asks in an order of its own.

    enough free for all that wait ──▶ go                            (looked up, no more)
    not enough: those who rank before the pod, and who
                could take what is offered, and who are alive ──▶ is their need served, and the pod's as well?
                                                                    yes: go       no: wait, outranked

Alive is who is new, was offered nodes a moment ago, or is about to be asked because something ended; not whom
kube-scheduler, though there is room, never asks about (a volume, a port): those must not starve others.

The line is the engine's. The planner lines up at each look; who has come since stands in no line yet.
"""

from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from gpuyard.engine.constraints import suited
from gpuyard.engine.gang import starting_chunk
from gpuyard.engine.line import WaitingLine
from gpuyard.engine.model import GPU, Pod, State
from gpuyard.engine.plan import Cycle
from gpuyard.engine.result import Reason, Waiting
from gpuyard.engine.settings import Settings
from gpuyard.engine.snapshot import Snapshot
from gpuyard.extender.ledger import Ledger


class Turn(NamedTuple):
    """A workload in line, with the pods that it starts next."""

    workload: str
    pods: tuple[Pod, ...]

    @property
    def gpus(self) -> int:
        """The whole GPUs that it asks for."""
        return sum(pod.shape.gpus for pod in self.pods)


def line_up(snapshot: Snapshot, settings: Settings) -> Iterator[Turn | None]:
    """Who is served in which order, were there room for all; without those whose bounds do not let them go.

    Others may do something between two values; None says only that it goes on.
    """
    cycle = Cycle(snapshot, settings)
    line = WaitingLine(cycle.scratch)
    for waiting in cycle.waiting():
        line.push(waiting)
        yield None
    while (team := line.pop()) is not None:
        pods = starting_chunk(team, cycle.scratch.waits)
        if cycle.starter.refusal(team, pods) is not None:
            yield None
            continue
        workload = team.workload
        cycle.accounts.add(workload.queue or "", cycle.scratch.need(pods), fixed=not workload.preemptible)
        yield Turn(workload.key, tuple(pods))


def is_scarce(snapshot: Snapshot) -> bool:
    """Whether those who wait ask for more whole GPUs than are free."""
    return _wanted(snapshot) > _free(snapshot) * GPU


class Outrank:
    """Asked by filter. `clock` never jumps; `today` says what time it is. The planner keeps `line` and `blocked`."""

    def __init__(self, ledger: Ledger, *, clock: Callable[[], float], today: Callable[[], float]) -> None:
        self.line: tuple[Turn, ...] = ()
        """Who waits, best first; empty while there is room for all."""
        self.blocked: AbstractSet[str] = frozenset()
        """The pods that kube-scheduler never asks about, though there is room."""
        self._ledger = ledger
        self._clock = clock
        self._today = today
        self._free = 0
        self._freed = float("-inf")

    def outranked(self, snapshot: Snapshot, pod: Pod, offered: Collection[str], grace: float) -> Waiting | None:
        """Why a pod that could go has to wait for others, if it has to; `snapshot` has it waiting."""
        now = self._clock()
        free = self._free_gpus(snapshot)
        if free > self._free:
            # Whoever waits is asked about now, in whatever order.
            self._freed = now
        self._free = free
        if not self.line or not pod.shape.gpus or _wanted(snapshot) <= free * GPU:
            return None
        left = self._left(snapshot, offered)
        for turn in self.line:
            if turn.workload == pod.workload:
                return None
            if turn.gpus <= left and self._competes(snapshot, turn, offered, now, grace):
                left -= turn.gpus
                if left < pod.shape.gpus:
                    return Waiting(Reason.OUTRANKED)
        return None

    def _free_gpus(self, snapshot: Snapshot) -> int:
        """The whole GPUs that are free on open nodes, less those in flight."""
        return _free(snapshot) - sum(pod.shape.gpus for pod, _ in self._ledger.in_flight)

    def _left(self, snapshot: Snapshot, offered: Collection[str]) -> int:
        """The whole GPUs on the nodes that are offered, less those that are promised or in flight."""
        here = [name for name in offered if name in snapshot.room]
        promised = sum(one.shape.gpus for one in self._ledger.promises.all if one.node in offered)
        flying = sum(pod.shape.gpus for pod, nodes in self._ledger.in_flight if not set(nodes).isdisjoint(offered))
        return sum(max(0, snapshot.room[name].idle) for name in here) - promised - flying

    def _competes(self, snapshot: Snapshot, turn: Turn, offered: Collection[str], now: float, grace: float) -> bool:
        """Whether a workload is alive, and could take what is offered."""
        first = turn.pods[0]
        waits = (known := snapshot.pods.get(first.key)) is not None and known.state is State.PENDING
        return waits and self._is_alive(first, now, grace) and _fits(snapshot, first, offered)

    def _is_alive(self, pod: Pod, now: float, grace: float) -> bool:
        if pod.key in self.blocked:
            return False
        is_new = self._today() - pod.created < grace or now - self._freed < grace
        return is_new or bool(self._ledger.offered(pod, now - grace))


def _free(snapshot: Snapshot) -> int:
    """The whole GPUs that are free on open nodes."""
    return sum(max(0, idle) * len(names) for (idle, _), names in snapshot.slots.items())


def _wanted(snapshot: Snapshot) -> int:
    """The milli-GPUs that all who wait ask for."""
    return sum(use.requested.gpu - use.allocated.gpu for use in snapshot.own.values())


def _fits(snapshot: Snapshot, pod: Pod, offered: Collection[str]) -> bool:
    nodes = suited(snapshot.fleet, pod.shape)
    within = offered if nodes is None else nodes.intersection(offered)
    return any(name in snapshot.room and snapshot.room[name].idle >= pod.shape.gpus for name in within)
