"""The engine's facts in words, for people: a constant sentence for each cause, and the numbers to it.

`sentence` goes to kube-scheduler and into the pod's condition. It names causes and configured values only, so the same
cause gives the same bytes every time. `told` adds the live numbers, for the command line, events and the web page.

Users choose the names of queues, workloads and schedulers, and a sentence is repeated for every node of a cluster. So
`shortened` cuts long names, and every text has a longest length.

Decided in docs/decisions.md: "Long names are cut where sentences are made".
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from gpuyard.engine.kube.times import written
from gpuyard.engine.model import GPU, MOST_LEVELS, UNLIMITED, Amounts
from gpuyard.engine.model.results import (
    Bound,
    Clearing,
    Evict,
    Facts,
    Foreign,
    Gap,
    Kept,
    NodeCounts,
    NoQueue,
    Protected,
    Reason,
    Share,
    Standing,
    Until,
    Verdict,
    Waiting,
)

MEGABYTE = 1_000_000

LONGEST_NAME = 128
"""The most characters of a name in a sentence; two such names fit into every sentence."""

LONGEST_SENTENCE = 512
"""The most characters of a sentence that is repeated for every node."""

LONGEST_TEXT = 1024
"""The most characters of a text that is told once: an Event, a condition, a message in a status."""

_CAUSES: Mapping[str, str] = {
    "gpus": "too few free GPUs",
    "cpu": "too little free CPU",
    "memory": "too little free memory",
    "pods": "no room for another pod",
    "selector": "not chosen by the pod's node selector or affinity",
    "taint": "a taint that the pod does not tolerate",
    "affinity": "the pod's affinity to other pods",
    "not-ready": "not ready",
    "cordoned": "cordoned",
    "dip": "reporting fewer GPUs than a moment ago",
    "gpu-memory": "not labelled nvidia.com/gpu.memory, which requests in GPU memory need",
    "not-offered": "not offered by kube-scheduler",
}


def sentence(waiting: Waiting) -> str:
    """Why a pod waits, in a sentence that stays the same while the cause does."""
    if waiting.facts is None:
        return _BARE[waiting.reason]
    text = _CONSTANT[type(waiting.facts)](_with_short_names(waiting.facts), waiting.reason)
    return shortened(text, LONGEST_SENTENCE)


def shortened(text: str, longest: int = LONGEST_NAME) -> str:
    """A name, or with another limit any text, cut at the same place each time if it is too long."""
    return text if len(text) <= longest else text[: longest - len(_CUT)] + _CUT


def _with_short_names(facts: Facts) -> Facts:
    texts = ((field, getattr(facts, field)) for field in facts.__struct_fields__)
    long = {field: shortened(text) for field, text in texts if isinstance(text, str) and len(text) > LONGEST_NAME}
    return msgspec.structs.replace(facts, **long) if long else facts


def is_ours(word: str) -> bool:
    """Whether a word of kube-scheduler passes on what we said, or that we could not be heard."""
    return any(mark in word for mark in _MARKS)


def told(waiting: Waiting) -> str:
    """Why a pod waits, with the numbers of this moment."""
    numbers = _numbers(waiting.facts)
    return shortened(f"{sentence(waiting)} ({numbers})" if numbers else sentence(waiting), LONGEST_TEXT)


def eviction(evicted: Evict) -> str:
    """Why a pod loses its place: in which phase, for whom, and how both queues stand."""
    for_whom = f"{evicted.phase} for {shortened(evicted.claimant)}" if evicted.claimant else _STALE
    sides = evicted.account
    told_of = [standing(s) for s in (sides.claimant, sides.victim) if s is not None] if sides else []
    return shortened("; ".join([for_whom, *dict.fromkeys(told_of)]), LONGEST_TEXT)


def standing(of: Standing) -> str:
    """A queue's numbers in GPUs."""
    has, quota, fair = (amount("gpu", a.gpu) for a in (of.allocated, of.quota, of.fair_share))
    return f"queue {shortened(of.queue)}: allocated {has}, quota {quota}, fair share {fair}, priority {of.priority}"


def amount(resource: str, value: int) -> str:
    """An amount with its unit: `2.5 GPUs`, `500m CPU`, `64 MB of memory`."""
    if value == UNLIMITED:
        return "unlimited"
    if resource == "gpu":
        text = thousandths(value)
        return f"{text} GPU" if text == "1" else f"{text} GPUs"
    if resource == "cpu":
        return f"{value}m CPU"
    return f"{-(-value // MEGABYTE)} MB of memory"


