"""Advice in words: what to change, from what to what, and at whose cost."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuyard.engine.explain.advice import Advice, Option
from gpuyard.engine.explain.changes import (
    HOSTNAME,
    PREEMPTIBLE_CLASS,
    AddNode,
    Change,
    Lapse,
    MakePreemptible,
    Raise,
    Relax,
    Shrink,
    SmallerGang,
    UseQueue,
    Wait,
    first_to_ask,
)
from gpuyard.engine.explain.sentences import amount, amounts, thousandths, told
from gpuyard.engine.kube.times import written
from gpuyard.engine.model import GPU, RESOURCES, Amounts, Labels, Node, Shape
from gpuyard.engine.model.results import Reason
from gpuyard.engine.model.snapshot import Snapshot

_NAMED = 8
"""Pods that pay for an option and are named; the others are counted."""


def suggestion(change: Change, snapshot: Snapshot) -> str:
    """What to do, as an instruction; `snapshot` is the one that the advice is about."""
    return _WORDS[type(change)](change, snapshot)


def option_in_words(option: Option, snapshot: Snapshot) -> str:
    """What to do, where the pod runs then, and who pays for it."""
    cost = "".join(
        f", {what} {_some(pods)}"
        for what, pods in (("evicts", option.evicted), ("moves", option.moved), ("goes before", option.displaced))
        if pods
    )
    also = f", and {suggestion(option.also, snapshot)}" if option.also is not None else ""
    return f"{suggestion(option.change, snapshot)}{also}: it would run on {option.node}{cost}"


def _some(pods: Sequence[str]) -> str:
    more = len(pods) - _NAMED
    return ", ".join(pods[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def advice_in_words(advice: Advice, snapshot: Snapshot) -> list[str]:
    """One line for each option; without any, one that names the causes which stand in the way together, and the pairs.

    Who is not governed at all is told what would change that: no trial of the engine can.
    """
    if advice.options:
        return [option_in_words(option, snapshot) for option in advice.options]
    first, *more = advice.causes
    if first.reason in _UNGOVERNED:
        return [_UNGOVERNED[first.reason]]
    causes = " and ".join(f"{cause.reason}: {told(cause)}" for cause in advice.causes)
    none = f"no single change helps: {causes}" + ("" if more else "; a second cause was not found")
    return [none, *(f"two together do: {option_in_words(pair, snapshot)}" for pair in advice.pairs)]


_UNGOVERNED: Mapping[Reason, str] = {
    Reason.OTHER_SCHEDULER: "set schedulerName to default-scheduler or kai-scheduler, so that it is governed",
    Reason.QUEUE_MISSING: "set the label kai.scheduler/queue to a queue's name, so that it is governed",
}
"""What makes a pod one of ours; whether it would run then is seen once it is."""


def _wait(change: Wait, _snapshot: Snapshot) -> str:
    return f"wait until {written(change.until)}"


def _lapse(change: Lapse, _snapshot: Snapshot) -> str:
    return f"wait until the promises of plan {change.plan} are kept or have ended"


def _use_queue(change: UseQueue, _snapshot: Snapshot) -> str:
    return f"set the label kai.scheduler/queue to {change.queue}"


_DEMANDS: Mapping[str, str] = {
    "selector": "drop {key} from the node selector",
    "taint": "tolerate the taint {key}",
    "affinity": "drop the required node affinity",
    "pod_affinity": "drop the required pod affinity",
    "pod_anti_affinity": "drop the required pod anti-affinity",
}


def _relax(change: Relax, _snapshot: Snapshot) -> str:
    return _DEMANDS[change.demand].format(key=change.key)


def _raise(change: Raise, snapshot: Snapshot) -> str:
    queue = snapshot.queues[change.queue]
    bound = (queue.limit if change.kind == "limit" else queue.quota)[RESOURCES.index(change.resource)]
    now, then = (amount(change.resource, n) for n in (bound, change.to))
    return f"raise the {change.kind} of queue {change.queue} from {now} to {then}"


def _smaller_gang(change: SmallerGang, _snapshot: Snapshot) -> str:
    return f"let the gang start with {change.to} of its pods (minMember)"


def _shrink(change: Shrink, _snapshot: Snapshot) -> str:
    return f"ask for at most {_REQUESTS[change.field](change.to)} in each pod"


_REQUESTS: Mapping[str, Callable[[int], str]] = {
    "gpus": lambda n: f"{n} GPU" if n == 1 else f"{n} GPUs",
    "fraction": lambda n: f"{thousandths(n)} of a GPU",
    "gpu_memory": lambda n: f"{n} MiB of GPU memory",
    "cpu": lambda n: amount("cpu", n),
    "memory": lambda n: amount("memory", n),
}


def _make_preemptible(_change: MakePreemptible, _snapshot: Snapshot) -> str:
    return f"use a preemptible priority class, as {PREEMPTIBLE_CLASS[0]}"


def _add_node(change: AddNode, snapshot: Snapshot) -> str:
    node, nodes = change.node(snapshot), snapshot.fleet.nodes.values()
    has = Amounts(
        gpu=node.gpus * GPU,
        cpu=node.cpu if all(node.cpu > other.cpu for other in nodes) else 0,
        memory=node.memory if all(node.memory > other.memory for other in nodes) else 0,
    )
    labels = _labels_needed(node, first_to_ask(snapshot, change.workload).shape)
    named = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return f"add a node with {amounts(has)}" + (f", labelled {named}" if named else "")


def _labels_needed(node: Node, shape: Shape) -> Labels:
    """The labels of a new node that the pod looks at; its name is its own affair."""
    keys = {key for key, _ in shape.selector}
    keys |= {requirement.key for term in shape.affinity for requirement in term.labels}
    keys |= {term.topology_key for term in (*shape.pod_affinity, *shape.pod_anti_affinity) if not term.weight}
    known = {"nvidia.com/gpu.memory": str(node.gpu_memory)} if shape.gpu_memory else {}
    return known | {key: node.labels[key] for key in keys - {HOSTNAME} if key in node.labels}


_WORDS: Mapping[type, Callable[[Any, Snapshot], str]] = {
    Wait: _wait,
    Lapse: _lapse,
    UseQueue: _use_queue,
    Relax: _relax,
    Raise: _raise,
    SmallerGang: _smaller_gang,
    Shrink: _shrink,
    MakePreemptible: _make_preemptible,
    AddNode: _add_node,
}
