"""The topology of a cluster, as `gpuyard gpu` reads and changes it."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import CONFIG_MAPS
from gpuyard.common.topology.document import TopologyError
from gpuyard.common.topology.editing import change
from gpuyard.common.topology.maps import GENERATED_LABEL, KEY, MAIN, ConfigMap, Maps, Sheet
from gpuyard.common.topology.model import Node

Changes = Mapping[str, object]
"""Values by key; None takes the key away."""

TRIES = 5


class ChangeError(Exception):
    """What was asked for cannot be done; the message says why, and what can."""


class Place(NamedTuple):
    """A node (`NODE`), or a GPU of one (`NODE/INDEX` or `NODE/ID`)."""

    node: str
    device: str

    @classmethod
    def read(cls, text: str) -> "Place":
        """As it is written."""
        node, _, device = text.partition("/")
        return cls(node, device)

    def __str__(self) -> str:
        return f"{self.node}/{self.device}" if self.device else self.node


async def read_maps(client: Client, namespace: str) -> Maps:
    """All maps of a namespace."""
    maps = Maps()
    for item in await client.items(CONFIG_MAPS.within(namespace)):
        maps.put(msgspec.convert(item, ConfigMap))
    return maps


def complaints(maps: Maps, namespace: str) -> Iterator[str]:
    """What a reader should know of maps that are not well, or not there."""
    if not maps.sheets:
        yield f"namespace {namespace} has no ConfigMap {MAIN}: no node has mock GPUs"
    for name, sheet in maps.sheets.items():
        if sheet.problem:
            shown = "shown is its last good state" if sheet.topology else "nothing of it can be shown"
            yield f"configmap/{name}: {KEY}: {sheet.problem}; {shown}"


class Written(msgspec.Struct, rename="camel"):
    """What was changed of a place, and where that stands now."""

    place: str
    changes: Changes
    config_map: str
    adopted: bool
    """The map followed a pool so far; now it is the user's own."""

    def __str__(self) -> str:
        own = "; it is your own now, and no longer follows its pool" if self.adopted else ""
        return f"configmap/{self.config_map}{own}"


async def write(client: Client, namespace: str, place: Place, changes: Changes) -> Written:
    """Change a place. Begins anew when somebody else was faster.

    Raises:
        ChangeError: there is no such place, or it cannot be so.
    """
    for _ in range(TRIES):
        maps = await read_maps(client, namespace)
        sheet = sheet_of(maps, place.node)
        body = changed(sheet, maps.nodes()[place.node], place, changes)
        try:
            await client.patch(CONFIG_MAPS.named(sheet.found.metadata.name, namespace), body)
        except ApiError as error:
            if error.conflict:
                continue
            raise
        return Written(str(place), changes, sheet.found.metadata.name, sheet.found.generated)
    raise ChangeError(f"{place}: the topology changes faster than it can be written; try again")


def sheet_of(maps: Maps, node: str) -> Sheet:
    """The map that speaks of a node: its own before the common one.

    Raises:
        ChangeError: none does, or not in a way that can be changed.
    """
    names = sorted((name for name, each in maps.sheets.items() if each.speaks_of(node)), key=lambda name: name == MAIN)
    if not names:
        known = ", ".join(sorted(maps.nodes())[:10]) or "none"
        raise ChangeError(f"no node {node!r} in the topology; there are: {known}")
    sheet = maps.sheets[names[0]]
    if sheet.problem:
        raise ChangeError(f"configmap/{names[0]} cannot be read: {KEY}: {sheet.problem}; mend it first")
    return sheet


def changed(sheet: Sheet, node: Node, place: Place, changes: Changes) -> dict[str, object]:
    """The patch of a map. A generated one becomes the user's own, or its pool would win.

    Raises:
        ChangeError: the result would not be a topology.
    """
    index = index_of(node, place.device) if place.device else None
    try:
        text = change(sheet.found.text, place.node, index, changes)
    except TopologyError as error:
        raise ChangeError(f"{place}: {error.path or KEY}: {error.reason}") from None
    meta: dict[str, object] = {"resourceVersion": sheet.found.metadata.resource_version}
    if sheet.found.generated:
        meta["labels"] = {GENERATED_LABEL: None}
    return {"metadata": meta, "data": {KEY: text}}


def index_of(node: Node, device: str) -> int:
    """The index of a GPU that is named by its index or its id.

    Raises:
        ChangeError: the node has no such GPU.
    """
    for gpu in node.gpus:
        if device in {str(gpu.index), gpu.id}:
            return gpu.index
    raise ChangeError(f"node {node.name} has no GPU {device!r}; it has {len(node.gpus)}, counted from 0")
