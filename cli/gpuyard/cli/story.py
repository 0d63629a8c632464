"""The plan told as the output of a demo: what runs, what is submitted, how it is tried, what is done about it.

Every line is made of the plan and the snapshot: other names, numbers or decisions give other lines.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from gpuyard.cli.events import Event, Kind, events, milligpus
from gpuyard.engine.explain.sentences import amount, told
from gpuyard.engine.model import GPU, Pod, State, Workload
from gpuyard.engine.model.results import Outcome, Reason, Waiting
from gpuyard.engine.model.settings import Phase
from gpuyard.engine.model.snapshot import Snapshot

_PHASES: Mapping[Phase, str] = {
    "allocate": "allocation",
    "consolidate": "consolidation",
    "reclaim": "reclaim",
    "preempt": "preemption",
    "evict-stale": "eviction of incomplete gangs",
}
_REMEDIES: Mapping[Phase, str] = {
    "allocate": "the wait for GPUs that are being freed",
    "consolidate": "resource consolidation",
    "reclaim": "reclaim from other queues",
    "preempt": "preemption of lower priorities",
}
_NO_ROOM = "Insufficient contiguous GPUs on any node"
_NO_ROOM_REASONS = frozenset({Reason.NO_NODE_FITS, Reason.FRAGMENTED, Reason.GANG_DOES_NOT_FIT})


def story(snapshot: Snapshot, outcome: Outcome) -> str:
    """The whole story: blocks with an empty line between them."""
    scenes = list(_scenes(snapshot, outcome))
    newcomers = _newcomers(snapshot, scenes, outcome)
    blocks = [
        _running(snapshot),
        [_submitted(snapshot, new) for new in newcomers],
        *(_attempt(new, scenes) for new in newcomers),
        *_acts(newcomers, scenes),
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


class _Scene(NamedTuple):
    """An event, and the free GPUs of the node it is about when it comes."""

    event: Event
    free: int


class _Newcomer(NamedTuple):
    """A workload that waits in the input."""

    workload: Workload
    milligpus: int
    waits: Waiting | None
    """Why it still waits in the end."""

    @property
    def key(self) -> str:
        return self.workload.key

    @property
    def name(self) -> str:
        return _name(self.workload.key)

    @property
    def size(self) -> str:
        return _gpus(self.milligpus)


def _scenes(snapshot: Snapshot, outcome: Outcome) -> Iterator[_Scene]:
    free = {name: room.idle * GPU for name, room in snapshot.room.items()}
    for event in events(snapshot, outcome.cycles):
        if event.source in free:
            free[event.source] += event.milligpus
        yield _Scene(event, free.get(event.target or event.source, 0))
        if event.target in free:
            free[event.target] -= event.milligpus


def _newcomers(snapshot: Snapshot, scenes: Iterable[_Scene], outcome: Outcome) -> list[_Newcomer]:
    """Those who wait, in the order in which the plan serves them, then those it does not serve, by age."""
    waiting = {
        key: _Newcomer(w, milligpus(snapshot, pods), next((outcome.pending.get(p.key) for p in pods), None))
        for key, w in snapshot.workloads.items()
        if (pods := _waiting(snapshot, w))
    }
    served = dict.fromkeys(s.event.workload for s in scenes if s.event.workload in waiting)
    rest = sorted(waiting.keys() - served, key=lambda key: (waiting[key].workload.created, key))
    return [waiting[key] for key in [*served, *rest]]


def _waiting(snapshot: Snapshot, workload: Workload) -> list[Pod]:
    members = snapshot.members.get(workload.key, ()) if workload.governed else ()
    return [p for p in members if p.state is State.PENDING and not p.gated and p.shape.wants_gpu]


def _running(snapshot: Snapshot) -> list[str]:
    placed = [p for p in snapshot.pods.values() if p.active and p.shape.wants_gpu]
    placed.sort(key=lambda p: (p.created, p.node, p.key))

    def place(pod: Pod) -> tuple[str, str]:
        return pod.workload or pod.key, pod.node

    return [
        f"Allocating {_gpus(milligpus(snapshot, pods))} to {_name(workload)} on node {node}"
        for (workload, node), pods in groupby(placed, place)
    ]


def _submitted(snapshot: Snapshot, new: _Newcomer) -> str:
    queue = snapshot.queues.get(new.workload.queue or "")
    if queue is None:
        return f"New workload submitted: {new.name} (no queue {new.workload.queue})"
    return f"New workload submitted: {new.name} ({queue.display or queue.name}, Priority {queue.priority})"


def _attempt(new: _Newcomer, scenes: Iterable[_Scene]) -> list[str]:
    own = [s for s in scenes if s.event.workload == new.key and s.event.kind in {Kind.START, Kind.PROMISE}]
    lines = [f"Attempting to schedule {new.name} ({new.size})"]
    for event, free in own:
        if event.kind is Kind.START:
            lines.append(f"Found suitable node: {event.target} ({_gpus(free)} available)")
            lines.append(f"Allocating {_gpus(event.milligpus)} to {new.name} on node {event.target}")
    if promised := [s.event.phase for s in own if s.event.kind is Kind.PROMISE]:
        lines += [_NO_ROOM, f"Initiating {_REMEDIES[promised[0]]}"]
    elif not own:
        lines.append(_obstacle(new, _NO_ROOM))
    return lines


def _acts(newcomers: Iterable[_Newcomer], scenes: Iterable[_Scene]) -> Iterator[list[str]]:
    """What is done, phase by phase; the first allocation also says who is left waiting."""
    first = ["Starting allocation phase", *(_allotted(new, scenes) for new in newcomers)]
    yield first if len(first) > 1 else []
    later = (s for s in scenes if s.event.kind is not Kind.START or s.event.cycle > 1)
    for (_, phase), group in groupby(later, lambda s: (s.event.cycle, s.event.phase)):
        yield [f"Starting {_PHASES[phase]} phase", *(line for scene in group for line in _done(scene))]


def _allotted(new: _Newcomer, scenes: Iterable[_Scene]) -> str:
    who = f"{new.workload.display or new.name} ({new.size})"
    nodes = [s.event.target for s in scenes if _starts_at_once(s.event, new.key)]
    if nodes:
        return f"{who} scheduled on {', '.join(_title(node) for node in nodes)}"
    return f"{who} pending - {_obstacle(new, 'insufficient resources')}"


def _obstacle(new: _Newcomer, no_room: str) -> str:
    """Why it does not start at once; `no_room` where that is all there is to say."""
    return no_room if new.waits is None or new.waits.reason in _NO_ROOM_REASONS else told(new.waits)


def _starts_at_once(event: Event, workload: str) -> bool:
    return event.kind is Kind.START and event.cycle == 1 and event.workload == workload


def _done(scene: _Scene) -> Iterator[str]:
    event = scene.event
    name, size = _name(event.workload), _gpus(event.milligpus)
    if event.kind is Kind.MOVE:
        yield f"Moving {name} ({size}) from {event.source} to {event.target}"
    elif event.kind is Kind.EVICT:
        yield f"Evicting {name} ({size}) from {event.source}"
    else:
        if event.kind is Kind.PROMISE:
            yield f"Creating {_gpus(scene.free, 'contiguous ')} on {event.target}"
        yield f"Scheduling {name} ({size}) on {event.target}"


def _gpus(milligpus: int, kind: str = "") -> str:
    number, unit = amount("gpu", milligpus).split()
    return f"{number} {kind}{unit}"


def _name(key: str) -> str:
    return key.partition("/")[2]


def _title(node: str) -> str:
    """The name of a node as people say it: `node-3` is Node 3."""
    return node.replace("-", " ").title()
