"""Whether a plan still holds when it is to be carried out: the verbs have gone on while it was made."""

from collections.abc import Collection, Iterable, Mapping

from gpuyard.engine.model import Pod, Promise
from gpuyard.engine.snapshot import Snapshot
from gpuyard.extender.ledger import Entry, Phase
from gpuyard.extender.planner.plans import Place, Plan, Victim

Entries = Mapping[str, Entry]
"""The ledger's pods by key."""


def still_holds(plan: Plan, entries: Entries, then: Mapping[str, Pod], doomed: Collection[str]) -> bool:
    """Whether victims stand where they stood, and claimants wait as they did among the pods of `then`.

    Of the `doomed` somebody else makes room already.
    """
    moved = {victim.pod for victim in plan.spec.evictions}
    return all(_stands(victim, entries) and victim.uid not in doomed for victim in plan.spec.evictions) and all(
        _waits(place, entries, then) for place in plan.spec.promises if place.pod not in moved
    )


def _stands(victim: Victim, entries: Entries) -> bool:
    entry = entries.get(victim.pod)
    if entry is None or entry.phase is not Phase.BOUND:
        return False
    pod = entry.seen.pod
    return pod.uid == victim.uid and pod.active and pod.node == victim.node


def _waits(place: Place, entries: Entries, then: Mapping[str, Pod]) -> bool:
    entry = entries.get(place.pod)
    return entry is not None and entry.phase is Phase.PENDING and entry.seen.pod.uid == then[place.pod].uid


def has_room(plan: Plan, counted: Snapshot, promises: Iterable[Promise]) -> bool:
    """Whether the nodes still have the whole GPUs that the plan gives away, beside what is promised to others."""
    wanted: dict[str, int] = {}
    kept = [(one.node, one.shape) for one in promises] + [(one.node, one.shape) for one in plan.spec.promises]
    for node, shape in kept:
        wanted[node] = wanted.get(node, 0) + shape.gpus
    for victim in plan.spec.evictions:
        wanted[victim.node] = wanted.get(victim.node, 0) - counted.pods[victim.pod].shape.gpus
    rooms = {place.node: counted.room.get(place.node) for place in plan.spec.promises}
    return all(room is not None and room.idle + room.releasing >= wanted[node] for node, room in rooms.items())
