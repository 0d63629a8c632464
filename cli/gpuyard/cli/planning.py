"""What `gpuyard plan` does: read, decide, print, and say by the exit code how it went."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, get_args

import click
import msgspec
from gpuyard.cli.asked import Unknown
from gpuyard.cli.checks import is_placed
from gpuyard.cli.deadline import Deadline, TooLong
from gpuyard.cli.output import PRINTERS, Planned, faulty
from gpuyard.cli.reading import Read, read
from gpuyard.engine.explain.pod import Explanation, explain
from gpuyard.engine.kube.faults import Fault, Unreadable
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model import SCALE
from gpuyard.engine.model.results import Outcome
from gpuyard.engine.model.settings import LIVE_KEYS, NO_HISTORY, PHASES, REMOVED, Phase, SettingError, Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.settle import settle
from msgspec.structs import replace

if TYPE_CHECKING:
    from gpuyard.cli.looking import Look

DONE, NO, BAD_INPUT = 0, 1, 2


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be planned with, and what is to be known of it."""

    settings: Settings
    now: int | None
    output: str
    checks: tuple[str, ...]
    explain: str | None
    timeout: int
    live: tuple[str, bytes] | None = None
    """The cluster's objects, where they are to be planned with."""
    namespace: str = ""
    """Of what names none; empty: `default`."""
    said: bool = False
    """Whether somebody said it, and it is not the context's."""


