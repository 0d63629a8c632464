"""Whether the room that is left goes to others first: kube-scheduler asks in an order of its own.

    enough free for all that wait ──▶ go                            (looked up, no more)
    not enough: those who rank before the pod, and who
                could take what is offered, and who are alive ──▶ is their need served, and the pod's as well?
                                                                    yes: go       no: wait, outranked

Alive is who is new, was offered nodes a moment ago, or is about to be asked because something ended; not whom
kube-scheduler, though there is room, never asks about (a volume, a port): those must not starve others.

The line is the engine's. Where few wait it is made anew whenever somebody comes or ends, else at each look of the
planner; until then who has come stands in it by the order within the queue, or where that queue would have one more.
Of a crowd that has come at once a few are taken in with each answer, or with each step where a line is made; until
then the others count where they may go first, whether their bounds let them go or not.

Decided in docs/decisions.md: "Who ranks first is asked only where room is scarce".
"""

import heapq
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from typing import NamedTuple

from gpuyard.engine.model import GPU, NOTHING, Amounts, Pod, Shape, Workload
from gpuyard.engine.model.constraints import suited
from gpuyard.engine.model.counting import claim, milli_left
from gpuyard.engine.model.results import Reason, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.node_room import Room
from gpuyard.engine.rules import gates
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Stand, Team, starting_chunk
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.lines import WaitingLine
from gpuyard.extender.ledger import Entry, Ledger, Phase
from gpuyard.extender.ledger.gate_check import Gatekeeper, has_minimum, starts_with
from gpuyard.extender.precedence.queue_turns import Course
from gpuyard.extender.precedence.waiting_line import Ahead, Demand, Line, demand, rank, sum_of

FEW = 16
"""So many waiting workloads are lined up within an answer for each newcomer; more would take longer than one may."""

TAKEN_IN = 16
"""So many newcomers are taken into the line within an answer; the others wait for the next ones, or for a new line."""

COUNTED = 400
"""So many of those others are looked at within an answer, nearly the best first; more would take too long."""

MANY = 200
"""So much is lined up within an answer when room has just become scarce: about a millisecond's work.

A workload counts four, a queue one: that is what they cost. What is more the planner lines up at its next look.
"""

PAUSE = 1.0
"""Seconds between two such answers."""


def line_up(snapshot: Snapshot, settings: Settings) -> Iterator[Line | None]:
    """The line of those who wait, were there room for all; without those whose bounds do not let them go.

    It is the last value; None says that others may do something before it goes on.
    """
    cycle = Cycle(snapshot, settings)
    waiting, kept = WaitingLine(cycle.scratch), _with_places(cycle)
    line = Line(_waiting(snapshot), snapshot.fleet.smallest_gpu)
    line.course = course = Course(cycle.accounts, snapshot.total)
    line.known = frozenset(key for names in snapshot.waiting.values() for key in names)
    for team in cycle.waiting():
        waiting.push(team)
        yield None
    while (next_one := waiting.pop()) is not None:
        if (turn := _take_turn(cycle, next_one, kept, line)) is not None:
            course.add(turn, next_one.workload.queue or "", waiting.ranks_of(next_one))
        yield None
    line.cut = {queue for queue, names in snapshot.waiting.items() if len(names) > line.turns_of(queue)}
    yield from cycle.dissolve()
    yield line


def _with_places(cycle: Cycle) -> AbstractSet[str]:
    """The pods for which plans keep room: that is spoken for, so they take nothing of what is left."""
    return (cycle.standing.keys() - cycle.snapshot.nominated.keys()) | {one.pod for one in cycle.snapshot.promises}


def _take_turn(cycle: Cycle, team: Team, kept: AbstractSet[str], line: Line) -> int | None:
    """Its place in line, if its bounds let it go, and it needs one."""
    pods, workload = starting_chunk(team, cycle.scratch.waits), team.workload
    if cycle.starter.refusal(team, pods) is not None or _is_bound_somewhere(cycle, workload, pods):
        return None
    if team.stand is not Stand.BELOW and workload.gang.has_topology:
        # It may stand only beside the others of its gang, and must not keep the room elsewhere from anybody.
        return None
    if _never_fits(cycle.snapshot, pods):
        # It takes no turn of its queue's from those who can start.
        return line.add(workload, tuple(pods))
    cycle.accounts.add(workload.queue or "", cycle.scratch.need(pods), fixed=not workload.preemptible)
    if all(pod.key in kept for pod in pods):
        line.set_aside(workload)
        return None
    return line.add(workload, tuple(pods))


