"""May this workload run at all? Each gate gives a reason why not, or lets it through; the first refusal counts.

    governed       it names a queue, no other scheduler, and its namespace is the queue's
    queue          the queue exists, its ancestors exist, and it is a leaf
    gang           enough pods exist for the minimum
    limit          allocated + chunk <= limit, in the queue and every ancestor
    quota          not preemptible: what is not preemptible + chunk <= quota, in the queue and every ancestor

There is no gate for the fair share: free GPUs are for whoever asks first. `GATES` is the one list of them, in order, as
`queue` (the first two), `gang` and `bounds` (the last two): the cycle, its explanation and the extender's filter all go
through it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, reduce
from typing import Literal, NamedTuple

from gpuyard.engine.model import NOTHING, RESOURCES, UNLIMITED, Amounts, Pod, Workload
from gpuyard.engine.model.counting import claim
from gpuyard.engine.model.results import Bound, Foreign, Gap, NoQueue, Reason, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.rules.accounts import Account, Accounts
from gpuyard.engine.rules.gangs import Team, shortfall


class Question(NamedTuple):
    """A workload that wants to start, and the cluster as it is counted at that moment."""

    snapshot: Snapshot
    accounts: Accounts
    settings: Settings
    team: Team
    chunk: Sequence[Pod] = ()
    """The pods that would start next."""


Gate = Callable[[Question], Waiting | None]


def refusal(question: Question, gates: Mapping[str, Gate] | None = None) -> Waiting | None:
    """Why a workload may not start: what the first gate says that is shut; None when all are open."""
    for gate in (GATES if gates is None else gates).values():
        if (waiting := gate(question)) is not None:
            return waiting
    return None


def _of_queue(question: Question) -> Waiting | None:
    """Why a workload cannot be in line at all, whatever its size; None when it can."""
    snapshot, accounts, settings, workload = *question[:3], question.team.workload
    if workload.queue is None:
        return Waiting(Reason.QUEUE_MISSING, NoQueue(label="", why="absent"))
    if workload.scheduler:
        return Waiting(Reason.OTHER_SCHEDULER, Foreign(found=workload.scheduler))
    wanted = _queue_of_namespace(snapshot, settings, workload)
    if wanted is not None and wanted != workload.queue:
        return Waiting(Reason.NAMESPACE_MISMATCH, Foreign(found=workload.queue, wanted=wanted))
    return _queue_gate(snapshot, accounts, workload.queue)


def governs(settings: Settings, workload: Workload | None) -> bool:
    """Whether the gates are for this workload: one that names no queue may pass them all, as the settings say."""
    return (workload is not None and workload.queue is not None) or settings.pods_without_queue == "refuse"


def _queue_of_namespace(snapshot: Snapshot, settings: Settings, workload: Workload) -> str | None:
    if settings.namespace_match == "off":
        return None
    if settings.namespace_match == "name":
        return workload.namespace
    return snapshot.namespaces.get(workload.namespace, "")


def _queue_gate(snapshot: Snapshot, accounts: Accounts, name: str) -> Waiting | None:
    if name in accounts.leaves:
        return None
    if name in accounts.by_name:
        return Waiting(Reason.QUEUE_DOES_NOT_EXIST, NoQueue(label=name, why="not a leaf"))
    if name in snapshot.queues:
        return Waiting(Reason.QUEUE_DOES_NOT_EXIST, _rootless(snapshot, name))
    nearest = _nearest(name, accounts.leaves)
    return Waiting(Reason.QUEUE_DOES_NOT_EXIST, NoQueue(label=name, why="unknown", nearest=nearest))


def _rootless(snapshot: Snapshot, name: str) -> NoQueue:
    """What is wrong with the way from a queue up to a root."""
    path = snapshot.path(name)
    above = snapshot.queues[path[-1]].parent
    if not above:
        return NoQueue(label=name, why="too deep")
    return NoQueue(label=name, why="circle" if above in path else "orphan", parent=above)


@lru_cache(maxsize=1024)
def _nearest(name: str, leaves: frozenset[str]) -> str:
    """The leaf whose name is most alike; remembered, since a refused pod asks again and again."""
    return next(iter(get_close_matches(name, sorted(leaves), n=1)), "")


def _of_gang(question: Question) -> Waiting | None:
    """Why a gang cannot start because of pods that do not exist; None when it is whole."""
    team = question.team
    found = shortfall(team, _exists)
    if found is None:
        return None
    have, needed, part = found
    gated = sum(pod.gated and pod.deleted_at is None for pod in team.pods)
    return Waiting(Reason.GANG_INCOMPLETE, Gap(found=have, needed=needed, part=part, gated=gated))


def _exists(pod: Pod) -> bool:
    return not pod.gated and pod.state in _ALIVE


_ALIVE = frozenset({"Pending", "Bound", "Running"})


def _of_bounds(question: Question) -> Waiting | None:
    """The bound of its queue that the next chunk would pass, if there is one."""
    snapshot, need = question.snapshot, to_start(question.snapshot, question.chunk)
    return bound(question.accounts, snapshot, question.team.workload, need)


IN_LINE: Mapping[str, Gate] = {"queue": _of_queue, "gang": _of_gang}
"""The gates that say whether a workload may be in line, whatever others hold at that moment."""

GATES: Mapping[str, Gate] = {**IN_LINE, "bounds": _of_bounds}
"""All gates by name, in the order in which they are asked."""


def to_start(snapshot: Snapshot, pods: Sequence[Pod]) -> Amounts:
    """What pods that wait count before a node is chosen: GPU memory by the largest GPUs, so by the least it may be."""
    if len(pods) == 1:
        return claim(pods[0].shape, snapshot.fleet.largest_gpu)
    return reduce(Amounts.plus, (claim(pod.shape, snapshot.fleet.largest_gpu) for pod in pods), NOTHING)


def bound_on(question: Question, pod: Pod, node: str) -> Waiting | None:
    """The bound that a pod would pass on this node: only there it is certain what GPU memory counts."""
    if not pod.shape.gpu_memory:
        return None
    need = claim(pod.shape, question.snapshot.fleet.nodes[node].gpu_memory)
    return bound(question.accounts, question.snapshot, question.team.workload, need)


def bound(accounts: Accounts, snapshot: Snapshot, workload: Workload, need: Amounts) -> Waiting | None:
    """The first bound on the way up that so much more would pass; None when it passes none."""
    path = accounts.path(workload.queue or "")
    passed = _passed(path, "limit", need)
    if passed is not None:
        return Waiting(Reason.OVER_LIMIT, _bound(snapshot, *passed, "limit", need))
    if not workload.preemptible:
        passed = _passed(path, "quota", need)
        if passed is not None:
            return Waiting(Reason.NON_PREEMPTIBLE_OVER_QUOTA, _bound(snapshot, *passed, "quota", need))
    return None


_Kind = Literal["limit", "quota"]


def _passed(path: Iterable[Account], kind: _Kind, need: Amounts) -> tuple[Account, int] | None:
    for account in path:
        bounds, used = (account.limit, account.allocated) if kind == "limit" else (account.quota, account.fixed)
        for n in range(len(RESOURCES)):
            if need[n] and bounds[n] != UNLIMITED and used[n] + need[n] > bounds[n]:
                return account, n
    return None


def _bound(snapshot: Snapshot, account: Account, n: int, kind: _Kind, need: Amounts) -> Bound:
    resource = RESOURCES[n]
    used = account.allocated if kind == "limit" else account.fixed
    bounds = account.limit if kind == "limit" else account.quota
    return Bound(
        queue=account.name,
        resource=resource,
        kind=kind,
        bound=bounds[n],
        used=used[n],
        asked=need[n],
        unset=f"{resource}.{kind}" in snapshot.queues[account.name].unset,
    )
