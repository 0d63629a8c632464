"""Whom kube-scheduler may evict for a pod: what it proposes, less the nodes whose victims are not to be had.

    the pod is    a victim may go if it                                                         disruption budgets are
    governed      is preemptible, of the same queue, of lower priority, and not protected        held here
    not           is not governed; or is preemptible, of lower priority, and not protected       kube-scheduler's

Protected is a workload before its minimum run time, and a gang that would be left below its minimum but not go whole.
A victim that is terminating already has been let go: kube-scheduler proposes it again while a pod that it nominated
waits for it. A node with any other victim is dropped: kube-scheduler has chosen no more victims than it needs there.

A proposal without victims means that only we stood in the way: for a governed pod victims are filled in; else, and
where none may go, the node is dropped, since one such node ends the whole preemption.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuyard.engine.model import Pod, Workload
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.scratch import Scratch
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.search import protection
from gpuyard.engine.search.evicted_chunks import Chunk
from gpuyard.extender.verbs.node_room import NodeRoom

Proposal = Mapping[str, Sequence[str]]
"""The UIDs of the victims by node."""

Chosen = Mapping[str, Sequence[Pod]]
"""The victims by node, none without one."""


class Claim(NamedTuple):
    """For whom room is to be made: a pod whose own gates have been passed, or that has none."""

    snapshot: Snapshot
    workload: Workload
    pod: Pod
    room: NodeRoom
    honor_budgets: bool
    unbound: Collection[str]
    """The keys of pods that only have a place kept for them: there is nothing to evict."""


def choose(claim: Claim, proposal: Proposal) -> Chosen:
    """The nodes of a proposal that stay, with their victims."""
    bailiff = _Bailiff(claim)
    found = {}
    for node, uids in proposal.items():
        victims = bailiff.proposed(node, uids) if uids else bailiff.own(node)
        if victims:
            found[node] = victims
    return found


class _Bailiff:
    """Knows who may be evicted for one workload."""

    def __init__(self, claim: Claim) -> None:
        self._snapshot, self._claimant, self._pod, self._room, honor_budgets, self._unbound = claim
        self._scratch = Scratch(self._snapshot, Accounts({}))
        self._guard = protection.Guard(self._scratch, (), honor_budgets=honor_budgets)

    def proposed(self, node: str, uids: Sequence[str]) -> list[Pod]:
        """The proposed victims, if all of them may go and none dies for room that is kept for others."""
        here = {pod.uid: pod for pod in self._pods_on(node)}
        pods = [here[uid] for uid in uids if uid in here]
        suits = len(pods) == len(uids) and self._may_go(pods) and self._room.fits(node, pods)
        return pods if suits else []

    def own(self, node: str) -> list[Pod]:
        """Victims of our own for a node: the lowest and newest first, no more than needed."""
        if not self._claimant.governed or node not in self._scratch.rooms or self._room.has_room(node):
            return []
        chosen: list[Pod] = []
        for victim in reversed(self._in_order(pod for pod in self._pods_on(node) if pod.active)):
            if self._may_go([*chosen, victim]):
                chosen.append(victim)
                if self._room.has_room(node, chosen):
                    return self._spared(node, chosen)
        return []

    def _pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self._snapshot.on_node.get(node, ()) if pod.key not in self._unbound]

    def _spared(self, node: str, chosen: Sequence[Pod]) -> list[Pod]:
        """The victims without those that turn out not to be needed, the highest first."""
        needed = self._in_order(chosen)
        for victim in self._in_order(chosen):
            fewer = [one for one in needed if one is not victim]
            if self._room.has_room(node, fewer) and self._may_go(fewer):
                needed = fewer
        return needed

    def _in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        """In decreasing priority, as kube-scheduler wants victims; the older first."""
        return sorted(pods, key=lambda pod: (-self._priority(pod), pod.created, pod.key))

    def _priority(self, pod: Pod) -> int:
        workload = self._snapshot.workloads.get(pod.workload)
        return workload.priority if workload else 0

    def _may_go(self, pods: Sequence[Pod]) -> bool:
        """Whether all these may go together, as far as they are not going anyway."""
        staying = [pod for pod in pods if pod.active]
        ours = [pod for pod in staying if self._is_ours(pod)]
        if not all(self._is_lower(self._snapshot.workloads[pod.workload]) for pod in ours):
            return False
        if self._claimant.governed and len(ours) < len(staying):
            return False
        keys = dict.fromkeys(pod.workload for pod in ours)
        chunks = tuple(self._chunk(key, [pod for pod in ours if pod.workload == key]) for key in keys)
        return len(self._guard.affordable(chunks)) == len(chunks) and all(map(self._gang_may_lose, chunks))

    def _chunk(self, workload: str, pods: Sequence[Pod]) -> Chunk:
        return Chunk(workload, tuple(pods), tuple(map(self._scratch.place, pods)))

    def _is_ours(self, pod: Pod) -> bool:
        workload = self._snapshot.workloads.get(pod.workload)
        return workload is not None and workload.governed

    def _is_lower(self, workload: Workload) -> bool:
        """Whether a governed workload may have to go for the claimant's."""
        same = not self._claimant.governed or workload.queue == self._claimant.queue
        return same and workload.preemptible and workload.priority < self._claimant.priority

    def _gang_may_lose(self, chunk: Chunk) -> bool:
        """Whether a gang keeps its minimum, or goes as a whole after its minimum run time."""
        team = self._scratch.team(chunk.workload)
        if protection.shrinks_to_minimum(team, chunk.pods):
            return True
        if any(pod.active and pod not in chunk.pods for pod in team.pods):
            return False
        runtime = protection.preempt_runtime(self._snapshot, team.workload.queue or "")
        return runtime is None or self._guard.safe_until(team, runtime[0]) is None
