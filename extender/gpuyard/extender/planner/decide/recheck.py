"""Whether a plan still holds when it is to be carried out: the verbs have gone on while it was made."""

from collections.abc import Collection, Iterable, Mapping

from gpuyard.common.plans.plan import Place, Plan, Victim, promise
from gpuyard.engine.model import Pod, Promise
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.node_room import Room
from gpuyard.engine.placing.strategies import Strategy
from gpuyard.extender.ledger import Entry, Phase

Entries = Mapping[str, Entry]
"""The ledger's pods by key."""


def moves_all(plan: Plan) -> bool:
    """Whether a plan that may only move pods keeps a place for each of its victims."""
    placed = {place.pod for place in plan.spec.promises}
    return plan.spec.phase != "consolidate" or all(victim.pod in placed for victim in plan.spec.evictions)


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


def has_room(plan: Plan, counted: Snapshot, promises: Iterable[Promise], strategy: Strategy) -> bool:
    """Whether the nodes still have the room that the plan gives away, beside what is promised to others."""
    nodes = {place.node for place in plan.spec.promises}
    if not nodes <= counted.room.keys():
        return False
    rooms = {node: Room(counted.fleet.nodes[node], counted.room[node]) for node in nodes}
    for pod in (counted.pods[victim.pod] for victim in plan.spec.evictions):
        if pod.node in rooms:
            rooms[pod.node].shift(pod.shape, pod.gpu_groups, 0, 1)
    for one in promises:
        if one.node in rooms:
            _take(rooms[one.node], one, strategy)
    return all(_take(rooms[place.node], promise(plan, place), strategy) for place in plan.spec.promises)


def _take(room: Room, kept: Promise, strategy: Strategy) -> bool:
    """Take a place out of what will be free; whether it was there."""
    shape = kept.shape
    groups = kept.gpu_groups or (room.choose_groups(shape, (), strategy) if shape.shared else ())
    was_there = room.fits_later(shape) and room.takes(shape, groups)
    room.shift(shape, groups, 0, -1)
    return was_there
