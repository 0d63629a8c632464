"""How one pod of a cluster stands: why it waits, since when, for what, kube-scheduler's last word, what would help."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from gpuyard.cli.answer import amounts
from gpuyard.cli.checks import cost, is_placed
from gpuyard.cli.drawing import Page, listed
from gpuyard.cli.events import workload_of
from gpuyard.cli.overview import ByResource, queue_of
from gpuyard.cli.trace import details
from gpuyard.engine.explain.pod import Explanation
from gpuyard.engine.explain.sentences import cause_in_words, is_ours, told
from gpuyard.engine.explain.suggestions import advice_in_words
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import ignore
from gpuyard.engine.kube.parts import without_effect
from gpuyard.engine.kube.pod_facts import pod_facts
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model import Pod, Promise, State
from gpuyard.engine.model.results import Bind, Clearing, Evict, Outcome, Reason, Waiting
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.promised_places import standing_places

Json = Mapping[str, Any]

_MINUTE = 60


class Word(msgspec.Struct, kw_only=True):
    """What kube-scheduler wrote into the pod's condition when it found no place."""

    reason: str
    message: str
    since: str


class Heard(msgspec.Struct, kw_only=True):
    """What the last Event says of why it waits."""

    reason: str
    message: str
    at: str


class Stand(msgspec.Struct, kw_only=True, rename="camel"):
    """A queue on the way up, in the units of a Queue."""

    queue: str
    fair_share: ByResource
    quota: ByResource
    limit: ByResource
    used: ByResource


class NodeAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What a node says to the pod; without a cause it fits."""

    node: str
    free_gpus: int
    cause: str


class Situation(msgspec.Struct, kw_only=True, rename="camel"):
    """All that there is to say of one pod."""

    pod: str
    queue: str
    """Empty: it is not governed."""
    state: str
    node: str
    since: str
    """Since when it waits, or since when it is there."""
    reason: str
    """From the closed list; empty where nothing of ours is in the way."""
    message: str
    without_effect: str
    """Which annotation takes no part of a GPU although it names one, and why; empty: there is none."""
    waits_for: list[str]
    kube_scheduler: Word | None
    heard: Heard | None = None
    """Only where nothing but the pod and its Events could be looked at; without a reason above it is history."""
    queues: list[Stand]
    nodes: list[NodeAnswer]
    advice: list[str]


def situation(raw: Json, snapshot: Snapshot, outcome: Outcome, explanation: Explanation) -> Situation:
    """How a pod stands, given its object as the API server has it, and what the engine says of it."""
    pod, word = explanation.pod, last_word(raw)
    waiting = (explanation.waiting or _clearing(snapshot, outcome, explanation)) if pod.waits else None
    return Situation(
        pod=pod.key,
        queue=queue_of(snapshot, pod),
        state="Gated" if pod.gated else str(pod.state),
        node=pod.node,
        since=word.since if word else raw["metadata"].get("creationTimestamp") or "",
        reason=str(waiting.reason) if waiting else "",
        message=told(waiting) if waiting else "",
        without_effect=part_without_effect(raw),
        waits_for=list(_waits_for(raw, snapshot, outcome, explanation)),
        kube_scheduler=word,
        queues=_stands(explanation),
        nodes=[NodeAnswer(node=w.node, free_gpus=w.free, cause=_cause(w.cause)) for w in explanation.nodes],
        advice=_advice(explanation, snapshot) or list(_beyond_us(explanation, outcome, waiting, word)),
    )


def part_without_effect(raw: Json) -> str:
    """The annotation by which a pod names a part of a GPU that does not count, and why it does not; empty: none."""
    seen = msgspec.json.decode(msgspec.json.encode(raw), type=objects.Pod)
    found = without_effect(seen, pod_facts(seen, ignore).pod)
    return f"the annotation {found[0]} {found[1]}" if found else ""


NOT_OURS = "gpuyard does not hold it back: if it goes on waiting, mend what kube-scheduler said last"

NOT_GOVERNED = (
    "no queue governs it, so gpuyard neither holds it back nor makes room for it: it runs once kube-scheduler finds"
    " room; the label kai.scheduler/queue would make it a pod of a queue"
)


def _advice(of: Explanation, snapshot: Snapshot) -> list[str]:
    return advice_in_words(of.advice, snapshot) if of.pod.waits and of.waiting and of.advice else []


def _beyond_us(of: Explanation, outcome: Outcome, waiting: Waiting | None, word: Word | None) -> Iterator[str]:
    """The advice for a pod that no gate is for, or that has a free place while kube-scheduler names another cause."""
    if of.pod.waits and waiting and not of.gates:
        yield NOT_GOVERNED
    elif of.pod.waits and waiting is None and _starts(outcome, of.pod) and word and not is_ours(word.message):
        yield NOT_OURS


def _clearing(snapshot: Snapshot, outcome: Outcome, of: Explanation) -> Waiting | None:
    """Why a pod waits although its place is known: a plan keeps it, or others have to go first."""
    pod, promise = of.pod, _promise(snapshot, of.pod)
    if of.waiting is not None:
        return None
    node = promise.node if promise else of.final.node
    going = {other.key for other in snapshot.on_node.get(node, ()) if other.deleted_at is not None}
    evicted = set(_evicted(snapshot, outcome, pod))
    # What a plan keeps may be short of something on other nodes: only with room for the pod now is there no more to do.
    settled = all if promise else any
    if not evicted and settled((_starts(outcome, pod), not going)):
        return None
    left = len(going | evicted)
    return Waiting(Reason.RECLAIM_IN_PROGRESS, Clearing(node=node, left=left, plan=promise.plan if promise else ""))


def _promise(snapshot: Snapshot, pod: Pod) -> Promise | None:
    """What a plan keeps for a pod: by its name, or as for the one that has come in the place of the pod named."""
    place = standing_places(snapshot)[0].get(pod.key)
    kept = [promise for promise in snapshot.promises if place is not None and promise.node == place.node]
    return next((one for one in kept if one.pod == pod.key or (one.owner and one.owner == pod.owner)), None)


def _evicted(snapshot: Snapshot, outcome: Outcome, pod: Pod) -> Iterator[str]:
    """Who makes room for a pod or for others of its workload."""
    own = workload_of(snapshot, pod.key)
    for cycle in outcome.cycles:
        for action in cycle.actions:
            if isinstance(action, Evict) and workload_of(snapshot, action.claimant) == own:
                yield action.pod


def _starts(outcome: Outcome, pod: Pod) -> bool:
    """Whether there is room for a pod now: later ones of the cycles see what has been freed by then."""
    return any(isinstance(action, Bind) and action.pod == pod.key for action in outcome.cycles[0].actions)


def last_word(raw: Json) -> Word | None:
    """What kube-scheduler said last, if it said no."""
    for condition in (raw.get("status") or {}).get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            reason, message, since = (condition.get(key) or "" for key in ("reason", "message", "lastTransitionTime"))
            return Word(reason=reason, message=message, since=since)
    return None


def _waits_for(raw: Json, snapshot: Snapshot, outcome: Outcome, of: Explanation) -> Iterator[str]:
    pod = of.pod
    if pod.state is not State.PENDING:
        return
    if pod.gated:
        gates = ", ".join(gate["name"] for gate in raw["spec"]["schedulingGates"])
        yield f"whoever removes its scheduling gates: {gates}"
        return
    if promise := _promise(snapshot, pod):
        yield f"plan {promise.plan}, which keeps room for it on {promise.node}"
    elif of.waiting is None and is_placed(outcome, pod.key):
        yield f"kube-scheduler: there is a place for it on {of.final.node}, {cost(snapshot, outcome, pod.key)}"


def _stands(of: Explanation) -> list[Stand]:
    return [
        Stand(
            queue=q.name,
            fair_share=amounts(q.fair_share),
            quota=amounts(q.quota),
            limit=amounts(q.limit),
            used=amounts(q.allocated),
        )
        for q in of.queues
    ]


def _cause(cause: str) -> str:
    return cause_in_words(cause) if cause else ""


def page_of(found: Situation, explanation: Explanation, snapshot: Snapshot, page: Page) -> str:
    """For people: how it stands, then the engine's own steps."""
    stands = listed(found.pod, "cyan", list(_lines(found, snapshot.now)), page)
    more = details(explanation, snapshot, page) if found.state == State.PENDING else []
    return "\n\n".join([stands, *more]) + "\n"