def amounts(of: Amounts) -> str:
    """What is not zero of some amounts."""
    return ", ".join(amount(r, v) for r, v in zip(Amounts._fields, of, strict=True) if v) or "nothing"


def thousandths(value: int) -> str:
    """A number of thousandths as a decimal: 2500 is `2.5`."""
    whole, part = divmod(value, GPU)
    return f"{whole}.{part:03}".rstrip("0").rstrip(".") if part else str(whole)


def counted(number: int, thing: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def cause_in_words(cause: str) -> str:
    """Why one node does not take a pod."""
    return _CAUSES[cause]


def nodes_by_cause(causes: Mapping[str, int]) -> str:
    """How many nodes fail for which cause, the most frequent first."""
    return ", ".join(
        f"{n} {_CAUSES.get(cause, cause)}" for cause, n in sorted(causes.items(), key=lambda x: (-x[1], x[0]))
    )


_CUT = "..."
_STALE = "evict-stale: its gang has been below its minimum for too long"

_BARE: Mapping[Reason, str] = {
    Reason.OVER_LIMIT: "a limit of the queue would be passed",
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: "a quota of the queue would be passed by what is not preemptible",
    Reason.QUEUE_DOES_NOT_EXIST: "its queue does not exist",
    Reason.PREEMPTION_DELAY: "its preemption delay has not passed",
    Reason.NO_NODE_FITS: "no node fits",
    Reason.QUEUE_MISSING: "it names no queue and is not governed: set the label kai.scheduler/queue",
    Reason.OTHER_SCHEDULER: "another scheduler is to place it",
    Reason.NAMESPACE_MISMATCH: "its namespace is not that of its queue",
    Reason.GANG_INCOMPLETE: "too few pods of its gang exist",
    Reason.GANG_DOES_NOT_FIT: "its gang does not fit as a whole",
    Reason.FRAGMENTED: "enough GPUs are free in sum, but not on one node",
    Reason.RECLAIM_NOT_ALLOWED: "its queue may not take more from others",
    Reason.PROTECTED_BY_MIN_RUNTIME: "those that it could replace are protected by a minimum runtime",
    Reason.PROTECTED_BY_BUDGET: "those that it could replace are protected by a disruption budget",
    Reason.PROMISED_TO_OTHER: "the room is promised to others",
    Reason.OUTRANKED: "others rank before it",
    Reason.RECLAIM_IN_PROGRESS: "room is being made for it",
    Reason.REFUSED_BY_SCHEDULER: "kube-scheduler does not offer the node that it was promised",
}


_MARKS = (
    *_BARE.values(),
    "is not set, which counts as 0",
    "has a limit of",
    "has a quota of",
    "there is no queue",
    "has queues below it",
    "hangs below",
    "hangs on no root",
    "hangs too deep",
    "which is not served here",
    "but its namespace belongs",
    "the gang needs",
    "are protected by the minimum runtime",
    "the room is promised to",
    "ranks before it",
    "kube-scheduler does not offer",
    "kube-scheduler offers it no node",
    "gpuyard cannot",
    "gpuyard has",
    "gpuyard is",
    "extender",
)
"""What each sentence holds whatever its names are, and what is said while there is no answer; a test knows them all."""


def _bound(facts: Bound, reason: Reason) -> str:
    if facts.unset:
        return (
            f"queue {facts.queue}: its {facts.resource} {facts.kind} is not set, which counts as 0;"
            f" set spec.resources.{facts.resource}.{facts.kind}, -1 for unlimited"
        )
    bound = f"queue {facts.queue} has a {facts.kind} of {amount(facts.resource, facts.bound)}"
    if reason is Reason.NON_PREEMPTIBLE_OVER_QUOTA:
        return f"{bound}, which what is not preemptible cannot pass; a preemptible priority class (below 100) may"
    return bound


def _no_queue(facts: NoQueue, _reason: Reason) -> str:
    if facts.why == "absent":
        return _BARE[Reason.QUEUE_MISSING]
    if facts.why == "not a leaf":
        return f"queue {facts.label} has queues below it: pods go into one of those"
    if facts.why == "orphan":
        return f"queue {facts.label} hangs below {facts.parent}, which does not exist"
    if facts.why == "circle":
        return f"queue {facts.label} hangs on no root: by its parents queue {facts.parent} is its own ancestor"
    if facts.why == "too deep":
        return f"queue {facts.label} hangs too deep: more than {MOST_LEVELS} queues one below the other"
    hint = f"; did you mean {facts.nearest}?" if facts.nearest else ""
    return f"there is no queue {facts.label}{hint}"


def _foreign(facts: Foreign, reason: Reason) -> str:
    if reason is Reason.OTHER_SCHEDULER:
        return f"schedulerName is {facts.found}, which is not served here; use default-scheduler or kai-scheduler"
    wanted = f"to queue {facts.wanted}" if facts.wanted else "to no queue"
    return f"the pod names queue {facts.found}, but its namespace belongs {wanted}"


def _gap(facts: Gap, reason: Reason) -> str:
    part = f" in part {facts.part}" if facts.part else ""
    if reason is Reason.GANG_INCOMPLETE:
        return f"the gang needs {counted(facts.needed, 'pod')}{part} to start, and not so many exist"
    short = f", and part {facts.part} does not find it" if facts.part else ""
    return f"the gang needs room for {counted(facts.needed, 'pod')} at once{short}"


def _share(facts: Share, _reason: Reason) -> str:
    return (
        f"queue {facts.queue} has a quota of {amount(facts.resource, facts.quota)}"
        " and may not take more than its fair share from others"
    )


def _until(facts: Until, reason: Reason) -> str:
    if reason is Reason.PREEMPTION_DELAY:
        return f"{_BARE[reason]}: nobody is evicted for it before {written(facts.until)}"
    whose = f" of queue {facts.who}" if facts.who else ""
    return f"those that it could replace are protected by the minimum runtime{whose} until {written(facts.until)}"


def _protected(facts: Protected, reason: Reason) -> str:
    return f"{_BARE[reason]}: {_listed(facts.budgets)}"


def _kept(facts: Kept, reason: Reason) -> str:
    whom = facts.workload or (f"queue {facts.queue}" if facts.queue else "")
    if reason is Reason.PROMISED_TO_OTHER:
        return f"the room is promised to {whom or 'others'}"
    if reason is Reason.OUTRANKED:
        return f"{whom} ranks before it" if whom else _BARE[reason]
    return f"kube-scheduler does not offer {facts.node}, the node that it was promised; see the pod's own events"


def _clearing(facts: Clearing, _reason: Reason) -> str:
    plan = f" by plan {facts.plan}" if facts.plan else ""
    return f"room is being made for it on {facts.node}{plan}"


_CONSTANT: Mapping[type, Callable[..., str]] = {
    Bound: _bound,
    NoQueue: _no_queue,
    Foreign: _foreign,
    Gap: _gap,
    NodeCounts: lambda _facts, reason: _BARE[reason],
    Share: _share,
    Until: _until,
    Protected: _protected,
    Kept: _kept,
    Verdict: lambda _facts, _reason: "kube-scheduler offers it no node, and no eviction would change that",
    Clearing: _clearing,
}


def _numbers(facts: Facts | None) -> str:
    return _NUMBERS[type(facts)](facts) if type(facts) in _NUMBERS else ""


def _bound_numbers(facts: Bound) -> str:
    return f"{amount(facts.resource, facts.used)} in use, {amount(facts.resource, facts.asked)} asked for"


def _gap_numbers(facts: Gap) -> str:
    gated = f"; {counted(facts.gated, 'pod')} held back by spec.schedulingGates" if facts.gated else ""
    nodes = f"; nodes: {nodes_by_cause(facts.causes)}" if facts.causes else ""
    return f"found {facts.found} of {facts.needed}{gated}{nodes}"


def _node_numbers(facts: NodeCounts) -> str:
    parts = [f"{amount('gpu', facts.asked)} asked for"] if facts.asked else []
    if facts.free:
        parts.append(f"{thousandths(facts.free)} free in sum, at most {thousandths(facts.largest)} on one node")
    if facts.causes:
        parts.append(f"nodes: {nodes_by_cause(facts.causes)}")
    return "; ".join(parts)


def _share_numbers(facts: Share) -> str:
    fair, has, asked = (amount(facts.resource, x) for x in (facts.fair_share, facts.allocated, facts.asked))
    return f"fair share {fair}, {has} in use, {asked} asked for"


_NUMBERS: Mapping[type, Callable[..., str]] = {
    Bound: _bound_numbers,
    Gap: _gap_numbers,
    NodeCounts: _node_numbers,
    Share: _share_numbers,
    Verdict: lambda facts: facts.said.rstrip("."),
    Clearing: lambda facts: f"{counted(facts.left, 'pod')} still to go",
}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(shortened, names))