def _is_bound_somewhere(cycle: Cycle, workload: Workload, pods: Sequence[Pod]) -> bool:
    """Whether GPU memory, which counts most on the smallest GPUs, would pass a bound there: others may need those."""
    if not any(pod.shape.gpu_memory for pod in pods):
        return False
    smallest = cycle.snapshot.fleet.smallest_gpu
    need = reduce(Amounts.plus, (claim(pod.shape, smallest) for pod in pods), NOTHING)
    return gates.bound(cycle.accounts, cycle.snapshot, workload, need) is not None


def _never_fits(snapshot: Snapshot, pods: Sequence[Pod]) -> bool:
    """Whether the cluster has no nodes for a pod, or not so many GPUs, even if nobody were there."""
    asked = sum(pod.shape.gpus for pod in pods) * GPU
    return asked > snapshot.total.gpu or suited(snapshot.fleet, pods[0].shape) == frozenset()


def is_scarce(snapshot: Snapshot, in_flight: int = 0) -> bool:
    """Whether those who wait ask for more GPUs than are free, beside those that are taken any moment."""
    return snapshot.wanted > (_free(snapshot) - in_flight) * GPU + _shared(snapshot, snapshot.sharing)


class Asker(NamedTuple):
    """Who is asked about: a governed pod that its gates let through, and where it may go."""

    snapshot: Snapshot
    """The cluster in which it waits."""
    workload: Workload
    pod: Pod
    offered: Collection[str]


