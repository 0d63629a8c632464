"""A look at the live cluster: its objects, the snapshot that they make, and what the engine decides about it.

Decided in docs/decisions.md: "Of a live cluster, what cannot be read is left out".
"""

from time import time
from typing import NamedTuple

import click
from gpuyard.cli.calling import BAD_INPUT, calling, end
from gpuyard.cli.deadline import Deadline, TooLong
from gpuyard.cli.live import SOURCE, document, settings, survey
from gpuyard.cli.reading import read
from gpuyard.common.kube.client import Client, Json
from gpuyard.engine.explain.pod import Explanation, explain
from gpuyard.engine.kube.faults import Fault, Unreadable
from gpuyard.engine.model.results import Outcome
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.settle import settle

PATIENCE = 600
"""Seconds that the engine may think about one cluster."""

TOO_LARGE = f"no answer within {PATIENCE} s; `gpuyard plan --live` takes a longer --timeout, and fewer --cycles"


class Look(NamedTuple):
    """The cluster at one moment."""

    things: list[Json]
    namespace: str
    """The one that the kubeconfig's context names."""
    settings: Settings
    """Those of its extender."""

    @property
    def document(self) -> tuple[str, bytes]:
        """Its objects as `read` takes them."""
        return SOURCE, sound(self.things, self.settings)

    def snapshot(self) -> Snapshot:
        """What can be read of it; the rest is named on standard error."""
        return self.asked()[0]

    def asked(self, *names: str) -> tuple[Snapshot, list[str]]:
        """The snapshot, and the pods that are meant by some names; raises `Unknown` where there are none."""
        made, notes, meant = read((), self.settings, int(time()), self.document, asked=names)
        for note in notes:
            click.echo(note, err=True)
        return made, [pod for pods in meant.values() for pod in pods]


def look(kubeconfig: str, context: str) -> Look:
    """Look at the cluster; the command ends with the reason if that cannot be done."""
    return calling(look_with, kubeconfig, context)


async def look_with(client: Client) -> Look:
    """Look at the cluster; raises `AccessError` where we may not."""
    return Look(await survey(client), client.access.namespace, await settings(client))


def sound(things: list[Json], decides: Settings) -> bytes:
    """The objects as a document, without those that cannot be read: one of them must not keep all answers back."""
    text, faults = sifted(things, decides)
    for fault in faults:
        click.echo(f"left out: {fault}", err=True)
    if text is None:
        end("nothing can be said of this cluster until that is mended", BAD_INPUT)
    return text


def sifted(things: list[Json], decides: Settings) -> tuple[bytes | None, list[Fault]]:
    """The objects that can be read, as a document, and why the others cannot; None if it is not known which."""
    faults: list[Fault] = []
    while True:
        text = document(things)
        try:
            read((), decides, int(time()), (SOURCE, text))
        except Unreadable as unreadable:
            faults += unreadable.faults
            bad = {fault.thing for fault in unreadable.faults}
            kept = [thing for thing in things if bad.isdisjoint(_names(thing))]
            if len(kept) == len(things):
                return None, faults
            things = kept
        else:
            return text, faults


def _names(thing: Json) -> set[str]:
    """As faults name it; some take every object for one of a namespace."""
    meta = thing["metadata"]
    return {f"{thing['kind']} {meta['name']}", f"{thing['kind']} {meta.get('namespace') or 'default'}/{meta['name']}"}


def decided(snapshot: Snapshot, decides: Settings) -> Outcome:
    """What the engine does about it; the command ends if that takes too long."""
    try:
        return settle(snapshot, decides, Deadline(PATIENCE))
    except TooLong:
        end(TOO_LARGE, BAD_INPUT)


def reasoned(snapshot: Snapshot, decides: Settings, pod: str, outcome: Outcome) -> Explanation:
    """The whole decision about one pod, and what would help."""
    try:
        return explain(snapshot, decides, pod, outcome, Deadline(PATIENCE))
    except TooLong:
        end(TOO_LARGE, BAD_INPUT)
