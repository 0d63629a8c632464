"""Starts a gang whole, although kube-scheduler places its pods one by one and nothing holds them together.

    a member is offered nodes ──▶ refused, its offer is remembered
    the last member that is needed is offered nodes ──▶ the engine places all of them, each on a node it was offered
        no room for all ──▶ refused as well
        room for all    ──▶ each gets its place reserved; this one is let through, the others are woken
    one above the minimum, in a gang with a topology ──▶ the node that the engine would give it alone, or refused
    a member with a reserved place ──▶ that node alone; if it is not offered any more, all are given up that
        nobody has been let through to

So a member that kube-scheduler offers no node at all (a port, a volume) keeps the whole gang from starting.

Decided in docs/decisions.md: "Gangs start whole without a Permit step".
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from gpuyard.common.cluster.sighting import Sighting
from gpuyard.engine.model import Offer, Pod, State, Workload
from gpuyard.engine.model.reporter import Silent
from gpuyard.engine.model.results import Gap, Reason, Waiting
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.gang_start import Starter
from gpuyard.engine.placing.placement import Placer
from gpuyard.engine.placing.scratch import Scratch, Status
from gpuyard.engine.placing.strategies import Strategy
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Team, starting_chunk
from gpuyard.engine.stepwise import at_once
from gpuyard.extender.ledger import Grant, Ledger
from gpuyard.extender.verbs.node_room import NodeRoom
from msgspec.structs import replace

Choice = Callable[[Team, Callable[[Pod], bool]], list[Pod]]
"""Says which pods of a gang start now, out of those that wait."""


def stands(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether enough pods of a workload have places, so that one more needs no others."""
    if not workload.gang.parts and workload.gang.minimum <= 1:
        return True
    active: dict[str, int] = {}
    for pod in snapshot.members.get(workload.key, ()):
        if pod.active:
            active[pod.group] = active.get(pod.group, 0) + 1
    return workload.gang.stands(active)


class Asked(NamedTuple):
    """A question to filter, with the view of the cluster in which nothing was granted to the pod."""

    snapshot: Snapshot
    seen: Sighting
    offered: Collection[str]
    now: float
    until: float
    """Until when a yes would count."""
    fresh: float
    """Since when what kube-scheduler offers a pod still counts."""
    strategy: Strategy

    def read(self) -> None:
        """Read what is offered to its end, before anything is changed that an unreadable name must not change."""
        len(self.offered)


class Gangs:
    """Answers for the members of gangs, over one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def place_for(self, asked: Asked, accounts: Accounts) -> Grant | Waiting | None:
        """The one node for a member, or why it waits; None: it needs no others and may go where it likes."""
        pod, workload = asked.seen.pod, asked.seen.workload
        if workload is None or not workload.governed:
            return None
        kept = self._ledger.place_kept(pod)
        if kept and kept.node in asked.offered:
            return kept
        if kept:
            asked.read()
            self._give_up(asked)
            asked = asked._replace(snapshot=self._ledger.waiting(asked.seen))
        if stands(asked.snapshot, workload):
            return self._one_more(asked, accounts, workload) if workload.gang.has_topology else None
        self._ledger.offer(pod, asked.offered, asked.now)
        places = self._places(asked, accounts, workload, starting_chunk)
        if pod.key not in places:
            self._call_for_offers(asked, workload)
            return Waiting(Reason.GANG_DOES_NOT_FIT, Gap(found=0, needed=workload.gang.minimum))
        for key, place in places.items():
            if key != pod.key:
                self._ledger.promise(key, place, now=asked.now, until=asked.until)
        return places[pod.key]

    def inherits_whole(self, asked: Asked) -> bool:
        """Whether a member that has been offered its promised node may take it: alone only in a gang that stands."""
        workload = asked.seen.workload
        if workload is None or stands(asked.snapshot, workload):
            return True
        self._ledger.offer(asked.seen.pod, asked.offered, asked.now)
        others = [pod for pod in asked.snapshot.members.get(workload.key, ()) if pod.state is State.PENDING]
        promised = self._ledger.promises.matched(others)
        waiting = [pod for pod in others if pod.key in promised]
        if any(promised[pod.key].node not in (self._fresh(pod, asked) or ()) for pod in waiting):
            return False
        for pod in waiting:
            if pod.key != asked.seen.pod.key:
                self._ledger.wake(pod.key)
        return True

    def _one_more(self, asked: Asked, accounts: Accounts, workload: Workload) -> Grant | Waiting:
        """The one node for a pod above the minimum: it stays in the domain of the others, which only the engine knows.

        Without room there the room elsewhere does not help: the pod waits.
        """
        self._ledger.offer(asked.seen.pod, asked.offered, asked.now)
        places = self._places(asked, accounts, workload, lambda _team, _waits: [asked.seen.pod])
        return places.get(asked.seen.pod.key) or Waiting(Reason.NO_NODE_FITS)

    def _places(self, asked: Asked, accounts: Accounts, workload: Workload, choose: Choice) -> Mapping[str, Grant]:
        """A node for each member that starts now, out of those that it was offered; none if they do not all fit."""
        snapshot, pod = asked.snapshot, asked.seen.pod
        if pod.key not in snapshot.pods:
            snapshot = snapshot.with_workload(workload).with_pod(pod)
        offers = {member.key: Offer(nodes=self._fresh(member, asked)) for member in snapshot.members[workload.key]}
        scratch = Scratch(replace(snapshot, offers=offers), accounts)
        for node, part in NodeRoom(snapshot, self._ledger, pod, asked.strategy).promised:
            if node in scratch.rooms:
                scratch.rooms.shift(node, part.shape, part.groups, -1, -1)
        team = scratch.team(workload.key)
        chunk = choose(team, lambda member: scratch.waits(member) and offers[member.key].nodes is not None)
        # Who has the least choice goes first: the others can step aside.
        chunk.sort(key=lambda member: len(offers[member.key].nodes or ()))
        starter = Starter(scratch, Placer(scratch, asked.strategy, {}), Silent())
        if not chunk or not at_once(starter.start(team, chunk)):
            return {}
        places = {member.key: scratch.place(member) for member in chunk}
        ready = all(place.status is Status.BOUND for place in places.values())
        return {key: Grant(place.node, groups=place.groups) for key, place in places.items()} if ready else {}

    def _fresh(self, member: Pod, asked: Asked) -> frozenset[str] | None:
        return self._ledger.offered(member, asked.fresh)

    def _give_up(self, asked: Asked) -> None:
        """Let go of the places that nobody has been let through to: kube-scheduler may be binding the others."""
        self._ledger.lapse(asked.seen.pod.key, asked.seen.pod.uid)
        for member in asked.snapshot.members.get(asked.seen.pod.workload, ()):
            self._ledger.give_up(member.key)

    def _call_for_offers(self, asked: Asked, workload: Workload) -> None:
        """Wake the members whose offers have grown old: they have been let down only by the others."""
        for member in asked.snapshot.members.get(workload.key, ()):
            ever = self._ledger.offered(member, float("-inf"))
            if ever is not None and self._fresh(member, asked) is None:
                self._ledger.wake(member.key)
