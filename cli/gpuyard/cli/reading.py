"""From files to a snapshot, with everything that was noticed on the way."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpuyard.cli.files import gather, take
from gpuyard.engine.kube.assemble import assemble
from gpuyard.engine.kube.faults import Unreadable
from gpuyard.engine.settings import Settings
from gpuyard.engine.snapshot import Snapshot


class Read(NamedTuple):
    """A snapshot, and sentences about what was passed over or looks wrong."""

    snapshot: Snapshot
    notes: tuple[str, ...]


def read(paths: Iterable[str], settings: Settings, now: int | None, live: tuple[str, bytes] | None = None) -> Read:
    """Read one snapshot from files and folders, `-` being standard input; raises `Unreadable` with every fault.

    `live` is a document that is there already, with its name.
    """
    with _growing():
        harvest = gather(paths)
        if live is not None:
            take(harvest, *live)
        try:
            reading = assemble(harvest.found, settings, now)
        except Unreadable as unreadable:
            raise Unreadable([*harvest.faults, *unreadable.faults]) from None
        if harvest.faults:
            raise Unreadable(harvest.faults)
    return Read(reading.snapshot, (*harvest.notes(), *(f"warning: {warning}" for warning in reading.warnings)))


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
