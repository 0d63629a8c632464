"""Whether the room that an elastic plan asks for can be kept.

It may be free, or be held by pods of the plan's own workloads: they leave for the next round. Nobody else's pod leaves
for it. What plans keep for others, where kube-scheduler has nominated pods, and where waiting pods of higher priority
are about to start is not there for it.

Decided in docs/decisions.md: "Pods of the workloads that an elastic plan names count as leaving".
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gpuyard.common.plans.plan import Place, Plan, promise
from gpuyard.engine.model import Pod, Promise
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.node_room import Room
from gpuyard.engine.placing.strategies import Strategy
from gpuyard.engine.rules.promises import nominations, placed_since


def workloads_of(plan: Plan) -> frozenset[str]:
    """The workloads that a plan is about."""
    named = {place.workload for place in plan.spec.promises} | {plan.spec.workload}
    return frozenset(named - {""})


def leaving(plan: Plan, snapshot: Snapshot) -> Iterator[Pod]:
    """The pods that leave for the plan: those of its workloads that had a place before it was written."""
    for workload in sorted(workloads_of(plan)):
        for pod in snapshot.members.get(workload, ()):
            if pod.active and not placed_since(pod, plan.written):
                yield pod


def refusal(
    plan: Plan, view: Snapshot, kept: Iterable[Promise], starting: Mapping[str, str], strategy: Strategy
) -> str:
    """Why a plan cannot be kept; empty: it can.

    In `view` those who leave are on their way out. `kept` is what other plans keep, `starting` the nodes of the waiting
    pods that are about to start, by key.
    """
    return _fault(plan) or _no_place(plan, view) or _shortage(plan, view, kept, starting, strategy)


def _fault(plan: Plan) -> str:
    """What is wrong with the plan as it is written."""
    if plan.spec.evictions:
        return "an elastic plan evicts nobody"
    if not plan.spec.promises:
        return "it asks for no room"
    counts = Counter((place.workload, place.node) for place in plan.spec.promises)
    (workload, node), count = counts.most_common(1)[0]
    if count > 1:
        return f"it names workload {workload} on node {node} {count} times"
    return next((why for place in plan.spec.promises if (why := _fault_of(place))), "")


def _fault_of(place: Place) -> str:
    room = place.amounts
    if place.pod or place.shape or place.owner:
        return "a promise of an elastic plan names a workload, and no pod, owner or shape"
    if not place.workload or room is None:
        return "a promise of an elastic plan names a workload and amounts"
    if room.gpus < 1 or room.cpu < 0 or room.memory < 0:
        return "a promise asks for at least one GPU, and not for less than no CPU or memory"
    return ""


def _no_place(plan: Plan, view: Snapshot) -> str:
    for place in plan.spec.promises:
        node = view.fleet.nodes.get(place.node)
        if node is None:
            return f"there is no node {place.node}"
        if not node.open:
            return f"node {place.node} takes no pods: it is not ready, is cordoned, or reports fewer GPUs than before"
        if place.queue and place.queue not in view.queues:
            return f"there is no queue {place.queue}"
    return ""


def _shortage(
    plan: Plan, view: Snapshot, kept: Iterable[Promise], starting: Mapping[str, str], strategy: Strategy
) -> str:
    nodes = {place.node for place in plan.spec.promises}
    rooms = {name: Room(view.fleet.nodes[name], view.room[name]) for name in nodes}
    for one in kept:
        _take(rooms, one.node, one, strategy)
    for pod in nominations(view):
        _take(rooms, pod.nominated, pod, strategy)
    for node, pod in _ahead(plan, view, starting):
        _take(rooms, node, pod, strategy)
    for place in plan.spec.promises:
        asked, room = promise(plan, place), rooms[place.node]
        if not room.fits_later(asked.shape):
            return _short(room, asked)
        room.shift(asked.shape, (), 0, -1)
    return ""


def _ahead(plan: Plan, view: Snapshot, starting: Mapping[str, str]) -> Iterator[tuple[str, Pod]]:
    """The waiting pods that are about to start and go before what is asked for on their nodes, with these."""
    own = workloads_of(plan)
    least = {place.node: place.priority for place in sorted(plan.spec.promises, key=lambda place: -place.priority)}
    for key, node in starting.items():
        pod = view.pods.get(key)
        workload = view.workloads.get(pod.workload) if pod and pod.waits and not pod.nominated else None
        if pod and workload and workload.key not in own and workload.priority > least.get(node, workload.priority):
            yield node, pod


def _take(rooms: Mapping[str, Room], node: str, of: Promise | Pod, strategy: Strategy) -> None:
    room = rooms.get(node)
    if room is not None:
        groups = of.gpu_groups or (room.choose_groups(of.shape, (), strategy) if of.shape.shared else ())
        room.shift(of.shape, groups, 0, -1)


def _short(room: Room, asked: Promise) -> str:
    whom = f"workload {asked.workload} on node {room.node.name}"
    if room.later < asked.shape.gpus:
        return f"{asked.shape.gpus} GPUs are asked for {whom}, and {max(0, room.later)} will be free for it"
    return f"node {room.node.name} has not enough CPU, memory or places for pods for {whom}"
