"""The plan as a table for people: what starts, what moves and why, what waits and why, how the queues stand.

Pods that fare alike share a row. On a terminal the last column wraps; elsewhere every row is one line.

Decided in docs/decisions.md: "The table tries advice only on small snapshots".
"""

from collections.abc import Iterable, Mapping, Sequence

from gpuyard.cli.deadline import Deadline, TooLong
from gpuyard.cli.drawing import GAP, Page, Section, drawn, listed
from gpuyard.cli.events import Event, Kind, events, milligpus, workload_of
from gpuyard.engine.explain.advice import advise
from gpuyard.engine.explain.sentences import counted, thousandths, told
from gpuyard.engine.explain.suggestions import advice_in_words
from gpuyard.engine.model import UNLIMITED
from gpuyard.engine.model.results import Outcome, QueueShare, Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot

_COUNTED: Mapping[Kind, str] = {
    Kind.START: "start",
    Kind.PROMISE: "promised a place",
    Kind.MOVE: "moved",
    Kind.EVICT: "evicted",
}
_ADVISED = 3
"""Rows of waiting pods for which the table looks for what would help."""

_QUICK = 300
"""Pods up to which it does: every piece of advice is tried on the whole snapshot."""


def table(snapshot: Snapshot, settings: Settings, outcome: Outcome, page: Page, deadline: Deadline) -> str:
    """The whole table; what would help is looked for until the deadline."""
    happens = events(snapshot, outcome.cycles)
    sections = [
        _starts(snapshot, happens),
        _changes(happens),
        _promises(happens),
        _waits(snapshot, outcome),
        _queues(snapshot, outcome),
    ]
    blocks = [_summary(snapshot, happens, outcome)]
    blocks += [drawn(section, page) for section in sections if section.rows]
    if helps := _help(snapshot, settings, outcome, deadline):
        blocks.insert(-1, listed("WHAT WOULD HELP", "cyan", helps, page))
    return "\n\n".join(blocks) + "\n"


def _summary(snapshot: Snapshot, happens: Iterable[Event], outcome: Outcome) -> str:
    counts = {kind: sum(len(e.pods) for e in happens if e.kind is kind) for kind in Kind}
    said = [f"{count} {_COUNTED[kind]}" for kind, count in counts.items() if count]
    said += [f"{len(outcome.pending)} waiting"] if outcome.pending else []
    ran = len(outcome.cycles)
    cycles = "1 cycle" if ran == 1 else f"{ran} cycles"
    end = f"settled after {cycles}" if outcome.settled else f"not settled after {cycles}"
    size = f"{counted(len(snapshot.pods), 'pod')} on {counted(len(snapshot.fleet.nodes), 'node')}"
    return f"{size}: {', '.join(said) or 'nothing to do'}; {end}"


def _starts(snapshot: Snapshot, happens: Iterable[Event]) -> Section:
    alike: dict[tuple[str, ...], list[Event]] = {}
    for event in happens:
        if event.kind is Kind.START:
            owner = snapshot.pods[event.pods[0]].owner or event.workload
            alike.setdefault((event.target, _queue(snapshot, event.workload), owner), []).append(event)
    rows = [
        (_several([_pods(e) for e in those]), thousandths(sum(e.milligpus for e in those)), node, queue)
        for (node, queue, _), those in alike.items()
    ]
    return Section("STARTS", "green", ("PODS", "GPUS", "NODE", "QUEUE"), rows)


def _changes(happens: Iterable[Event]) -> Section:
    rows = [
        (_pods(e), thousandths(e.milligpus), e.source, e.target or "its queue", _why(e))
        for e in happens
        if e.kind in {Kind.MOVE, Kind.EVICT}
    ]
    return Section("LOSES ITS PLACE", "red", ("PODS", "GPUS", "FROM", "TO", "WHY"), rows)


def _promises(happens: Sequence[Event]) -> Section:
    rows = [
        (_pods(e), thousandths(e.milligpus), e.target, _after(e, happens)) for e in happens if e.kind is Kind.PROMISE
    ]
    return Section("IS PROMISED A PLACE", "yellow", ("PODS", "GPUS", "NODE", "AS SOON AS"), rows)


def _waits(snapshot: Snapshot, outcome: Outcome) -> Section:
    alike: dict[tuple[str, str], list[str]] = {}
    for pod, waiting in outcome.pending.items():
        alike.setdefault((_queue(snapshot, workload_of(snapshot, pod)), _reason(waiting)), []).append(pod)
    rows = [
        (
            _several(pods),
            thousandths(milligpus(snapshot, [snapshot.pods[p] for p in pods])),
            queue,
            reason,
        )
        for (queue, reason), pods in alike.items()
    ]
    return Section("WAITS", "yellow", ("PODS", "GPUS", "QUEUE", "WHY"), rows)


def _help(snapshot: Snapshot, settings: Settings, outcome: Outcome, deadline: Deadline) -> list[str]:
    """What would let the first of each row of waiting pods run, as far as it can be found quickly."""
    first: dict[tuple[str, str], str] = {}
    for pod, waiting in outcome.pending.items():
        first.setdefault((_queue(snapshot, workload_of(snapshot, pod)), _reason(waiting)), pod)
    pods = list(first.values())
    shown = pods[:_ADVISED] if len(snapshot.pods) <= _QUICK else []
    lines: list[str] = []
    try:
        for pod in shown:
            if (advice := advise(snapshot, settings, pod, outcome, watch=deadline)) is not None:
                lines += [f"{pod}: {line}" for line in advice_in_words(advice, snapshot)]
    except TooLong:
        return [*lines, f"not found in time; ask by gpuyard plan --explain {pod}, with more --timeout"]
    more = [f"more by gpuyard plan --explain POD, as {pods[len(shown)]}"] if len(pods) > len(shown) else []
    return lines + more


def _queues(snapshot: Snapshot, outcome: Outcome) -> Section:
    rows = [
        (GAP * (len(snapshot.path(name)) - 1) + name, *_numbers(outcome.queues[name]))
        for name in _tree(snapshot)
        if name in outcome.queues
    ]
    return Section(
        "QUEUES (GPUS, AT THE START)", "cyan", ("QUEUE", "FAIR SHARE", "QUOTA", "LIMIT", "IN USE", "ASKED FOR"), rows
    )


def _numbers(of: QueueShare) -> Iterable[str]:
    for amount in (of.fair_share, of.deserved, of.limit, of.allocated, of.requested):
        yield "unlimited" if amount.gpu == UNLIMITED else thousandths(amount.gpu)


def _tree(snapshot: Snapshot) -> list[str]:
    """The queues, each behind its parent."""
    return sorted(snapshot.queues, key=lambda name: snapshot.path(name)[::-1])


def _several(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _pods(event: Event) -> str:
    return event.pods[0] if len(event.pods) == 1 else f"{event.workload} ({len(event.pods)} pods)"


def _queue(snapshot: Snapshot, workload: str) -> str:
    found = snapshot.workloads.get(workload)
    return (found.queue if found else "") or "-"


def _why(event: Event) -> str:
    return f"{event.phase} for {event.claimant}" if event.claimant else event.phase


def _after(event: Event, happens: Iterable[Event]) -> str:
    leaving = [e.workload for e in happens if e.source == event.target and e.cycle == event.cycle]
    return f"{', '.join(dict.fromkeys(leaving))} has left" if leaving else "its room is free"


def _reason(waiting: Waiting) -> str:
    return f"{waiting.reason}: {told(waiting)}"
