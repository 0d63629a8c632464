"""What the updater knows, and what follows from it. Pure: caches in, writes out.

Level-based: `due` recomputes what should be for every node that was touched since, from the full state, and
compares it with what is. An event that was missed, doubled or late changes nothing about the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nsmallest

from gpuyard.common.kube.client import Json
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.common.topology.document import TopologyError
from gpuyard.common.topology.maps import LAST_GOOD, MAIN, PREFIX, ConfigMap, Maps, Sheet, copied, node_named_by
from gpuyard.common.topology.model import Node, Pool, Topology
from gpuyard.common.topology.pools import node_of
from gpuyard.common.topology.specs import PREFIX as PROFILE
from gpuyard.common.topology.writing import Usages, differs, write
from gpuyard.status_updater import copies
from gpuyard.status_updater.attribution import Attribution, Held, Place, Problem, attribute, recorded
from gpuyard.status_updater.cluster_nodes import capacity, marks
from gpuyard.status_updater.generated import assigned, body, document, superfluous
from gpuyard.status_updater.pods import Pod

MOST = 200
"""Nodes with maps of their own that one round looks at."""


@dataclass(slots=True)
class Due:
    """Everything that should be written now."""

    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    """New text and the version it replaces, by map."""
    create: dict[str, Json] = field(default_factory=dict)
    delete: dict[str, str] = field(default_factory=dict)
    """UID by map."""
    marks: dict[str, Json] = field(default_factory=dict)
    capacity: dict[str, Json] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Maps that cannot be written, and why."""