def glimpse_of(found: Situation, now: int, page: Page) -> str:
    """For people, where nothing but the pod itself could be looked at."""
    return listed(found.pod, "cyan", list(_lines(found, now, whole=False)), page) + "\n"


def _lines(found: Situation, now: int, *, whole: bool = True) -> Iterator[str]:
    where = f" on {found.node}" if found.node else ""
    yield f"{found.state}{where}{_since(found.since, now)}"
    if found.queue or whole:  # else its PodGroup may name one
        yield f"queue {found.queue}" if found.queue else "not governed: no queue of ours decides about it"
    yield from _why(found, now)
    for what in found.waits_for:
        yield f"it waits for {what}"
    if found.kube_scheduler:
        yield f"kube-scheduler said last: {found.kube_scheduler.reason}: {found.kube_scheduler.message}"
    elif found.state == State.PENDING:
        yield "kube-scheduler has not spoken of it: does one run that serves its schedulerName?"
    if not found.reason or NOT_GOVERNED in found.advice:  # else it stands behind the engine's steps
        yield from found.advice


def _why(found: Situation, now: int) -> Iterator[str]:
    if found.reason:
        as_told = f", as told {_ago(found.heard.at, now)} ago" if found.heard else ""
        yield f"it waits: {found.reason}: {found.message}{as_told}"
    elif found.heard:
        yield f"{_ago(found.heard.at, now)} ago it waited: {found.heard.reason}: {found.heard.message}"
    if found.without_effect:
        yield found.without_effect


def _since(since: str, now: int) -> str:
    if not since:
        return ""
    return f" since {since} ({_ago(since, now)})"


def _ago(at: str, now: int) -> str:
    minutes, seconds = divmod(max(0, now - moment(at)), _MINUTE)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
