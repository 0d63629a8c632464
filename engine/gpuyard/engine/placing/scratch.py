"""The scratch copy on which decisions are tried: every change can be undone, in reverse order, back to any mark.

A pod's way during a cycle:

    WAITING ──bind────▶ BOUND        on what is free now
    WAITING ──nominate▶ NOMINATED    on what is being freed
    RUNNING ──evict───▶ EVICTED ──nominate──▶ MOVED    to another place
                        EVICTED ──nominate──▶ RUNNING  it came back to its own place: never mind
    BOUND, NOMINATED ──evict──▶ WAITING, MOVED ──evict──▶ EVICTED    taking back what this cycle promised
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from enum import StrEnum, auto
from typing import Any

import msgspec
from gpuyard.engine.model import NOTHING, STUCK_AFTER, Amounts, Pod, Shape, State, Workload
from gpuyard.engine.model.counting import claim
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.node_room import Rooms
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Team
from gpuyard.engine.stepwise import take_apart


class Status(StrEnum):
    """Where a pod is during a cycle."""

    WAITING = auto()
    RUNNING = auto()
    BOUND = auto()
    NOMINATED = auto()
    EVICTED = auto()
    MOVED = auto()
    GONE = auto()
    """Terminating, finished or gated: it is no longer, or not yet, there."""


ACTIVE = frozenset({Status.RUNNING, Status.BOUND, Status.NOMINATED, Status.MOVED})
_START = {State.RUNNING: Status.RUNNING, State.BOUND: Status.RUNNING, State.PENDING: Status.WAITING}
_PLACED = {Status.WAITING: Status.NOMINATED, Status.EVICTED: Status.MOVED}
_TAKEN_BACK = {
    Status.RUNNING: Status.EVICTED,
    Status.MOVED: Status.EVICTED,
    Status.BOUND: Status.WAITING,
    Status.NOMINATED: Status.WAITING,
}


_FEW = 8
"""Changes that are undone between two pauses; those of a pod are three."""


class Place(msgspec.Struct, frozen=True, gc=False):
    """A pod's status, and its node and shared GPUs where it has any."""

    status: Status
    node: str = ""
    groups: tuple[str, ...] = ()


