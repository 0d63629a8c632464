"""Asks the engine's gates about one pod, at the price of its queue's way up to the root.

The gates read the queues' accounts. Here these are made once for a set of queues and brought up to date only where a
gate is about to look: a refused pod is asked about at almost every event of a busy cluster.

Decided in docs/decisions.md: "The queue accounts of the verbs are not those of the cycle".
"""

from collections import Counter
from collections.abc import Iterator

from gpuyard.engine.model import NOTHING, Pod, State, Workload
from gpuyard.engine.model.counting import UNUSED
from gpuyard.engine.model.results import Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.rules import gates
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Team, starting_chunk
from gpuyard.engine.rules.promises import nominations
from gpuyard.extender.ledger.kept_room import Promises, Share


class Gatekeeper:
    """Says why a pod may not start; what plans promise to others counts in their queues already."""

    def __init__(self, promises: Promises) -> None:
        self._promises = promises
        self._queues: object = None
        self._accounts = Accounts({})

    def refusal(self, snapshot: Snapshot, settings: Settings, workload: Workload, pod: Pod) -> Waiting | None:
        """Why a waiting pod may not start now; None: it may. The snapshot may not have it yet, but never as placed."""
        return gates.refusal(self.question(snapshot, settings, workload, pod))

    def question(self, snapshot: Snapshot, settings: Settings, workload: Workload, pod: Pod) -> gates.Question:
        """What the gates are asked about a waiting pod, with accounts that are up to date on its queue's way up."""
        team = _team(snapshot, workload, pod)
        self._count(snapshot, team, pod)
        return gates.Question(snapshot, self.accounts(snapshot), settings, team, _chunk(team, pod))

    def _count(self, snapshot: Snapshot, team: Team, pod: Pod) -> None:
        """Bring the accounts on a queue's way up to date, with what is kept for others."""
        accounts = self.accounts(snapshot)
        path = accounts.path(team.workload.queue or "")
        for account in path:
            use = snapshot.use.get(account.name, UNUSED)
            account.allocated, account.fixed = use.allocated, use.fixed
        for queue, fixed, amounts in (*self._promised(team), *self._nominated(snapshot, pod)):
            for account in accounts.path(queue):
                if account in path:
                    account.add(amounts, fixed=fixed)

    def _promised(self, team: Team) -> Iterator[Share]:
        """What is promised to others than these."""
        if self._promises.all:
            yield from (Share(queue, fixed, amounts) for (queue, fixed), amounts in self._promises.use.items())
            for own in self._promises.shares_of(team.pods):
                yield own._replace(amounts=NOTHING.minus(own.amounts))

    def _nominated(self, snapshot: Snapshot, pod: Pod) -> Iterator[Share]:
        """What others are nominated for: victims die for it, so what they leave is for nobody else of the queue."""
        for other in nominations(snapshot):
            workload = snapshot.workloads.get(other.workload)
            if other.key != pod.key and workload is not None:
                yield Share(workload.queue or "", not workload.preemptible, snapshot.claim_of(other))

    def accounts(self, snapshot: Snapshot) -> Accounts:
        """The queues' accounts, without fair shares; only those on the way up from a pod asked about are up to date."""
        if snapshot.queues is not self._queues:
            self._queues = snapshot.queues
            self._accounts = Accounts.without_shares(snapshot)
        return self._accounts


def has_minimum(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether a gang has enough pods with places; of a pod that starts alone: no."""
    gang = workload.gang
    if gang.minimum <= 1 and not gang.parts:
        return False
    return gang.stands(Counter(pod.group for pod in snapshot.members.get(workload.key, ()) if pod.active))


def starts_with(snapshot: Snapshot, workload: Workload, pod: Pod) -> list[Pod]:
    """The pods that start together with a waiting one, itself included."""
    if workload.gang.minimum <= 1 and not workload.gang.parts:
        return [pod]
    return _chunk(_team(snapshot, workload, pod), pod)


def _team(snapshot: Snapshot, workload: Workload, pod: Pod) -> Team:
    pods = snapshot.members.get(workload.key, ())
    if pod.key not in snapshot.pods:
        pods = (*pods, pod)
    active: dict[str, int] = {}
    for one in pods:
        if one.active:
            active[one.group] = active.get(one.group, 0) + 1
    return Team(workload, pods, active)


def _chunk(team: Team, pod: Pod) -> list[Pod]:
    """What starts with this pod: what its gang is short of, or the pod alone."""
    chunk = starting_chunk(team, _waits)
    return chunk if pod in chunk else [pod, *chunk[1:]]


def _waits(pod: Pod) -> bool:
    return pod.state is State.PENDING and not pod.gated
