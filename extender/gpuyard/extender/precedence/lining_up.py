"""The line as the engine would serve it: queue after queue by rank, each within its bounds, were there room for all.

Decided in docs/decisions.md: "Who ranks first is asked only where room is scarce".
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce

from gpuyard.engine.model import GPU, NOTHING, Amounts, Pod, Workload
from gpuyard.engine.model.constraints import suited
from gpuyard.engine.model.counting import claim
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.rules import gates
from gpuyard.engine.rules.gangs import Stand, Team, starting_chunk
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.lines import WaitingLine
from gpuyard.extender.ledger.gate_check import has_minimum
from gpuyard.extender.precedence.waiting_line import Line


def line_up(line: Line, snapshot: Snapshot, settings: Settings) -> Iterator[None]:
    """Fill an empty line; others may do something between two values."""
    cycle = Cycle(snapshot, settings)
    waiting, kept = WaitingLine(cycle.scratch), _with_places(cycle)
    for team in cycle.waiting():
        waiting.push(team)
        yield
    while (first := waiting.pop()) is not None:
        line.add((first.workload.key, has_minimum(snapshot, first.workload)), _asking(cycle, first, kept))
        yield
    yield from cycle.dissolve()


def _with_places(cycle: Cycle) -> AbstractSet[str]:
    """The pods for which plans keep room: that is spoken for, so they take nothing of what is left."""
    return (cycle.standing.keys() - cycle.snapshot.nominated.keys()) | {one.pod for one in cycle.snapshot.promises}


def _asking(cycle: Cycle, team: Team, kept: AbstractSet[str]) -> Sequence[Pod]:
    """The pods for which a workload asks for room when it is its turn; it counts in its queue from then on."""
    pods, workload = starting_chunk(team, cycle.scratch.waits), team.workload
    if cycle.starter.refusal(team, pods) is not None or _is_bound_somewhere(cycle, workload, pods):
        return ()
    if team.stand is not Stand.BELOW and workload.gang.has_topology:
        # It may stand only beside the others of its gang, and must not keep the room elsewhere from anybody.
        return ()
    if _never_fits(cycle.snapshot, pods):
        # It takes no turn of its queue's from those who can start.
        return pods
    cycle.accounts.add(workload.queue or "", cycle.scratch.need(pods), fixed=not workload.preemptible)
    return () if all(pod.key in kept for pod in pods) else pods


def _is_bound_somewhere(cycle: Cycle, workload: Workload, pods: Sequence[Pod]) -> bool:
    """Whether GPU memory, which counts most on the smallest GPUs, would pass a bound there: others may need those."""
    if not any(pod.shape.gpu_memory for pod in pods):
        return False
    smallest = cycle.snapshot.fleet.smallest_gpu
    need = reduce(Amounts.plus, (claim(pod.shape, smallest) for pod in pods), NOTHING)
    return gates.bound(cycle.accounts, cycle.snapshot, workload, need) is not None


def _never_fits(snapshot: Snapshot, pods: Sequence[Pod]) -> bool:
    """Whether the cluster has no nodes for a pod, or not so many GPUs, even if nobody were there."""
    asked = sum(pod.shape.gpus for pod in pods) * GPU
    return asked > snapshot.total.gpu or suited(snapshot.fleet, pods[0].shape) == frozenset()
