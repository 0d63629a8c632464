"""`--check`: does this pod end up placed, and at whose cost?"""

from collections.abc import Mapping, Sequence

from gpuyard.cli.events import Kind, events, workload_of
from gpuyard.engine.explain.advice import PLACED
from gpuyard.engine.explain.sentences import told
from gpuyard.engine.model.results import FinalState, Outcome
from gpuyard.engine.model.snapshot import Snapshot

SERVED = PLACED | {FinalState.SUCCEEDED}
"""Who has ended well had its place."""


def is_placed(outcome: Outcome, pod: str) -> bool:
    """Whether a pod of the input has a place in the end."""
    return outcome.final[pod].state in SERVED


def verdicts(snapshot: Snapshot, outcome: Outcome, asked: Mapping[str, Sequence[str]]) -> list[str]:
    """The answer for each that was asked for, a pod or several, in a sentence."""
    return [_verdict(snapshot, outcome, text, pods) for text, pods in asked.items()]


def _verdict(snapshot: Snapshot, outcome: Outcome, text: str, pods: Sequence[str]) -> str:
    final = outcome.final
    waiting = [pod for pod in pods if not is_placed(outcome, pod)]
    if waiting:
        placed = len(pods) - len(waiting)
        some = f"{placed} of the {len(pods)} pods of {text} have places; " if len(pods) > 1 else ""
        return f"no: {some}{waiting[0]} has no place{_why(outcome, waiting[0])}"
    if len(pods) == 1:
        return f"yes: {pods[0]} has a place on {final[pods[0]].node}, {cost(snapshot, outcome, *pods)}"
    nodes = ", ".join(sorted({final[pod].node for pod in pods}))
    return f"yes: all {len(pods)} pods of {text} have places, on {nodes}, {cost(snapshot, outcome, *pods)}"


def _why(outcome: Outcome, pod: str) -> str:
    found = outcome.pending.get(pod)
    return f": {found.reason}: {told(found)}" if found else f", it is {outcome.final[pod].state}"


def cost(snapshot: Snapshot, outcome: Outcome, *pods: str) -> str:
    """Who pays for the places of some pods."""
    own = {workload_of(snapshot, pod) for pod in pods}
    for_it = [e for e in events(snapshot, outcome.cycles) if e.claimant in own]
    parts = []
    for kind, what in ((Kind.EVICT, "evicting"), (Kind.MOVE, "moving")):
        if lose := [p for e in for_it if e.kind is kind for p in e.pods]:
            parts.append(f"{what} {', '.join(lose)}")
    return " and ".join(parts) or "at nobody's cost"
