"""Everything about one pod: the gates it passed or not, what each node says, who was tried for it, and what would help.

All of it comes from running the engine as usual with a recorder, so that what is told is what was decided.
"""

import msgspec
from gpuyard.engine import gates
from gpuyard.engine.advice import Advice, advise
from gpuyard.engine.gang import starting_chunk
from gpuyard.engine.model import Amounts, Pod
from gpuyard.engine.plan import Cycle
from gpuyard.engine.reasons import node_cause
from gpuyard.engine.reporter import Recorder, Reporter, Step
from gpuyard.engine.result import Final, Outcome, Waiting
from gpuyard.engine.settings import Settings
from gpuyard.engine.settle import rounds, settle
from gpuyard.engine.snapshot import Snapshot


class Gate(msgspec.Struct, frozen=True):
    """One question asked before any node is looked at, and the refusal, if it was refused."""

    name: str
    refusal: Waiting | None


class QueueStand(msgspec.Struct, frozen=True, kw_only=True):
    """How one queue on the way to the root stands at the end of the plan."""

    name: str
    quota: Amounts
    limit: Amounts
    fair_share: Amounts
    allocated: Amounts
    fixed: Amounts
    """The part of `allocated` that is not preemptible."""


class NodeWord(msgspec.Struct, frozen=True, kw_only=True):
    """What one node says to the pod: `cause` is empty where it fits."""

    node: str
    cause: str
    free: int
    """Whole GPUs free now or once those on their way out have left."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The whole decision trace of one pod."""

    pod: Pod
    final: Final
    waiting: Waiting | None
    gates: tuple[Gate, ...] = ()
    queues: tuple[QueueStand, ...] = ()
    nodes: tuple[NodeWord, ...] = ()
    steps: tuple[Step, ...] = ()
    """What the engine did for the pod's workload, in order."""
    advice: Advice | None = None


def explain(
    snapshot: Snapshot,
    settings: Settings,
    key: str,
    outcome: Outcome | None = None,
    watch: Reporter | None = None,
) -> Explanation:
    """Explain one pod of a snapshot, given what `settle` said of it, if that is known already.

    `watch` is told of every step of all the cycles that are run for it.
    """
    told = outcome or settle(snapshot, settings, watch)
    recorder = Recorder(watch)
    *_, cycle = rounds(snapshot, settings, recorder)
    pod = snapshot.pods[key]
    return Explanation(
        pod=pod,
        final=told.final[key],
        waiting=told.pending.get(key),
        gates=_gates(cycle, pod),
        queues=_queues(cycle, pod),
        nodes=tuple(_word(cycle, pod, name) for name in sorted(snapshot.fleet.nodes)) if key in told.pending else (),
        steps=tuple(step for step in recorder.steps if step.about in (key, pod.workload)),
        advice=advise(snapshot, settings, key, told, watch=watch),
    )


def _gates(cycle: Cycle, pod: Pod) -> tuple[Gate, ...]:
    """The gates in the order in which they are asked, up to the first refusal."""
    team = cycle.scratch.team(pod.workload)
    workload = team.workload
    admitted = Gate("queue", gates.admission(cycle.snapshot, cycle.accounts, cycle.settings, workload))
    if admitted.refusal is not None:
        return (admitted,)
    whole = Gate("gang", gates.whole(team))
    chunk = starting_chunk(team, cycle.scratch.wants_place)
    if whole.refusal is not None or not chunk:
        return (admitted, whole)
    need = cycle.scratch.need(chunk)
    return (admitted, whole, Gate("bounds", gates.capacity(cycle.accounts, cycle.snapshot, workload, need)))


def _queues(cycle: Cycle, pod: Pod) -> tuple[QueueStand, ...]:
    name = cycle.snapshot.workloads[pod.workload].queue or ""
    return tuple(
        QueueStand(
            name=a.name,
            quota=a.quota,
            limit=a.limit,
            fair_share=a.fair_share,
            allocated=a.allocated,
            fixed=a.fixed,
        )
        for a in cycle.accounts.path(name)
    )


def _word(cycle: Cycle, pod: Pod, name: str) -> NodeWord:
    room = cycle.scratch.rooms[name]
    return NodeWord(node=name, cause=node_cause(cycle, pod, name), free=max(0, room.later))
