"""Why each pod waits at the end of a cycle: one reason of the closed list, with facts. The first that applies counts.

refused by a gate               as `gates` says
refused by kube-scheduler       the node that it was promised is not offered
nominated                       its place is being cleared
delayed                         nobody is evicted on its behalf yet
part of the gang has room       found n of m
victims are safe                minimum run time, disruption budgets
promised to others              it would fit, were the promised rooms free
no node could ever hold it      counts by cause; of a gang found 0 of m as well
enough in sum, no hole          fragmented
may not take from others        at or over its fair share
otherwise                       as if no node could ever hold it

A pod that names no queue, where such pods pass, is told only what keeps kube-scheduler from placing it: its refusal,
promises to others, the counts by cause. Where nothing does, the reason is that no queue has the engine place it.
"""

from collections.abc import Generator, Iterator, Mapping
from itertools import islice

from gpuyard.engine.model import GPU, RESOURCES, UNLIMITED, Node, Offer, Pod, Shape, State
from gpuyard.engine.model.constraints import selects, tolerates
from gpuyard.engine.model.results import Clearing, Gap, Kept, NodeCounts, Reason, Share, Verdict, Waiting
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.node_room import Room
from gpuyard.engine.placing.placement import Nodes
from gpuyard.engine.placing.pod_affinity import Wishes
from gpuyard.engine.placing.scratch import Status
from gpuyard.engine.rules import gates
from gpuyard.engine.rules.gangs import Team, starting_chunk
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.stepwise import at_once, paused

Found = Iterator[Waiting | None]
"""Reasons in their order; None: others may do something before it goes on."""


def waiting_reasons(cycle: Cycle, end: Snapshot | None = None) -> dict[str, Waiting]:
    """The reason of every pod that waits (in the snapshot `end`, by default at the end of this very cycle), by pod."""
    teller = Teller(cycle)
    if end is not None:
        waiting = [pod for pod in end.pods.values() if pod.state is State.PENDING]
    else:
        pods = cycle.snapshot.pods.values()
        waiting = [
            p for p in pods if p.state is State.PENDING and cycle.scratch.status(p) in (Status.WAITING, Status.GONE)
        ]
    return {pod.key: teller.why(cycle.snapshot.pods[pod.key]) for pod in sorted(waiting, key=lambda p: p.key)}


