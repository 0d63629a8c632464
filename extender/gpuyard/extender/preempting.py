"""Whom kube-scheduler may evict for a pod: what it proposes, less the nodes whose victims are not to be had.

A victim may go if it is preemptible, of the pod's own queue and of strictly lower priority, past its minimum run time,
not protected by a disruption budget, and if its gang can do without it or goes as a whole. A node with any other victim
is dropped: kube-scheduler has chosen no more victims than it needs there.

A proposal without victims means that only we stood in the way: then victims are filled in, or the node is dropped.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpuyard.engine import protection
from gpuyard.engine.accounts import Accounts
from gpuyard.engine.model import Pod, Workload
from gpuyard.engine.rooms import Room
from gpuyard.engine.scratch import Scratch
from gpuyard.engine.settings import Settings
from gpuyard.engine.snapshot import Snapshot
from gpuyard.engine.victims import Chunk

Proposal = Mapping[str, Sequence[str]]
"""The UIDs of the victims by node."""

Chosen = Mapping[str, Sequence[Pod]]
"""The victims by node, none without one."""


def choose(snapshot: Snapshot, settings: Settings, claimant: Workload, pod: Pod, proposal: Proposal) -> Chosen:
    """The nodes of a proposal that stay, with their victims; the pod's own gates have been passed."""
    bailiff = _Bailiff(snapshot, settings, claimant)
    found = {}
    for node, uids in proposal.items():
        victims = bailiff.proposed(node, uids) if uids else bailiff.own(node, pod)
        if victims:
            found[node] = victims
    return found


class _Bailiff:
    """Knows who may be evicted for one workload."""

    def __init__(self, snapshot: Snapshot, settings: Settings, claimant: Workload) -> None:
        self._snapshot = snapshot
        self._claimant = claimant
        self._scratch = Scratch(snapshot, Accounts({}))
        self._guard = protection.Guard(self._scratch, (), honor_budgets=settings.honor_disruption_budgets)

    def proposed(self, node: str, uids: Sequence[str]) -> list[Pod]:
        """The proposed victims, if all of them may go."""
        here = {pod.uid: pod for pod in self._snapshot.on_node.get(node, ())}
        pods = [here[uid] for uid in uids if uid in here]
        return pods if len(pods) == len(uids) and self._may_go(pods) else []

    def own(self, node: str, pod: Pod) -> list[Pod]:
        """Victims of our own for a node: the lowest and newest first, no more than needed."""
        if node not in self._scratch.rooms or self._fits(pod, node, ()):
            return []
        chosen: list[Pod] = []
        for victim in reversed(self._in_order(self._snapshot.on_node.get(node, ()))):
            if self._may_go([*chosen, victim]):
                chosen.append(victim)
                if self._fits(pod, node, chosen):
                    return self._spared(node, pod, chosen)
        return []

    def _spared(self, node: str, pod: Pod, chosen: Sequence[Pod]) -> list[Pod]:
        """The victims without those that turn out not to be needed, the highest first."""
        needed = self._in_order(chosen)
        for victim in self._in_order(chosen):
            fewer = [one for one in needed if one is not victim]
            if self._fits(pod, node, fewer) and self._may_go(fewer):
                needed = fewer
        return needed

    def _fits(self, pod: Pod, node: str, gone: Iterable[Pod]) -> bool:
        room = Room(self._snapshot.fleet.nodes[node], self._snapshot.room[node])
        for one in gone:
            room.shift(one.shape, one.gpu_groups, 1, 1)
        return room.fits_now(pod.shape)

    def _in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        """In decreasing priority, as kube-scheduler wants victims; the older first."""
        return sorted(pods, key=lambda pod: (-self._priority(pod), pod.created, pod.key))

    def _priority(self, pod: Pod) -> int:
        workload = self._snapshot.workloads.get(pod.workload)
        return workload.priority if workload else 0

    def _may_go(self, pods: Sequence[Pod]) -> bool:
        """Whether all these may go together."""
        keys = dict.fromkeys(pod.workload for pod in pods)
        if not all(pod.active and self._is_lower(self._snapshot.workloads.get(pod.workload)) for pod in pods):
            return False
        chunks = tuple(self._chunk(key, [pod for pod in pods if pod.workload == key]) for key in keys)
        return len(self._guard.affordable(chunks)) == len(chunks) and all(map(self._gang_may_lose, chunks))

    def _chunk(self, workload: str, pods: Sequence[Pod]) -> Chunk:
        return Chunk(workload, tuple(pods), tuple(map(self._scratch.place, pods)))

    def _is_lower(self, workload: Workload | None) -> bool:
        return (
            workload is not None
            and workload.governed
            and workload.preemptible
            and workload.queue == self._claimant.queue
            and workload.priority < self._claimant.priority
        )

    def _gang_may_lose(self, chunk: Chunk) -> bool:
        """Whether a gang keeps its minimum, or goes as a whole after its minimum run time."""
        team = self._scratch.team(chunk.workload)
        if protection.shrinks_to_minimum(team, chunk.pods):
            return True
        if any(pod.active and pod not in chunk.pods for pod in team.pods):
            return False
        runtime = protection.preempt_runtime(self._snapshot, team.workload.queue or "")
        return runtime is None or self._guard.safe_until(team, runtime[0]) is None
