"""A plan as people tell it: what starts, what moves, what is evicted, what is promised; pods of a workload together.

The engine's actions say what is to be done with each pod; an eviction that is followed by a new place in the same
cycle is a move.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from gpuyard.engine.model import Pod
from gpuyard.engine.model.results import Action, Bind, Cycle, Evict, Nominate
from gpuyard.engine.model.settings import Phase
from gpuyard.engine.model.snapshot import Snapshot


class Kind(Enum):
    """What happens to a pod."""

    START = "start"
    MOVE = "move"
    EVICT = "evict"
    PROMISE = "promise"


class Event(NamedTuple):
    """Something that happens to pods of one workload in one cycle, alike for all of them."""

    kind: Kind
    cycle: int
    """Counted from 1."""
    phase: Phase
    workload: str
    """Key of the workload; of a pod that is not governed its own."""
    pods: tuple[str, ...]
    milligpus: int
    """What the pods take together."""
    source: str
    """The node they leave; empty for a start."""
    target: str
    """The node they get; empty for an eviction."""
    claimant: str
    """Key of the workload that they make room for, if any."""


def events(snapshot: Snapshot, cycles: Iterable[Cycle]) -> list[Event]:
    """All that happens, in the order in which it is to be done."""
    return [
        joined for number, cycle in enumerate(cycles, 1) for joined in _joined(_single(snapshot, number, cycle.actions))
    ]


def milligpus(snapshot: Snapshot, pods: Iterable[Pod]) -> int:
    """The milli-GPUs that pods take together."""
    return sum(snapshot.claim_of(p).gpu for p in pods)


def workload_of(snapshot: Snapshot, pod: str) -> str:
    """Key of the workload of the pod with this key."""
    found = snapshot.pods.get(pod)
    return (found.workload if found else "") or pod


def _single(snapshot: Snapshot, cycle: int, actions: Iterable[Action]) -> Iterator[Event]:
    nominated = {a.pod: a.node for a in actions if isinstance(a, Nominate)}
    evicted = {a.pod for a in actions if isinstance(a, Evict)}
    for action in actions:
        if isinstance(action, Nominate) and action.pod in evicted:
            continue
        yield _event(snapshot, cycle, action, nominated)


def _event(snapshot: Snapshot, cycle: int, action: Action, nominated: Mapping[str, str]) -> Event:
    source, target, claimant = "", action.node, ""
    phase: Phase = "allocate"
    if isinstance(action, Bind):
        kind = Kind.START
    elif isinstance(action, Nominate):
        kind, phase = Kind.PROMISE, action.phase
    else:
        target, source, phase = nominated.get(action.pod, ""), action.node, action.phase
        kind = Kind.MOVE if target else Kind.EVICT
        claimant = workload_of(snapshot, action.claimant) if action.claimant else ""
    taken = milligpus(snapshot, [snapshot.pods[action.pod]])
    workload = workload_of(snapshot, action.pod)
    return Event(kind, cycle, phase, workload, (action.pod,), taken, source, target, claimant)


def _joined(single: Iterable[Event]) -> Iterable[Event]:
    """The events with those that differ only in the pod made one, at the place of the first."""
    found: dict[tuple[object, ...], Event] = {}
    for one in single:
        alike = (one.kind, one.phase, one.workload, one.source, one.target, one.claimant)
        first = found.get(alike)
        if first is not None:
            one = first._replace(pods=first.pods + one.pods, milligpus=first.milligpus + one.milligpus)  # noqa: PLW2901
        found[alike] = one
    return found.values()