class Scratch:
    """A cycle's working state over a snapshot: rooms, accounts, and the pods that have changed."""

    def __init__(self, snapshot: Snapshot, accounts: Accounts) -> None:
        self.snapshot = snapshot
        self.accounts = accounts
        self.rooms = Rooms(snapshot)
        self.changed: dict[str, Place] = {}
        self.newcomers: dict[str, Pod] = {}
        """Pods with an anti-affinity that have got their first place in this cycle."""
        self.watch: Callable[[Pod, Place, Place], None] | None = None
        """Is told of each pod whose place changes: the pod, its place before, its place after."""
        self.stirred: set[str] = set()
        """The workloads of which a pod has changed, even if that was undone; whoever acts on it clears it."""
        self._teams: dict[str, Team] = {}
        self._log: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._claims: dict[tuple[Shape, int], Amounts] = {}
        for pod in snapshot.terminating.values():
            if is_stuck(pod, snapshot.now) and pod.node in self.rooms:
                self.rooms.shift(pod.node, pod.shape, pod.gpu_groups, 0, -1)

    # --- looking

    def place(self, pod: Pod) -> Place:
        """Where a pod is now."""
        return place_in(self.changed, pod)

    @property
    def has_avoiding(self) -> bool:
        """Whether any pod that has a place, or will have one, keeps others away."""
        return bool(self.newcomers or self.snapshot.avoiding)

    def status(self, pod: Pod) -> Status:
        """A pod's status now."""
        changed = self.changed.get(pod.key)
        if changed is not None:
            return changed.status
        return Status.GONE if pod.gated else _START.get(pod.state, Status.GONE)

    def waits(self, pod: Pod) -> bool:
        """Whether a pod waits for a place and had none in this cycle."""
        return self.status(pod) is Status.WAITING

    def wants_place(self, pod: Pod) -> bool:
        """Whether a pod waits, or has lost its place in this cycle."""
        return self.status(pod) in _PLACED

    def active(self, pod: Pod) -> bool:
        """Whether a pod has a place or the promise of one."""
        return self.status(pod) in ACTIVE

    def team(self, key: str) -> Team:
        """A workload with its pods."""
        team = self._teams.get(key)
        if team is None:
            workload = self.snapshot.workloads[key]
            team = self.add_team(workload, self.snapshot.members.get(key, ()))
        return team

    def add_team(self, workload: Workload, pods: Sequence[Pod]) -> Team:
        """Make a workload known that the snapshot does not have."""
        active: dict[str, int] = {}
        for pod in pods:
            if self.active(pod):
                active[pod.group] = active.get(pod.group, 0) + 1
        team = self._teams[workload.key] = Team(workload, pods, active)
        return team

    def claim(self, pod: Pod, node: str = "") -> Amounts:
        """What a pod counts on a node, or while it waits."""
        fleet = self.snapshot.fleet
        memory = fleet.nodes[node].gpu_memory if node else fleet.smallest_gpu
        found = self._claims.get((pod.shape, memory))
        if found is None:
            found = self._claims[pod.shape, memory] = claim(pod.shape, memory)
        return found

    def need(self, pods: Sequence[Pod]) -> Amounts:
        """What pods that wait count together."""
        if len(pods) == 1:
            return self.claim(pods[0])
        total = NOTHING
        for pod in pods:
            total = total.plus(self.claim(pod))
        return total

    def held(self, team: Team) -> Amounts:
        """What the active pods of a workload count together."""
        total = NOTHING
        for pod in team.pods:
            place = self.place(pod)
            if place.status in ACTIVE:
                total = total.plus(self.claim(pod, place.node))
        return total

    # --- changing

    def mark(self) -> int:
        """The point to which `undo` comes back."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Take back everything since `mark`."""
        log = self._log
        while len(log) > mark:
            undo, args = log.pop()
            undo(*args)

    def take_back(self, mark: int) -> Iterator[None]:
        """The same, a little at a time."""
        while len(self._log) > mark:
            self.undo(max(mark, len(self._log) - _FEW))
            yield

    def dissolve(self) -> Generator[None, None, None]:
        """Take it apart, a little at a time; nobody may look at it any more."""
        yield from take_apart(self.rooms)
        yield from take_apart(self)

    def bind(self, pod: Pod, node: str, groups: tuple[str, ...]) -> None:
        """Give a waiting pod a place that is free now."""
        self._take(pod, Place(Status.BOUND, node, groups), now=-1)

    def nominate(self, pod: Pod, node: str, groups: tuple[str, ...]) -> None:
        """Promise a place that will be free; a pod that was evicted from that very place just stays."""
        status = _PLACED[self.status(pod)]
        if status is Status.MOVED and (node, groups) == (pod.node, pod.gpu_groups):
            status = Status.RUNNING
        self._take(pod, Place(status, node, groups), now=0)

    def evict(self, pod: Pod) -> None:
        """Take an active pod's place away."""
        old = self.place(pod)
        status = _TAKEN_BACK[old.status]
        leaves = status is Status.EVICTED
        self._shift(pod, old, now=1 if old.status is Status.BOUND else 0, later=1)
        self._set(pod, Place(status, pod.node if leaves else "", pod.gpu_groups if leaves else ()))
        self._count(pod, old.node, -1)

    def postpone(self, pod: Pod) -> None:
        """Turn a bound pod into a nominated one: the others of its chunk have to wait for their places."""
        old = self.changed[pod.key]
        self._shift(pod, old, now=1, later=0)
        self._set(pod, Place(Status.NOMINATED, old.node, old.groups))

    def hold(self, node: str, shape: Shape, groups: tuple[str, ...], sign: int) -> None:
        """Keep (-1) room for a pod that cannot take its promised place yet, even beyond what is free; or let go (1)."""
        self._log_shift(node, shape, groups, 0, sign)

    def _take(self, pod: Pod, place: Place, *, now: int) -> None:
        self._shift(pod, place, now=now, later=-1)
        self._set(pod, place)
        self._count(pod, place.node, 1)

    def _shift(self, pod: Pod, place: Place, *, now: int, later: int) -> None:
        self._log_shift(place.node, pod.shape, place.groups, now, later)

    def _log_shift(self, node: str, shape: Shape, groups: tuple[str, ...], now: int, later: int) -> None:
        self.rooms.shift(node, shape, groups, now, later)
        self._log.append((self.rooms.shift, (node, shape, groups, -now, -later)))

    def _set(self, pod: Pod, place: Place) -> None:
        self._log.append((self._put, (pod, self.changed.get(pod.key))))
        self._put(pod, place)
        self.stirred.add(pod.workload)
        if pod.shape.pod_anti_affinity and not pod.holds and pod.key not in self.newcomers:
            self.newcomers[pod.key] = pod
            self._log.append((self.newcomers.pop, (pod.key,)))

    def _put(self, pod: Pod, place: Place | None) -> None:
        """Note a pod's place; None: the one of the snapshot."""
        before = self.place(pod) if self.watch is not None else None
        if place is None:
            del self.changed[pod.key]
        else:
            self.changed[pod.key] = place
        if self.watch is not None and before is not None:
            self.watch(pod, before, self.place(pod))

    def _count(self, pod: Pod, node: str, sign: int) -> None:
        amounts = self.claim(pod, node)
        change = amounts if sign > 0 else NOTHING.minus(amounts)
        team = self.team(pod.workload)
        self._apply_count(team, pod.group, change, sign)
        self._log.append((self._apply_count, (team, pod.group, NOTHING.minus(change), -sign)))

    def _apply_count(self, team: Team, group: str, change: Amounts, sign: int) -> None:
        team.active[group] = team.active.get(group, 0) + sign
        workload = team.workload
        self.accounts.add(workload.queue or "", change, fixed=not workload.preemptible)


def place_in(changed: Mapping[str, Place], pod: Pod) -> Place:
    """A pod's place, where `changed` are the places that differ from those of the snapshot."""
    return changed.get(pod.key) or Place(
        Status.GONE if pod.gated else _START.get(pod.state, Status.GONE), pod.node, pod.gpu_groups
    )


def is_stuck(pod: Pod, now: int) -> bool:
    """Whether a terminating pod should have been gone long ago: nobody may count on its place."""
    return pod.state is State.TERMINATING and pod.deleted_at is not None and now > pod.deleted_at + STUCK_AFTER
