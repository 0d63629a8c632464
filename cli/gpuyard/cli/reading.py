"""From files to a snapshot, with everything that was noticed on the way.

Decided in docs/decisions.md: "The collector of garbage rests while a snapshot is read".
"""

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from gpuyard.cli.asked import POD, meant
from gpuyard.cli.files import gather, take
from gpuyard.engine.kube.assemble import assemble
from gpuyard.engine.kube.decode import Found, Harvest
from gpuyard.engine.kube.faults import Unreadable
from gpuyard.engine.kube.makers import Name, made
from gpuyard.engine.kube.meta import meta_of, name_of, namespace_of
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot


class Read(NamedTuple):
    """A snapshot, and sentences about what was passed over or looks wrong."""

    snapshot: Snapshot
    notes: tuple[str, ...]
    asked: Mapping[str, tuple[str, ...]]
    """The pods that are meant by each name that was asked for, by their keys."""


def read(  # noqa: PLR0913 - what is read, and how
    paths: Iterable[str],
    settings: Settings,
    now: int | None,
    live: tuple[str, bytes] | None = None,
    *,
    namespace: str = "",
    said: bool = False,
    asked: Sequence[str] = (),
) -> Read:
    """Read one snapshot from files and folders, `-` being standard input.

    `live` is a document that is there already, with its name; `namespace` is that of what names none, and whether
    somebody `said` it; `asked` are names of pods, or of what makes them.

    Raises:
        Unreadable: with every fault.
        Unknown: what is asked for is not there.
    """
    with _growing():
        harvest = gather(paths, namespace)
        new = _submitted(harvest) if asked else set()
        if live is not None:
            take(harvest, *live)
        grown = made(harvest.submitted, ((each.source, each.object) for each in harvest.found))
        found = [*harvest.found, *(Found(source, POD, pod) for source, pod in grown.pods)]
        faults = [*harvest.faults, *grown.faults]
        try:
            reading = assemble(found, settings, now)
        except Unreadable as unreadable:
            raise Unreadable([*faults, *unreadable.faults]) from None
        if faults:
            raise Unreadable(faults)
        there = (each.object for each in found if each.kind == POD)
        pods = meant(there, asked, namespace, new, said=said) if asked else {}
    warnings = sorted([*reading.warnings, *grown.notes, *harvest.warnings])
    return Read(reading.snapshot, (*harvest.notes(), *(f"warning: {warning}" for warning in warnings)), pods)


def _submitted(harvest: Harvest) -> set[Name]:
    """What is not in the cluster yet: objects that will make pods, and pods without a uid."""
    pods = (each.object for each in harvest.found if each.kind == POD)
    bare = {(namespace_of(pod), POD, name_of(pod)) for pod in pods if not meta_of(pod).uid}
    return bare.union(each.name for each in harvest.submitted)


@contextmanager
def _growing() -> Iterator[None]:
    """Without the collector: everything that is made while reading stays, so looking for garbage would only cost.

    Nor does it look at it again before the next snapshot is read; then what is left of this one goes first.
    """
    was_on = gc.isenabled()
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