class Outrank:
    """Asked by filter and preempt. `clock` never jumps; `today` says what time it is. The planner keeps `blocked`."""

    def __init__(self, ledger: Ledger, *, clock: Callable[[], float], today: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._today = today
        self._line: Line | None = None
        self._blocked: AbstractSet[str] = frozenset()
        self._missed: set[str] | None = None
        """To whom something has happened while a new line is made."""
        self._keeper = Gatekeeper(ledger.promises)
        self._shares: tuple[Snapshot, int, Accounts] | None = None
        """The accounts with fair shares as of one snapshot: to divide the cluster anew for each pod takes too long."""
        self._free = 0
        self._freed = float("-inf")
        self._grace = float("inf")
        self._made = float("-inf")

    @property
    def blocked(self) -> AbstractSet[str]:
        """The pods that kube-scheduler never asks about, though there is room."""
        return self._blocked

    @blocked.setter
    def blocked(self, pods: AbstractSet[str]) -> None:
        self._blocked = pods
        if self._line is not None:
            self._line.pass_over(pods)

    def line_up(self, snapshot: Snapshot, settings: Settings) -> Generator[None]:
        """Make the line anew; others may do something between two values. While there is room for all there is none."""
        touched = self._ledger.take_touched()
        # The snapshot may have those in flight on a node already; to make a line for nothing does no harm.
        if not is_scarce(snapshot, self._ledger.flights.gpus):
            self._line = None
            return
        # What has happened so far is in the new line by itself; the old one is asked until that is made.
        self._missed = missed = set(touched or ()) if self._line else set()
        line = Line()
        try:
            for made in line_up(snapshot, settings):
                line = made or line
                yield None
            for pod in list(line.pods):
                self._wake_up(line, self._ledger.entries.get(pod))
                line.bury(self._clock() - self._grace)
                yield None
            while missed or line.come:
                if missed:
                    self._note(line, missed.pop())
                else:
                    self._take_in(line, self._ledger.snapshot, settings)
                yield None
            line.pass_over(self._blocked)
            self._line = line
        finally:
            self._missed = None

    def outranked(self, asker: Asker, settings: Settings, grace: float) -> Waiting | None:
        """Why a pod that could go has to wait for others, if it has to."""
        line = self._asked(asker, settings, grace)
        if line is None:
            return None
        room = _Room(asker, self._ledger)
        if room.is_news:
            self._freed = self._clock()
        pods = starts_with(asker.snapshot, asker.workload, asker.pod)
        own = demand(pods, asker.snapshot.fleet.smallest_gpu)
        return None if _is_enough(room, self._ahead(line, asker, settings), own) else Waiting(Reason.OUTRANKED)

    def rightful(self, asker: Asker, settings: Settings, grace: float, cleared: Mapping[str, Room]) -> list[str]:
        """The nodes that a pod would have itself, were they as empty as this: the others go to who ranks before it."""
        line = self._asked(asker, settings, grace)
        if line is None:
            return list(cleared)
        ahead, own = self._ahead(line, asker, settings), demand([asker.pod], asker.snapshot.fleet.smallest_gpu)
        free = _free(asker.snapshot)
        return [node for node, room in cleared.items() if _is_enough(_Cleared(asker, node, room, free), ahead, own)]

    def _asked(self, asker: Asker, settings: Settings, grace: float) -> Line | None:
        """The line as it is by now; None: there is none, or room for all."""
        now, snapshot, self._grace = self._clock(), asker.snapshot, grace
        free = _free(snapshot) - self._ledger.flights.gpus
        if free > self._free:
            # Whoever waits is asked about now, in whatever order.
            self._freed = now
        self._free = free
        line = self._followed(asker, settings) if snapshot.wanted > free * GPU else None
        if line is not None:
            line.bury(now - grace)
        return line

    def _ahead(self, line: Line, asker: Asker, settings: Settings) -> list[Ahead]:
        """What those ask for who go first."""
        alive_only = self._clock() - self._freed >= self._grace
        place = self._place_of(line, asker.workload, asker.pod, asker.snapshot, settings)
        return [*line.ahead(place, alive_only=alive_only), *self._to_come(line, place, asker)]

    def _to_come(self, line: Line, place: int, asker: Asker) -> Iterator[Ahead]:
        """What those ask for at most who have come, are not taken in yet, and may go before a place."""
        alike: dict[Shape, list[Pod]] = {}
        for key in {key for _, key in line.come[:COUNTED]} - {asker.pod.key}:
            newcomer = self._newcomer(line, key)
            if newcomer is not None and line.earliest(newcomer[0]) < place:
                alike.setdefault(newcomer[1].shape, []).append(newcomer[1])
        for shape, pods in alike.items():
            each = demand(pods[:1], asker.snapshot.fleet.smallest_gpu)
            yield Ahead(shape, each, Demand(each.whole * len(pods), each.parts * len(pods)))

    # --- the line, at each event ---

    def _followed(self, asker: Asker, settings: Settings) -> Line | None:
        """The line as it is by now."""
        touched = self._ledger.take_touched()
        if touched is None:
            # The next look makes it anew.
            self._line = None
            return None
        if self._missed is not None:
            self._missed.update(touched)
        elif self._is_to_be_made(asker.snapshot, touched):
            self._made = self._clock()
            for _ in self.line_up(asker.snapshot, settings):
                pass
            return self._line
        if (line := self._line) is not None:
            self._follow(line, touched, asker.snapshot, settings)
        return line

    def _is_to_be_made(self, snapshot: Snapshot, touched: Collection[str]) -> bool:
        """Whether to line up within this answer."""
        waiting = _waiting(snapshot)
        if waiting <= FEW:
            return self._line is None or any(self._is_moved_by(self._line, key) for key in touched)
        is_cheap = 4 * waiting + len(snapshot.queues) <= MANY
        return self._line is None and is_cheap and self._clock() - self._made >= PAUSE

    def _is_moved_by(self, line: Line, key: str) -> bool:
        """Whether a pod waits and did not when the line was made, or has ended: others may be let go by now."""
        entry = self._ledger.entries.get(key)
        if entry is None or entry.phase is Phase.GONE:
            return True
        workload = entry.seen.pod.workload
        return entry.phase is Phase.PENDING and bool(workload) and workload not in line.known

    def _follow(self, line: Line, touched: Iterable[str], snapshot: Snapshot, settings: Settings) -> None:
        """Something has happened to these pods."""
        for key in touched:
            self._note(line, key)
        for _ in range(min(len(line.come), TAKEN_IN)):
            self._take_in(line, snapshot, settings)

    def _note(self, line: Line, key: str) -> None:
        """Something has happened to a pod; who has come is to be taken in."""
        entry, workload = self._ledger.entries.get(key), line.workload_of(key)
        if entry is None or entry.phase is not Phase.PENDING:
            line.leave(workload)
        elif workload:
            self._wake_up(line, entry)
        elif (one := entry.seen.workload) and _may_join(line, one, entry.seen.pod):
            heapq.heappush(line.come, (rank(one), key))

    def _take_in(self, line: Line, snapshot: Snapshot, settings: Settings) -> None:
        """The first of those who have come stands in line from now on, if its bounds let it go."""
        newcomer = self._newcomer(line, heapq.heappop(line.come)[1])
        if newcomer is None:
            return
        workload, pod = newcomer
        if self._keeper.refusal(snapshot, settings, workload, pod) is None:
            line.join(workload, pod, self._place_of(line, workload, pod, snapshot, settings))
            if line.course is not None:
                line.course.join(workload.queue or "", snapshot.claim_of(pod), fixed=not workload.preemptible)
            self._wake_up(line, self._ledger.entries.get(pod.key))

    def _newcomer(self, line: Line, key: str) -> tuple[Workload, Pod] | None:
        """Who has come, if he still waits and does not stand in line."""
        entry = self._ledger.entries.get(key)
        if entry is None or entry.phase is not Phase.PENDING or (workload := entry.seen.workload) is None:
            return None
        return (workload, entry.seen.pod) if _may_join(line, workload, entry.seen.pod) else None

    def _place_of(self, line: Line, workload: Workload, pod: Pod, snapshot: Snapshot, settings: Settings) -> int:
        """The place of somebody in line, or where he goes who has come since it was made."""
        place = line.place_of(workload, above=has_minimum(snapshot, workload))
        if place is not None:
            return place
        if line.course is None or len(snapshot.queues) > MANY:
            return line.end
        now = self._accounts(snapshot, settings.fairshare_k)
        turn = line.course.turn_after(workload.queue or "", snapshot.claim_of(pod), now)
        return line.end if turn is None else turn - 1

    def _accounts(self, snapshot: Snapshot, k: int) -> Accounts:
        if self._shares is None or self._shares[0] is not snapshot or self._shares[1] != k:
            self._shares = (snapshot, k, Accounts.of(snapshot, k))
        return self._shares[2]

    def _wake_up(self, line: Line, entry: Entry | None) -> None:
        """Tell the line when a pod gave its last sign of life."""
        if entry is not None:
            pod = entry.seen.pod
            line.sign_of_life(pod.key, self._clock() - max(0, self._today() - pod.created))
            offered = self._ledger.last_offer(pod)
            if offered is not None:
                line.sign_of_life(pod.key, offered)


def _may_join(line: Line, workload: Workload, pod: Pod) -> bool:
    """Whether a pod has come since the line was made and does not stand in it, and starts alone."""
    if workload.queue in line.cut or workload.key in line.known or workload.key in line or not pod.waits:
        return False
    gang = workload.gang
    return workload.governed and pod.shape.wants_gpu and not gang.parts and gang.minimum <= 1


class _Room:
    """What is free on the nodes that are offered to one pod."""

    def __init__(self, asker: Asker, ledger: Ledger) -> None:
        self._snapshot, self._offered = asker.snapshot, asker.offered
        everywhere = len(self._offered) >= len(self._snapshot.fleet.nodes)
        self._free = self._largest = 0
        self.is_news = False
        """Whether kube-scheduler has seen somebody go whom our watch still shows."""
        least = max(asker.pod.shape.gpus, 1)
        for (idle, releasing), names in self._snapshot.slots.items():
            # A node that is offered has room for the pod: if not by our count, then those who were leaving have left.
            # One that wants a part of a GPU is offered every node: that says nothing.
            if idle < least <= idle + releasing and not asker.pod.shape.shared:
                offered = [name for name in names if name in self._offered]
                self._count_late(offered, idle, releasing, ledger, asker.pod.key)
            elif idle > 0:
                self._count(idle, len(names) if everywhere else sum(name in self._offered for name in names))
        others = ledger.spoken_for(None if everywhere else self._offered, asker.pod.key)
        self._left = (self._free - others) * GPU
        self._shared = _shared(self._snapshot, [name for name in self._snapshot.sharing if name in self._offered])

    def _count(self, room: int, nodes: int) -> None:
        if nodes:
            self._free += room * nodes
            self._largest = max(self._largest, room)

    def _count_late(self, nodes: Collection[str], idle: int, releasing: int, ledger: Ledger, asker: str) -> None:
        """Count nodes that have room by kube-scheduler's count alone, which does not know of places that are kept."""
        news = [name for name in nodes if not _keeps(ledger, name, asker)]
        self._count(idle + releasing, len(news))
        self.is_news |= bool(news)
        for name in set(nodes).difference(news):
            self._count(max(0, idle), 1)
            # What is promised there is taken off the whole: it comes out of what is leaving.
            self._free += max(0, ledger.promises.gpus.get(name, 0) - max(0, idle))

    def fits(self, shape: Shape, whole: Demand) -> bool:
        """Whether such a request could be served if nobody else were: its first pod, and in sum all that start."""
        if not self.serves(Demand(), whole):
            return False
        if shape.shared and self._shared >= whole.parts:
            return True
        least = max(shape.gpus, 1)
        nodes = suited(self._snapshot.fleet, shape)
        if nodes is None or self._largest < least:
            return self._largest >= least
        rooms = self._snapshot.room
        free = [rooms[name].idle + rooms[name].releasing for name in nodes if name in self._offered]
        return max(free, default=0) >= least and sum(one for one in free if one > 0) * GPU >= whole.whole

    def serves(self, ahead: Demand, own: Demand) -> bool:
        """Whether it is enough for those who go first, and for the pod as well."""
        parts = max(0, ahead.parts + own.parts - self._shared)
        return ahead.whole + own.whole + parts <= self._left


class _Cleared:
    """What one node would have free if some were evicted there; `free` whole GPUs are so already, wherever."""

    def __init__(self, asker: Asker, node: str, room: Room, free: int) -> None:
        self._fleet, self._node, self._room = asker.snapshot.fleet, node, room
        self._everywhere = (free + room.now) * GPU
        self._shared = milli_left((used for used, _ in room.groups.values()), room.node.gpu_memory)

    def fits(self, shape: Shape, whole: Demand) -> bool:
        """Whether such a request would take some of it: its first pod fits there, and there is enough for all."""
        if whole.whole + max(0, whole.parts - self._shared) > self._everywhere:
            return False
        nodes = suited(self._fleet, shape)
        if nodes is not None and self._node not in nodes:
            return False
        return self._room.shares(shape, 0) >= shape.devices if shape.shared else self._room.now >= max(shape.gpus, 1)

    def serves(self, ahead: Demand, own: Demand) -> bool:
        """Whether it is enough for those who go first, and for the pod as well."""
        parts = max(0, ahead.parts + own.parts - self._shared)
        return ahead.whole + own.whole + parts <= self._room.now * GPU


def _is_enough(room: _Room | _Cleared, ahead: Iterable[Ahead], own: Demand) -> bool:
    """Whether there is enough for those who go first and could take it, and for the pod as well."""
    before = sum_of(ahead, room.fits)
    return not any(before) or room.serves(before, own)


def _keeps(ledger: Ledger, node: str, but: str) -> bool:
    """Whether a place on a node is kept for one pod alone, another one than `but`."""
    return ledger.flights.keeps(node, but) or next(ledger.promises.open_on(node, None), None) is not None


def _free(snapshot: Snapshot) -> int:
    """The whole GPUs that are free on open nodes."""
    return sum(max(0, idle) * len(names) for (idle, _), names in snapshot.slots.items())


def _shared(snapshot: Snapshot, nodes: Collection[str]) -> int:
    """The milli-GPUs that are left of the GPUs that several share on these nodes."""
    return sum(
        milli_left((used for used, _ in snapshot.sharing[name].values()), snapshot.fleet.nodes[name].gpu_memory)
        for name in nodes
    )


def _waiting(snapshot: Snapshot) -> int:
    """How many workloads wait."""
    return sum(map(len, snapshot.waiting.values()))
