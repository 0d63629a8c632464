"""What `gpuyard plan` does: read, decide, print, and say by the exit code how it went."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

import click
import msgspec
from gpuyard.cli import files
from gpuyard.cli.output import PRINTERS, Planned, faulty
from gpuyard.engine.kube.assemble import assemble
from gpuyard.engine.kube.decode import Harvest
from gpuyard.engine.kube.faults import Fault, Unreadable
from gpuyard.engine.kube.times import moment
from gpuyard.engine.result import FinalState
from gpuyard.engine.settings import PHASES, Phase, SettingError, Settings
from gpuyard.engine.settle import settle

DONE, NO, BAD_INPUT = 0, 1, 2

_PLACED = frozenset({FinalState.RUNNING, FinalState.BOUND, FinalState.NOMINATED, FinalState.SUCCEEDED})


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be planned with, and what is to be known of it."""

    settings: Settings
    now: int | None
    output: str
    checks: tuple[str, ...]


def run(  # noqa: PLR0913 - the options of the command
    *,
    paths: Sequence[str],
    each: str | None,
    phases: str,
    cycles: int,
    now: str | None,
    placement: Literal["pack", "spread"],
    pairs: Sequence[str],
    output: str,
    checks: tuple[str, ...],
) -> int:
    """Carry the command out; the exit code."""
    if bool(paths) == (each is not None):
        raise click.UsageError("say what to read: -f PATH (repeatable), or --each DIR")
    settings = Settings(phases=_phases(phases), cycles=cycles, placement=placement)
    asked = Request(settings=_with_pairs(settings, pairs), now=_now(now), output=output, checks=checks)
    return _one(asked, paths) if each is None else _each(asked, each)


def _one(asked: Request, paths: Sequence[str]) -> int:
    planned = _planned(asked, files.gather(paths), "")
    if not isinstance(planned, Planned):
        for fault in planned:
            click.echo(str(fault), err=True)
        return BAD_INPUT
    click.echo(PRINTERS[asked.output](planned), nl=False)
    return _checked(asked, planned)


def _each(asked: Request, folder: str) -> int:
    """Every file as a snapshot of its own: one that cannot be read does not keep the others from being answered."""
    try:
        snapshots = sorted((p for p in Path(folder).iterdir() if p.is_file()), key=lambda p: p.name)
    except OSError as error:
        raise click.UsageError(f"--each {folder}: {(error.strerror or str(error)).lower()}") from None
    codes = {DONE}
    for path in snapshots:
        planned = _planned(asked, files.gather([str(path)]), path.name)
        if isinstance(planned, Planned):
            click.echo(PRINTERS[asked.output](planned), nl=False)
            codes.add(_checked(asked, planned))
        else:
            click.echo(faulty(asked.output, path.name, planned), nl=False)
            codes.add(BAD_INPUT)
        sys.stdout.flush()
    return max(codes)


def _planned(asked: Request, harvest: Harvest, name: str) -> Planned | tuple[Fault, ...]:
    for note in harvest.notes():
        click.echo(f"{name}: {note}" if name else note, err=True)
    try:
        reading = assemble(harvest.found, asked.settings, asked.now)
    except Unreadable as unreadable:
        return Unreadable([*harvest.faults, *unreadable.faults]).faults
    if harvest.faults:
        return Unreadable(harvest.faults).faults
    for warning in reading.warnings:
        click.echo(f"warning: {warning}", err=True)
    return Planned(name, reading.snapshot, asked.settings, settle(reading.snapshot, asked.settings))


def _checked(asked: Request, planned: Planned) -> int:
    code = DONE
    for pod in asked.checks:
        final = planned.outcome.final.get(pod)
        if final is None:
            raise click.UsageError(f"--check {pod}: there is no such pod in the input")
        if final.state not in _PLACED:
            code = NO
    return code


def _phases(text: str) -> tuple[Phase, ...]:
    known: Iterable[Phase] = get_args(Phase)
    wanted = text.split(",")
    chosen = tuple(p for name in wanted for p in known if p == name)
    if len(chosen) < len(wanted) or len(set(chosen)) < len(chosen):
        raise click.UsageError(f"--phases {text}: each of {', '.join(PHASES)} may be named once")
    return chosen


def _with_pairs(settings: Settings, pairs: Iterable[str]) -> Settings:
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--set {pair}: KEY=VALUE is needed")
        try:
            settings = settings.with_text(key, text)
        except SettingError as error:
            raise click.UsageError(f"--set {error}") from None
    return settings


def _now(text: str | None) -> int | None:
    try:
        return None if text is None else moment(text)
    except ValueError as error:
        raise click.UsageError(f"--now: {error}") from None