class Desk:
    """The caches side by side, and the pods of each node."""

    def __init__(self, maps: Maps, nodes: Mapping[str, ClusterNode]) -> None:
        self.maps = maps
        self.nodes = nodes
        self.pods: dict[str, dict[str, Pod]] = {}
        self.touched: set[str] = set()
        self._attributions: dict[str, Attribution] = {}
        self._held: dict[str, dict[Place, tuple[str, ...]]] = {}
        self._copied: dict[str, tuple[str, Topology | None]] = {}
        self._rounds = 0
        self._turns: dict[str, int] = {}

    def take_pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed, came or went."""
        if old is not None and old.spec.node_name:
            self.pods.get(old.spec.node_name, {}).pop(old.metadata.uid, None)
            self.touched.add(old.spec.node_name)
        if new is not None and new.holds and new.concerned:
            self.pods.setdefault(new.spec.node_name, {})[new.metadata.uid] = new
            self.touched.add(new.spec.node_name)

    def touch_all(self) -> None:
        """The topology changed: look at every node again."""
        self.touched.update(self.nodes, self.maps.nodes(), self._attributions)
        self._turns = {name: self._turns[name] for name in self.touched & self._turns.keys()}

    def begin(self) -> None:
        """Look at every node, and believe the topology alone: since we last led, another may have given devices."""
        self.touch_all()
        self._attributions.clear()
        self._held.clear()

    def touch_map(self, found: ConfigMap) -> None:
        """A map changed, or its copy: look at its nodes again. The common map and its profiles may concern all."""
        name = found.metadata.name.removeprefix(LAST_GOOD)
        if name.startswith(PREFIX):
            self.touched.add(node_named_by(found))
        elif name == MAIN or name.startswith(PROFILE):
            self.touch_all()

    def touch_named(self, name: str) -> None:
        """A map of this name could not be written: look at its nodes again."""
        sheet = self.maps.sheets.get(name.removeprefix(LAST_GOOD))
        if sheet is None:
            self.touched.add(name.removeprefix(PREFIX))
        else:
            self.touch_map(sheet.found)

    def due(self) -> Due:
        """What should be written; the nodes that are looked at for it are no longer touched."""
        touched = self._turn()
        self.touched -= touched
        named = self.maps.nodes()
        for name in touched:
            self._attribute(name, named.get(name))
        due = Due(
            problems=[p for name in touched if name in self._attributions for p in self._attributions[name].problems]
        )
        pools = self._pools()
        self._maps(due, touched, pools)
        for name in touched & self.nodes.keys():
            node = self.nodes[name]
            # A pool's node is named before its map has come back from the API server.
            shown = named.get(name) or (node_of(pools[PREFIX + name], name) if PREFIX + name in pools else None)
            if (patch := marks(node, shown)) is not None:
                due.marks[name] = patch
            if (patch := capacity(node, shown)) is not None:
                due.capacity[name] = patch
        return due

    def _pools(self) -> dict[str, Pool]:
        """The pool of each node that has one, by the name of the node's map."""
        main = self.maps.sheets.get(MAIN)
        return assigned(self.nodes.values(), self.maps.pools(), main.topology.nodes if main and main.topology else {})

    def _turn(self) -> set[str]:
        """Touched nodes: all that share the common map, and of the others those whose last turn is longest ago."""
        main = self.maps.sheets.get(MAIN)
        together = self.touched & main.topology.nodes.keys() if main and main.topology else set()
        others = nsmallest(MOST, self.touched - together, key=lambda name: self._turns.get(name, 0))
        self._rounds += 1
        self._turns |= dict.fromkeys(others, self._rounds)
        return together.union(others)

    def _attribute(self, name: str, node: Node | None) -> None:
        if node is None:
            self._attributions.pop(name, None)
            self._held.pop(name, None)
            return
        pods = self.pods.get(name, {}).values()
        before: Held = self._held[name] if name in self._held else recorded(node, pods)
        found = attribute(node, pods, before)
        # What kubelet said is kept while the pod lives, even when it is not said any more.
        self._attributions[name], self._held[name] = found, found.held

    def _maps(self, due: Due, touched: set[str], pools: Mapping[str, Pool]) -> None:
        sheets = self.maps.sheets
        main = sheets.get(MAIN)
        # Of a common map that could never be read it is not known which pools it has.
        for name in superfluous(sheets, pools) if main is None or main.topology else ():
            due.delete[name] = sheets[name].found.metadata.uid
        missing = {PREFIX + name for name in touched} & pools.keys() - sheets.keys()
        due.create |= {name: body(name, pools[name]) for name in missing}
        usage = {name: found.usage for name, found in self._attributions.items()}
        for name, sheet in sheets.items():
            if name == MAIN or (name not in due.delete and touched & _speaks_of(name, sheet)):
                self._text(due, name, sheet, pools.get(name), usage)
                self._copy(due, name, sheet, usage)

    def _text(self, due: Due, name: str, sheet: Sheet, pool: Pool | None, usage: Usages) -> None:
        stands = sheet.found.text
        base = document(sheet, pool) if pool is not None and sheet.found.generated else stands
        if base is stands and (sheet.problem or sheet.topology is None or not differs(sheet.topology, usage)):
            return
        text = _written(due, name, sheet, base, usage)
        if text != stands:
            due.texts[name] = (text, sheet.found.metadata.resource_version)

    def _copy(self, due: Due, name: str, sheet: Sheet, usage: Usages) -> None:
        """Keep the last good state of what a user wrote."""
        if sheet.topology is None or sheet.found.generated:
            return
        text = _written(due, name, sheet, sheet.good, usage) if sheet.problem else sheet.good
        copy = self.maps.copies.get(name)
        if copy is None:
            due.create[LAST_GOOD + name] = copies.body(sheet.found, text)
        elif copy.text != text and (sheet.problem or not self._is_copied(name, sheet.topology)):
            due.texts[LAST_GOOD + name] = (text, copy.metadata.resource_version)

    def _is_copied(self, name: str, topology: Topology) -> bool:
        """Whether the copy says the same as the map; it is read once for each of its versions."""
        copy = self.maps.copies[name]
        if self._copied.get(name, ("", None))[0] != copy.text:
            self._copied[name] = copy.text, copied(copy, self.maps.profiles)
        before = self._copied[name][1]
        return before is not None and copies.same_but_for_usage(before, topology)


def _written(due: Due, name: str, sheet: Sheet, text: str, usage: Usages) -> str:
    """The text with its usage; as it stands when that cannot be."""
    try:
        return write(text, usage, node_named_by(sheet.found))
    except TopologyError as error:
        due.refused[name] = str(error)
        return text


def _speaks_of(name: str, sheet: Sheet) -> set[str]:
    if name.startswith(PREFIX):
        return {node_named_by(sheet.found)}
    return set(sheet.topology.nodes) if sheet.topology else set()