class Teller:
    """Answers for one cycle that has been run."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._by_workload: dict[str, Waiting] = {}
        self._counts: dict[tuple[Shape, Offer | None], NodeCounts] = {}
        self._holders = cycle.holders()
        self._in_the_way: dict[tuple[Shape, Nodes], tuple[tuple[str, Pod], ...]] = {}
        """By shape and nodes the first two who hold room that would do: one of them may be the pod itself."""

    def why(self, pod: Pod) -> Waiting:
        """Why a pod waits, or what it waits for if a place is being cleared for it."""
        return at_once(self.steps(pod))

    def steps(self, pod: Pod) -> Generator[None, None, Waiting]:
        """The same in steps: for the first pod of its kind all nodes are looked at."""
        self._cycle.breathe()
        workload = self._cycle.snapshot.workloads.get(pod.workload)
        if not gates.governs(self._cycle.settings, workload):
            return (yield from _first(self._keeps_from_starting(pod), Waiting(Reason.QUEUE_MISSING)))
        if workload is None:
            return Waiting(Reason.QUEUE_MISSING)
        place = self._cycle.scratch.place(pod)
        if place.status is Status.NOMINATED:
            return Waiting(Reason.RECLAIM_IN_PROGRESS, self._clearing(place.node))
        if pod.workload not in self._by_workload:
            team = self._cycle.scratch.team(pod.workload)
            self._by_workload[pod.workload] = yield from self._why_workload(team)
        return self._by_workload[pod.workload]

    def _why_workload(self, team: Team) -> Generator[None, None, Waiting]:
        workload, cycle = team.workload, self._cycle
        refused = cycle.refused.get(workload.key) or gates.refusal(cycle.question(team), gates.IN_LINE)
        if refused:
            return refused
        chunk = starting_chunk(team, cycle.scratch.wants_place)
        return (yield from _first(self._applicable(team, chunk), Waiting(Reason.NO_NODE_FITS)))

    def _applicable(self, team: Team, chunk: list[Pod]) -> Found:
        """The reasons that apply to a workload for which there was no room, the most telling first."""
        key = team.workload.key
        refused_there = self._refused_there(chunk)
        if refused_there is not None:
            yield refused_there
        hindered = self._cycle.hindered.get(key)
        if hindered is not None and hindered.reason in (Reason.PREEMPTION_DELAY, Reason.REFUSED_BY_SCHEDULER):
            yield hindered
        reached = self._cycle.failed.get(key, 0)
        if len(chunk) > 1 and reached:
            yield Waiting(
                Reason.GANG_DOES_NOT_FIT, Gap(found=reached, needed=len(chunk), part=self._part(chunk, reached))
            )
        if hindered is not None:
            yield hindered
        yield from self._by_room(team, chunk)

    def _by_room(self, team: Team, chunk: list[Pod]) -> Found:
        pod = max(chunk or team.pods, key=lambda p: (p.shape.gpus, p.shape.fraction, p.shape.gpu_memory))
        counts = yield from self._node_counts(pod)
        promised = self._promised(pod)
        if promised is not None:
            yield promised
        errors = Waiting(Reason.NO_NODE_FITS, counts)
        if len(chunk) > 1:
            gap = Gap(found=0, needed=len(chunk), part=self._part(chunk, 0), causes=counts.causes)
            errors = Waiting(Reason.GANG_DOES_NOT_FIT, gap)
        if not (yield from self._could_ever(pod)):
            yield errors
        if pod.shape.wants_gpu and counts.largest < counts.asked <= counts.free:
            yield Waiting(Reason.FRAGMENTED, counts)
        share = self._share(team, chunk)
        if share is not None:
            yield share
        yield errors

    def _keeps_from_starting(self, pod: Pod) -> Found:
        """What keeps kube-scheduler from placing a pod that no queue governs, the most telling first."""
        refused_there = self._refused_there([pod])
        if refused_there is not None:
            yield refused_there
        counts = yield from self._node_counts(pod)
        if (yield from self._has_room(pod, counts)):
            return
        promised = self._promised(pod)
        if promised is not None:
            yield promised
        fragmented = pod.shape.wants_gpu and counts.largest < counts.asked <= counts.free
        yield Waiting(Reason.FRAGMENTED if fragmented else Reason.NO_NODE_FITS, counts)

    def _has_room(self, pod: Pod, counts: NodeCounts) -> Generator[None, None, bool]:
        """Whether some node would take the pod as it is."""
        cycle = self._cycle
        wishes = yield from cycle.placer.company.of(pod)
        for name in paused(cycle.scratch.rooms.names() if "affinity" in counts.causes else ()):
            if name is None:
                yield
            elif not _node_cause(cycle, pod, name, wishes):
                return True
        return False

    # --- single reasons

    def _refused_there(self, chunk: list[Pod]) -> Waiting | None:
        for pod in chunk:
            standing, offer = self._cycle.standing.get(pod.key), self._cycle.snapshot.offers.get(pod.key)
            if standing is not None and offer is not None and standing.node in offer.refused:
                return Waiting(Reason.REFUSED_BY_SCHEDULER, Kept(node=standing.node, since=offer.since))
            if offer is not None and offer.nodes is not None and offer.in_vain:
                return Waiting(Reason.REFUSED_BY_SCHEDULER, Verdict(said=offer.in_vain))
        return None

    def _clearing(self, node: str) -> Clearing:
        scratch = self._cycle.scratch
        going = (Status.EVICTED, Status.MOVED, Status.GONE)
        left = sum(scratch.status(pod) in going for pod in self._cycle.snapshot.on_node.get(node, ()))
        return Clearing(node=node, left=left)

    def _part(self, chunk: list[Pod], reached: int) -> str:
        return chunk[min(reached, len(chunk) - 1)].group

    def _promised(self, pod: Pod) -> Waiting | None:
        """Whom the room is promised to without which the pod would fit."""
        nodes = self._cycle.placer.nodes_for(pod)
        alike = (pod.shape, nodes)
        if alike not in self._in_the_way:
            self._in_the_way[alike] = tuple(islice(self._hold_back(pod.shape, nodes), 2))
        others = ((node, holder) for node, holder in self._in_the_way[alike] if holder.key != pod.key)
        node, holder = next(others, ("", pod))
        return Waiting(Reason.PROMISED_TO_OTHER, Kept(node=node, workload=holder.workload)) if node else None

    def _hold_back(self, shape: Shape, nodes: Nodes) -> Iterator[tuple[str, Pod]]:
        """Who holds room without which a pod would fit, by name, each with the node of it."""
        rooms = self._cycle.scratch.rooms
        for node, holder in self._holders:
            if (nodes is None or node in nodes) and rooms[node].node.open and _would_fit(rooms[node], shape, holder):
                yield node, holder

    def _share(self, team: Team, chunk: list[Pod]) -> Waiting | None:
        """The resource in which the queue is at its fair share while others hold some of it."""
        account = self._cycle.accounts.by_name[team.workload.queue or ""]
        need = self._cycle.scratch.need(chunk)
        for n, resource in enumerate(RESOURCES):
            over = account.fair_share[n] != UNLIMITED and account.allocated[n] + need[n] > account.fair_share[n]
            if need[n] and over and self._others_hold(account.name, n):
                return Waiting(
                    Reason.RECLAIM_NOT_ALLOWED,
                    Share(
                        queue=account.name,
                        resource=resource,
                        fair_share=account.fair_share[n],
                        quota=account.quota[n],
                        allocated=account.allocated[n],
                        asked=need[n],
                    ),
                )
        return None

    def _others_hold(self, queue: str, n: int) -> bool:
        accounts = self._cycle.accounts
        return any(accounts.by_name[leaf].allocated[n] for leaf in accounts.leaves if leaf != queue)

    # --- nodes

    def _could_ever(self, pod: Pod) -> Generator[None, None, bool]:
        """Whether some node would hold the pod if it were empty."""
        nodes = self._cycle.placer.nodes_for(pod)
        fleet = self._cycle.snapshot.fleet.nodes
        for name in paused(fleet if nodes is None else nodes):
            if name is None:
                yield
            elif _holds_empty(fleet[name], pod.shape):
                return True
        return False

    def _node_counts(self, pod: Pod) -> Generator[None, None, NodeCounts]:
        alike = (pod.shape, self._cycle.snapshot.offers.get(pod.key))
        if alike not in self._counts:
            self._counts[alike] = yield from self._count(pod)
        return self._counts[alike]

    def _count(self, pod: Pod) -> Generator[None, None, NodeCounts]:
        causes: dict[str, int] = {}
        free = largest = 0
        asked, nodes = self._cycle.scratch.claim(pod).gpu, self._cycle.placer.nodes_for(pod)
        for name in paused(sorted(self._cycle.scratch.rooms.names())):
            if name is None:
                yield
                continue
            room = self._cycle.scratch.rooms[name]
            cause = _unless_offered(_cause(room, pod.shape), name, nodes)
            causes[cause] = causes.get(cause, 0) + 1
            if cause in _BY_ROOM:
                hole = _hole(room, pod.shape)
                free, largest = free + hole, max(largest, hole)
        return NodeCounts(causes=causes, free=free, largest=largest, asked=asked)


def _first(found: Found, otherwise: Waiting) -> Generator[None, None, Waiting]:
    """The first reason that is found."""
    for one in found:
        if one is not None:
            return one
        yield
    return otherwise


def node_cause(cycle: Cycle, pod: Pod, name: str) -> str:
    """Why one node does not take a pod at the end of a cycle, in the words of `NodeCounts.causes`; empty: it would."""
    return _node_cause(cycle, pod, name, at_once(cycle.placer.company.of(pod)))


def _node_cause(cycle: Cycle, pod: Pod, name: str, wishes: Wishes | None) -> str:
    cause = _unless_offered(_cause(cycle.scratch.rooms[name], pod.shape), name, cycle.placer.nodes_for(pod))
    return "" if cause == "affinity" and (wishes is None or wishes.allow(name)) else cause


def _would_fit(room: Room, shape: Shape, holder: Pod) -> bool:
    room.shift(holder.shape, (), 0, 1)
    fits = room.fits_later(shape)
    room.shift(holder.shape, (), 0, -1)
    return fits


def _holds_empty(node: Node, shape: Shape) -> bool:
    gpus = max(shape.gpus, shape.devices if shape.shared else 0)
    return (
        node.open
        and node.gpus >= gpus
        and node.cpu >= shape.cpu
        and node.memory >= shape.memory
        and (not shape.gpu_memory or node.gpu_memory >= shape.gpu_memory)
    )


def _hole(room: Room, shape: Shape) -> int:
    """The milli-GPUs that one node could give to pods of this kind."""
    whole = max(0, room.later) * GPU
    if not shape.shared:
        return whole
    return whole + room.shared_milli()


_BY_ROOM = ("gpus", "cpu", "memory", "pods", "affinity", "not-offered")


def _unless_offered(cause: str, name: str, nodes: Nodes) -> str:
    """The cause; where nothing of the node's own is one, perhaps that kube-scheduler does not offer it."""
    return "not-offered" if cause == "affinity" and nodes is not None and name not in nodes else cause


def _cause(room: Room, shape: Shape) -> str:
    """The first cause for which a node does not take a pod."""
    node = room.node
    checks: Mapping[str, bool] = {
        "not-ready": node.ready,
        "cordoned": not node.cordoned,
        "dip": not node.dips,
        "selector": selects(shape, node),
        "taint": tolerates(shape, node),
        "gpu-memory": not (shape.gpu_memory and node.gpus) or bool(node.gpu_memory),
        "gpus": not shape.gpus or room.later >= shape.gpus,
        "shared-gpus": not shape.shared or room.shares(shape, 1) >= shape.devices,
        "cpu": not shape.cpu or room.cpu_later >= shape.cpu,
        "memory": not shape.memory or room.memory_later >= shape.memory,
        "pods": room.pods_later >= 1,
    }
    found = next((cause for cause, holds in checks.items() if not holds), "affinity")
    return "gpus" if found == "shared-gpus" else found
