"""The plan as a table for people: what starts, what moves and why, what waits and why, how the queues stand.

Pods that fare alike share a row. On a terminal the last column wraps; elsewhere every row is one line.
"""

from collections.abc import Callable, Iterable, Sequence
from textwrap import wrap
from typing import NamedTuple

from gpuyard.cli.events import Event, Kind, events, milligpus, workload_of
from gpuyard.engine.model import UNLIMITED
from gpuyard.engine.result import Outcome, QueueShare, Waiting
from gpuyard.engine.sentences import thousandths, told
from gpuyard.engine.snapshot import Snapshot

MOST_ROWS = 40
"""Rows of one section; what goes beyond is counted."""

_GAP = "  "
_NARROWEST = 24
"""Columns that a wrapped last column gets at least."""

Style = Callable[[str, str], str]
"""Paints a text in a colour; paints nothing where there are no colours."""


class Section(NamedTuple):
    """A heading, the names of the columns and the rows."""

    title: str
    colour: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def table(snapshot: Snapshot, outcome: Outcome, *, width: int | None, style: Style) -> str:
    """The whole table; `width` is that of the terminal, None where there is none."""
    happens = events(snapshot, outcome.cycles)
    sections = [
        _starts(snapshot, happens),
        _changes(happens),
        _promises(happens),
        _waits(snapshot, outcome),
        _queues(snapshot, outcome),
    ]
    blocks = [_summary(snapshot, happens, outcome)]
    blocks += [_drawn(section, width, style) for section in sections if section.rows]
    return "\n\n".join(blocks) + "\n"


def _summary(snapshot: Snapshot, happens: Iterable[Event], outcome: Outcome) -> str:
    counts = {kind: sum(len(e.pods) for e in happens if e.kind is kind) for kind in Kind}
    said = [
        f"{counts[Kind.START]} start",
        f"{counts[Kind.PROMISE]} promised a place",
        f"{counts[Kind.MOVE]} moved",
        f"{counts[Kind.EVICT]} evicted",
        f"{len(outcome.pending)} waiting",
    ]
    ran = len(outcome.cycles)
    cycles = "1 cycle" if ran == 1 else f"{ran} cycles"
    end = f"settled after {cycles}" if outcome.settled else f"not settled after {cycles}"
    return f"{len(snapshot.pods)} pods on {len(snapshot.fleet.nodes)} nodes: {', '.join(said)}; {end}"


def _starts(snapshot: Snapshot, happens: Iterable[Event]) -> Section:
    rows = [
        (_pods(e), thousandths(e.milligpus), e.target, _queue(snapshot, e.workload))
        for e in happens
        if e.kind is Kind.START
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
            pods[0] if len(pods) == 1 else f"{pods[0]} and {len(pods) - 1} more",
            thousandths(milligpus(snapshot, [snapshot.pods[p] for p in pods])),
            queue,
            reason,
        )
        for (queue, reason), pods in alike.items()
    ]
    return Section("WAITS", "yellow", ("PODS", "GPUS", "QUEUE", "WHY"), rows)


def _queues(snapshot: Snapshot, outcome: Outcome) -> Section:
    rows = [
        (_GAP * (len(snapshot.path(name)) - 1) + name, *_numbers(outcome.queues[name]))
        for name in _tree(snapshot)
        if name in outcome.queues
    ]
    return Section("QUEUES (GPUS)", "cyan", ("QUEUE", "FAIR SHARE", "QUOTA", "LIMIT", "IN USE", "ASKED FOR"), rows)


def _numbers(of: QueueShare) -> Iterable[str]:
    for amount in (of.fair_share, of.deserved, of.limit, of.allocated, of.requested):
        yield "unlimited" if amount.gpu == UNLIMITED else thousandths(amount.gpu)


def _tree(snapshot: Snapshot) -> list[str]:
    """The queues, each behind its parent."""
    return sorted(snapshot.queues, key=lambda name: snapshot.path(name)[::-1])


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


def _drawn(section: Section, width: int | None, style: Style) -> str:
    shown = section.rows[:MOST_ROWS]
    widths = [max(map(len, column)) for column in zip(section.columns, *shown, strict=True)]
    lines = [style(section.title, section.colour), _line(section.columns, widths)]
    lines += [line for row in shown for line in _wrapped(row, widths, width)]
    if len(section.rows) > MOST_ROWS:
        lines.append(f"{_GAP}… and {len(section.rows) - MOST_ROWS} rows more; -o json has all of them")
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return (_GAP + _GAP.join(text.ljust(w) for text, w in zip(row, widths, strict=True))).rstrip()


def _wrapped(row: Sequence[str], widths: Sequence[int], width: int | None) -> list[str]:
    """The row, its last column wrapped where the terminal is too narrow for it."""
    before = len(_GAP) + sum(w + len(_GAP) for w in widths[:-1])
    if width is None or before + len(row[-1]) <= width:
        return [_line(row, widths)]
    if width - before >= _NARROWEST:
        first, *rest = wrap(row[-1], width - before)
        return [_line((*row[:-1], first), widths), *(" " * before + line for line in rest)]
    return [_line((*row[:-1], ""), widths), *(_GAP * 3 + line for line in wrap(row[-1], max(width - 6, _NARROWEST)))]
