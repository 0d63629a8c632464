"""`--check`: does this pod end up placed, and at whose cost?"""

from collections.abc import Iterable

from gpuyard.cli.events import Kind, events, workload_of
from gpuyard.engine.result import FinalState, Outcome
from gpuyard.engine.sentences import told
from gpuyard.engine.snapshot import Snapshot

PLACED = frozenset({FinalState.RUNNING, FinalState.BOUND, FinalState.NOMINATED, FinalState.SUCCEEDED})


def is_placed(outcome: Outcome, pod: str) -> bool:
    """Whether a pod of the input has a place in the end."""
    return outcome.final[pod].state in PLACED


def verdicts(snapshot: Snapshot, outcome: Outcome, pods: Iterable[str]) -> list[str]:
    """The answer for each pod, in a sentence."""
    return [_verdict(snapshot, outcome, pod) for pod in pods]


def _verdict(snapshot: Snapshot, outcome: Outcome, pod: str) -> str:
    final = outcome.final[pod]
    if is_placed(outcome, pod):
        return f"yes: {pod} has a place on {final.node}, {cost(snapshot, outcome, pod)}"
    waiting = outcome.pending.get(pod)
    why = f": {waiting.reason}: {told(waiting)}" if waiting else f", it is {final.state}"
    return f"no: {pod} has no place{why}"


def cost(snapshot: Snapshot, outcome: Outcome, pod: str) -> str:
    """Who pays for a pod's place."""
    own = workload_of(snapshot, pod)
    for_it = [e for e in events(snapshot, outcome.cycles) if e.claimant == own]
    parts = []
    for kind, what in ((Kind.EVICT, "evicting"), (Kind.MOVE, "moving")):
        if pods := [p for e in for_it if e.kind is kind for p in e.pods]:
            parts.append(f"{what} {', '.join(pods)}")
    return " and ".join(parts) or "at nobody's cost"
