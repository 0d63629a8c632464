"""Everything about one pod: the gates it passed or not, what each node says, who was tried for it, and what would help.

All of it comes from running the engine as usual with a recorder, so that what is told is what was decided.
"""

from collections.abc import Iterator

import msgspec
from gpuyard.engine.explain.advice import PLACED, Advice, advise
from gpuyard.engine.model import NOTHING, Amounts, Pod
from gpuyard.engine.model.reporter import Recorder, Reporter, Step
from gpuyard.engine.model.results import Final, FinalState, NoQueue, Outcome, Reason, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.rules import gates
from gpuyard.engine.rules.gangs import Team, starting_chunk
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.reasons import node_cause
from gpuyard.engine.search.settle import rounds, settle


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
    pod = cycle.snapshot.pods[key]
    return Explanation(
        pod=snapshot.pods[key],
        final=told.final[key],
        waiting=told.pending.get(key),
        gates=_gates(cycle, pod),
        queues=_queues(cycle, pod),
        nodes=tuple(_words(cycle, pod, told.final[key])),
        steps=tuple(step for step in recorder.steps if step.about in (key, pod.workload)),
        advice=advise(snapshot, settings, key, told, watch=watch),
    )


def _gates(cycle: Cycle, pod: Pod) -> tuple[Gate, ...]:
    """The gates in the order in which they are asked, up to the first refusal; none where the pod passes them all."""
    if not gates.governs(cycle.settings, cycle.snapshot.workloads.get(pod.workload)):
        return ()
    if pod.workload not in cycle.snapshot.workloads:
        return (Gate("queue", Waiting(Reason.QUEUE_MISSING, NoQueue(label="", why="absent"))),)
    question = _question(cycle, cycle.scratch.team(pod.workload), pod)
    asked = gates.GATES if question.chunk else gates.IN_LINE
    found = []
    for name, gate in asked.items():
        found.append(Gate(name, gate(question)))
        if found[-1].refusal is not None:
            break
    return tuple(found)


def _question(cycle: Cycle, team: Team, pod: Pod) -> gates.Question:
    """Of a pod with a place, as if it asked for itself again; else for the chunk that is next."""
    scratch, queue = cycle.scratch, team.workload.queue or ""
    if not scratch.active(pod):
        return cycle.question(team, starting_chunk(team, scratch.wants_place))
    accounts = cycle.accounts.copy_of([queue])
    held = scratch.claim(pod, scratch.place(pod).node)
    accounts.add(queue, NOTHING.minus(held), fixed=not team.workload.preemptible)
    return cycle.question(team, [pod])._replace(accounts=accounts)


def _queues(cycle: Cycle, pod: Pod) -> tuple[QueueStand, ...]:
    workload = cycle.snapshot.workloads.get(pod.workload)
    name = (workload and workload.queue) or ""
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


def _words(cycle: Cycle, pod: Pod, final: Final) -> Iterator[NodeWord]:
    """What each node says to a pod that is not done; the one where it ends has room for it."""
    if final.state in (FinalState.SUCCEEDED, FinalState.FAILED):
        return
    own = final.node if final.state in PLACED else ""
    for name in sorted(cycle.snapshot.fleet.nodes):
        cause = "" if name == own else node_cause(cycle, pod, name)
        yield NodeWord(node=name, cause=cause, free=max(0, cycle.scratch.rooms[name].later))
