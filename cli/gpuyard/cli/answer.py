"""The engine's outcome as the document that `gpuyard plan` prints, in the units of a Queue."""

from collections.abc import Mapping, Sequence

from gpuyard.engine.explain import sentences
from gpuyard.engine.model import UNLIMITED, Amounts
from gpuyard.engine.model.results import Action, Bind, Evict, Final, FinalState, Outcome, QueueShare

Json = dict[str, object]

_UNITS = (1000, 1, 1_000_000)
"""What the engine counts in one GPU, millicore and 10^6 bytes."""


def answer(outcome: Outcome) -> Json:
    """The document that `-o json` prints."""
    return {
        "settled": outcome.settled,
        "cycles": [{"actions": [_action(a) for a in cycle.actions]} for cycle in outcome.cycles],
        "final": {pod: _final(f) for pod, f in outcome.final.items()},
        "pending": {pod: {"reason": str(w.reason), "message": sentences.told(w)} for pod, w in outcome.pending.items()},
        "queues": {name: _queue(q) for name, q in outcome.queues.items()},
    }


def number(amount: int, unit: int) -> int | float:
    """An amount in the unit of a Queue; a whole number where it is one."""
    if amount == UNLIMITED:
        return UNLIMITED
    return amount // unit if amount % unit == 0 else amount / unit


def amounts(of: Amounts) -> Mapping[str, int | float]:
    """Amounts by resource, in the units of a Queue."""
    return {name: number(a, unit) for name, a, unit in zip(Amounts._fields, of, _UNITS, strict=True)}


def _action(action: Action) -> Json:
    if isinstance(action, Bind):
        return {"do": "bind", "pod": action.pod, "node": action.node} | _devices(action.gpus, action.groups)
    if isinstance(action, Evict):
        made: Json = {"do": "evict", "pod": action.pod, "node": action.node, "phase": action.phase}
        made |= {"for": action.claimant} if action.claimant else {}
        return made | {"reason": sentences.eviction(action)}
    made = {"do": "nominate", "pod": action.pod, "node": action.node, "phase": action.phase}
    return made | _devices((), action.groups)


def _final(final: Final) -> Json:
    where: Json = {"node": final.node} if final.node and final.state is not FinalState.PENDING else {}
    return {"state": str(final.state)} | where | _devices(final.gpus, final.groups)


def _devices(gpus: Sequence[int], groups: Sequence[str]) -> Json:
    made: Json = {"gpus": [str(n) for n in gpus]} if gpus else {}
    return made | ({"gpuGroup": ",".join(groups)} if groups else {})


def _queue(queue: QueueShare) -> Json:
    return {
        "fairShare": amounts(queue.fair_share),
        "allocated": amounts(queue.allocated),
        "requested": amounts(queue.requested),
        "deserved": amounts(queue.deserved),
    }
