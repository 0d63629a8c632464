"""The cluster as the planner decides on it: what the ledger counts, and what is under way as if it were done.

granted by filter, on its way    stands on the best of the nodes it was offered, and is nobody's victim
granted by preempt               left alone: the pod is not there yet, its victims are leaving
to be evicted by a plan          is leaving, whether the API server has heard of it or not
node that dips                   counts as before, nothing is placed there
leaving, and a clock jumped      is due to have left by now, and not stuck
gang below its minimum           since when it was first seen so
not offered by kube-scheduler    not placed there

Decided in docs/decisions.md: "What is under way counts as done when the planner decides".
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec
from gpuyard.engine.model import Budget, Node, Offer, Pod, Promise, State
from gpuyard.engine.model.snapshot import Snapshot
from msgspec.structs import replace


class UnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """What the watches do not show yet, or never do."""

    granted: Mapping[str, str] = {}
    """The likely nodes of the pods that filter let through, by key; empty where none is known."""
    leaving: AbstractSet[str] = frozenset()
    """The UIDs of those who are to go."""
    promises: tuple[Promise, ...] = ()
    budgets: tuple[Budget, ...] = ()
    dips: tuple[Node, ...] = ()
    late: tuple[Pod, ...] = ()
    """Pods on their way out with another time by which they should have gone."""
    torn_since: Mapping[str, int] = {}
    offers: Mapping[str, Offer] = {}


def view(counted: Snapshot, under_way: UnderWay, now: int) -> Snapshot:
    """What the engine decides on; `counted` is the ledger's."""
    draft = counted.draft()
    if under_way.dips:
        draft.put_nodes(under_way.dips)
    draft.put_pods([*_granted(counted, under_way), *_leaving(counted, under_way), *under_way.late])
    for key, since in under_way.torn_since.items():
        if key in counted.workloads:
            draft.put_workload(replace(counted.workloads[key], stale_since=since))
    made = replace(draft.done(), now=now, offers=under_way.offers)
    return made.with_promises(under_way.promises).with_budgets(under_way.budgets)


def _granted(counted: Snapshot, under_way: UnderWay) -> Iterable[Pod]:
    for key, node in under_way.granted.items():
        pod = counted.pods.get(key)
        if pod is not None and node in counted.fleet.nodes:
            yield replace(pod, state=State.BOUND, node=node)
        elif pod is not None:
            yield replace(pod, state=State.PENDING, node="", gpu_groups=(), gated=True)


def _leaving(counted: Snapshot, under_way: UnderWay) -> Iterable[Pod]:
    for pod in counted.pods.values() if under_way.leaving else ():
        if pod.uid in under_way.leaving and pod.active and pod.key not in under_way.granted:
            yield replace(pod, state=State.TERMINATING)
