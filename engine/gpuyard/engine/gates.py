"""May this workload run at all? Each gate gives a reason why not, or lets it through; the first refusal counts.

    governed       it names a queue, no other scheduler, and its namespace is the queue's
    queue          the queue exists, its ancestors exist, and it is a leaf
    gang           enough pods exist for the minimum
    limit          allocated + chunk <= limit, in the queue and every ancestor
    quota          not preemptible: what is not preemptible + chunk <= quota, in the queue and every ancestor

There is no gate for the fair share: free GPUs are for whoever asks first.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache, reduce
from typing import Literal

from gpuyard.engine.accounts import Account, Accounts
from gpuyard.engine.gang import Team, shortfall
from gpuyard.engine.model import NOTHING, RESOURCES, UNLIMITED, Amounts, Pod, Workload
from gpuyard.engine.result import Bound, Foreign, Gap, NoQueue, Reason, Waiting
from gpuyard.engine.settings import Settings
from gpuyard.engine.snapshot import Snapshot


def admission(snapshot: Snapshot, accounts: Accounts, settings: Settings, workload: Workload) -> Waiting | None:
    """Why a workload cannot be in line at all, whatever its size; None when it can."""
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


def whole(team: Team) -> Waiting | None:
    """Why a gang cannot start because of pods that do not exist; None when it is whole."""
    found = shortfall(team, _exists)
    if found is None:
        return None
    have, needed, part = found
    gated = sum(pod.gated and pod.deleted_at is None for pod in team.pods)
    return Waiting(Reason.GANG_INCOMPLETE, Gap(found=have, needed=needed, part=part, gated=gated))


def _exists(pod: Pod) -> bool:
    return not pod.gated and pod.state in _ALIVE


_ALIVE = frozenset({"Pending", "Bound", "Running"})


def capacity(accounts: Accounts, snapshot: Snapshot, workload: Workload, need: Amounts) -> Waiting | None:
    """Why a chunk may not start in its queue: the first bound on the way up that it would pass; None when it may."""
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


def chunk_need(claims: Sequence[Amounts]) -> Amounts:
    """The sum of what the pods of a chunk count."""
    return reduce(Amounts.plus, claims, NOTHING)