def run(  # noqa: PLR0913 - the options of the command
    *,
    paths: Sequence[str],
    each: str | None,
    phases: str,
    cycles: int,
    now: str | None,
    placement: str | None,
    pairs: Sequence[str],
    output: str,
    checks: tuple[str, ...],
    explain: str | None,
    timeout: int,
    live: bool,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> int:
    """Carry the command out; the exit code."""
    if (bool(paths) or live) == (each is not None):
        raise click.UsageError("say what to read: -f PATH (repeatable), --live, or --each DIR")
    if explain is not None and (each is not None or output == "story"):
        raise click.UsageError("--explain is about one snapshot, and no story: without --each and -o story")
    phases_run = _phases(phases)
    cluster = _look(kubeconfig, context) if live else None
    settings = replace(cluster.settings if cluster else Settings(), phases=phases_run, cycles=cycles)
    if placement is not None:
        settings = _with_text(settings, "placement", placement, "--")
    asked = Request(
        settings=_with_pairs(settings, pairs),
        now=int(time()) if live and now is None else _now(now),
        output=output,
        checks=checks,
        explain=explain,
        timeout=timeout,
        live=cluster.document if cluster else None,
        namespace=namespace or (cluster.namespace if cluster else ""),
        said=bool(namespace),
    )
    return _one(asked, paths) if each is None else _each(asked, each)


def _look(kubeconfig: str, context: str) -> "Look":
    """The live cluster. The modules that reach it cost what a plan from files need not pay."""
    from gpuyard.cli.looking import look  # noqa: PLC0415

    return look(kubeconfig, context)


def _one(asked: Request, paths: Sequence[str]) -> int:
    try:
        planned = _planned(asked, paths, "")
    except Unreadable as unreadable:
        click.echo(str(unreadable), err=True)
        return BAD_INPUT
    click.echo(PRINTERS[asked.output](planned), nl=False)
    if _weighs_nothing(planned):
        click.echo(f"warning: {NO_HISTORY}", err=True)
    return _checked(planned)


def _each(asked: Request, folder: str) -> int:
    """Every file as a snapshot of its own: one that cannot be read does not keep the others from being answered."""
    try:
        snapshots = sorted((p for p in Path(folder).iterdir() if p.is_file()), key=lambda p: p.name)
    except OSError as error:
        raise click.UsageError(f"--each {folder}: {(error.strerror or str(error)).lower()}") from None
    codes, weighs_nothing = {DONE}, False
    for path in snapshots:
        try:
            planned = _planned(asked, [str(path)], path.name)
        except Unreadable as unreadable:
            click.echo(faulty(asked.output, path.name, unreadable.faults), nl=False)
            codes.add(BAD_INPUT)
        else:
            click.echo(PRINTERS[asked.output](planned), nl=False)
            codes.add(_checked(planned))
            weighs_nothing |= _weighs_nothing(planned)
    if weighs_nothing:
        click.echo(f"warning: {NO_HISTORY}", err=True)
    return max(codes)


def _weighs_nothing(planned: Planned) -> bool:
    """Whether past use is to count for more or less than by default, and none is known."""
    return planned.settings.fairshare_k != SCALE and not planned.before.history


def _planned(asked: Request, paths: Sequence[str], name: str) -> Planned:
    snapshot, notes, pods = _read(asked, paths, name)
    for note in notes:
        click.echo(f"{name}: {note}" if name else note, err=True)
    deadline = Deadline(asked.timeout)
    try:
        outcome = settle(snapshot, asked.settings, deadline)
        told = _explained(asked, snapshot, outcome, pods, deadline) if asked.explain else None
    except TooLong as over:
        raise Unreadable([Fault(name or ", ".join(paths) or "--live", "", "", str(over))]) from None
    checks = {text: pods[text] for text in asked.checks}
    return Planned(name, snapshot, asked.settings, outcome, deadline, checks, told)


def _read(asked: Request, paths: Sequence[str], name: str) -> Read:
    """Read one snapshot; of many one without the pods that are asked about is a fault of its own."""
    wanted = (*asked.checks, asked.explain) if asked.explain else asked.checks
    try:
        there = asked.namespace
        return read(paths, asked.settings, asked.now, asked.live, namespace=there, said=asked.said, asked=wanted)
    except Unknown as unknown:
        option = "--check" if unknown.text in asked.checks else "--explain"
        if name:
            raise Unreadable([Fault(name, f"{option} {unknown.text}", "", str(unknown))]) from None
        raise click.UsageError(f"{option} {unknown.text}: {unknown}") from None


def _explained(
    asked: Request, snapshot: Snapshot, outcome: Outcome, pods: Mapping[str, tuple[str, ...]], deadline: Deadline
) -> Explanation:
    """All about the pod that is meant; of several the first one that waits."""
    team = pods[asked.explain or ""]
    pod = next((each for each in team if each in outcome.pending), team[0])
    return explain(snapshot, asked.settings, pod, outcome, deadline)


def _checked(planned: Planned) -> int:
    pods = [pod for team in planned.checks.values() for pod in team]
    return DONE if all(is_placed(planned.outcome, pod) for pod in pods) else NO


def _phases(text: str) -> tuple[Phase, ...]:
    known: Iterable[Phase] = get_args(Phase)
    wanted = text.split(",")
    chosen = tuple(p for name in wanted for p in known if p == name)
    if len(chosen) < len(wanted) or len(set(chosen)) < len(chosen):
        raise click.UsageError(f"--phases {text}: each of {', '.join(PHASES)} may be named once")
    return chosen


def _with_pairs(settings: Settings, pairs: Sequence[str]) -> Settings:
    without_effect = dict.fromkeys(key for key in (pair.partition("=")[0] for pair in pairs) if key in LIVE_KEYS)
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--set {pair}: KEY=VALUE is needed")
        settings = _with_text(settings, key, text, "--set ")
    for key in dict.fromkeys(key for key in (pair.partition("=")[0] for pair in pairs) if key in REMOVED):
        click.echo(f"warning: --set {key}: {REMOVED[key]}", err=True)
    for key in without_effect:
        click.echo(f"warning: --set {key} has no effect: it is for the running extender and changes no plan", err=True)
    return settings


def _with_text(settings: Settings, key: str, text: str, option: str) -> Settings:
    try:
        return settings.with_text(key, text)
    except SettingError as error:
        raise click.UsageError(f"{option}{error}") from None


def _now(text: str | None) -> int | None:
    try:
        return None if text is None else moment(text)
    except ValueError as error:
        raise click.UsageError(f"--now: {error}") from None
