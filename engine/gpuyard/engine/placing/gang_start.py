"""Starting a chunk: a place for each of its pods, or for none of them."""

from collections.abc import Generator, Sequence

from gpuyard.engine.model import Gang, Pod
from gpuyard.engine.model.reporter import Reporter
from gpuyard.engine.model.results import Waiting
from gpuyard.engine.placing.placement import Placer
from gpuyard.engine.placing.scratch import ACTIVE, Place, Scratch, Status
from gpuyard.engine.placing.topology import NodeSet, node_sets
from gpuyard.engine.rules import gates
from gpuyard.engine.rules.gangs import Team

Steps = Generator[None, None, bool]
"""Pauses between two pods, to let the caller do other work; returns whether all of them have their places."""


class Starter:
    """Places chunks on a scratch, pod by pod. After a failure `reached` says for how many pods there was room."""

    def __init__(self, scratch: Scratch, placer: Placer, reporter: Reporter) -> None:
        self._scratch = scratch
        self._placer = placer
        self._reporter = reporter
        self._bind = False
        self._placed = 0
        self.reached = 0
        self.stopped_at: Pod | None = None

    def refusal(self, team: Team, pods: Sequence[Pod]) -> Waiting | None:
        """The bound of the team's queue that these pods would pass, if any."""
        snapshot = self._scratch.snapshot
        single = len(pods) == 1 and not pods[0].shape.gpu_memory
        # What a cycle has counted once it need not count again.
        need = self._scratch.claim(pods[0]) if single else gates.to_start(snapshot, pods)
        return gates.bound(self._scratch.accounts, snapshot, team.workload, need)

    def start(self, team: Team, pods: Sequence[Pod]) -> Steps:
        """Bind the pods where all have room now, else promise all of them their places; False changes nothing."""
        if not (yield from self._place(team, pods, bind=True)):
            return False
        bound = [pod for pod in pods if self._scratch.status(pod) is Status.BOUND]
        if len(bound) < len(pods):
            for pod in bound:
                self._scratch.postpone(pod)
        return True

    def promise(self, team: Team, pods: Sequence[Pod]) -> Steps:
        """Promise all the pods their places; False changes nothing."""
        return self._place(team, pods, bind=False)

    def may_stay(self, team: Team, pod: Pod, place: Place) -> Steps:
        """Whether a pod's old place has still room for it, and its queue for what it counts there."""
        has_room = yield from self._placer.has_room(pod, place.node, place.groups)
        return has_room and not self._passes_bound_there(team, pod, place.node)

    def _place(self, team: Team, pods: Sequence[Pod], *, bind: bool) -> Steps:
        self._bind = bind
        self._placed = self.reached = 0
        gang = team.workload.gang
        if not gang.parts and gang.topology is None:
            mark = self._scratch.mark()
            if (yield from self._each(team, pods, NodeSet())):
                return True
            yield from self._scratch.take_back(mark)
            return False
        return (yield from self._group(team, gang, pods, NodeSet()))

    def _group(self, team: Team, gang: Gang, pods: Sequence[Pod], within: NodeSet) -> Steps:
        names = {leaf.name for leaf in gang.leaves}
        mine = [pod for pod in pods if pod.group in names]
        places = map(self._scratch.place, (pod for pod in team.pods if pod.group in names)) if gang.topology else ()
        running = [place.node for place in places if place.status in ACTIVE]
        for nodes in node_sets(self._scratch, gang.topology, mine, within, running):
            if nodes is None:
                yield
                continue
            mark, placed = self._scratch.mark(), self._placed
            if (yield from self._members(team, gang, mine, nodes)):
                return True
            yield from self._scratch.take_back(mark)
            self._placed = placed
        return False

    def _members(self, team: Team, gang: Gang, pods: Sequence[Pod], nodes: NodeSet) -> Steps:
        if not gang.parts:
            return (yield from self._each(team, pods, nodes))
        for part in sorted(gang.parts, key=lambda part: (not part.parts, part.name)):
            if not (yield from self._group(team, part, pods, nodes)):
                return False
        return True

    def _each(self, team: Team, pods: Sequence[Pod], nodes: NodeSet) -> Steps:
        for pod in pods:
            spot = yield from self._placer.find(pod, nodes.nodes, nodes.scores)
            if spot is None or self._passes_bound_there(team, pod, spot.node):
                self._reporter.no_room(pod.key)
                self.stopped_at = pod
                return False
            if self._bind and spot.now:
                self._scratch.bind(pod, spot.node, spot.groups)
            else:
                self._scratch.nominate(pod, spot.node, spot.groups)
            self._reporter.placed(pod.key, spot.node, now=spot.now)
            self._placed += 1
            self.reached = max(self.reached, self._placed)
            yield
        return True

    def _passes_bound_there(self, team: Team, pod: Pod, node: str) -> bool:
        """What GPU memory counts is certain only on a node."""
        if not pod.shape.gpu_memory:
            return False
        need = self._scratch.claim(pod, node)
        return gates.bound(self._scratch.accounts, self._scratch.snapshot, team.workload, need) is not None
