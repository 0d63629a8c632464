"""The topology as it stands in the cluster: ConfigMap `topology`, and maps of single nodes that win over it.

A map that cannot be read leaves its last good state in force; its problem is kept beside it and reported once. The
status updater keeps that state in a copy, `last-good-<name of the map>`, so that a process which starts while a map
is broken has it too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec
from gpuyard.common.kube.changes import Batch
from gpuyard.common.kube.client import EVERYTHING, Client, Selector
from gpuyard.common.kube.objects import Meta
from gpuyard.common.kube.reflector import Reflector
from gpuyard.common.kube.resources import CONFIG_MAPS
from gpuyard.common.topology.document import TopologyError
from gpuyard.common.topology.model import Node, Pool, Topology
from gpuyard.common.topology.reading import read
from gpuyard.common.topology.specs import KEY as PROFILE_KEY
from gpuyard.common.topology.specs import PREFIX as PROFILE_PREFIX

NAMESPACE = "gpuyard-mock"
MAIN = "topology"
KEY = "topology.yml"
PREFIX = "topology-"
LAST_GOOD = "last-good-"
NODE_LABEL = "node-name"
GENERATED_LABEL = "gpuyard.io/generated"


class ConfigMap(msgspec.Struct, frozen=True):
    """A ConfigMap, as far as a topology needs it."""

    metadata: Meta
    data: dict[str, str] | None = None

    @property
    def text(self) -> str:
        """The topology's document."""
        return (self.data or {}).get(KEY, "")

    @property
    def generated(self) -> bool:
        """Whether it was made from a pool, and not written by a user."""
        return (self.metadata.labels or {}).get(GENERATED_LABEL) == "true"


DECODER = msgspec.json.Decoder(ConfigMap)


def is_topology(name: str) -> bool:
    """Whether a ConfigMap of this name holds a topology."""
    return name == MAIN or name.startswith(PREFIX)


def node_named_by(found: ConfigMap) -> str:
    """The node that a per-node map, or the copy of one, speaks of."""
    labelled = (found.metadata.labels or {}).get(NODE_LABEL, "")
    return labelled or found.metadata.name.removeprefix(LAST_GOOD).removeprefix(PREFIX)


def copied(copy: ConfigMap | None, profiles: Mapping[str, str] | None) -> Topology | None:
    """The state that a copy keeps; none when somebody spoiled it."""
    try:
        return read(copy.text, node_named_by(copy), profiles) if copy else None
    except TopologyError:
        return None


@dataclass(frozen=True, slots=True)
class Sheet:
    """One map: as it stands, its last good reading with the text of that, and what is wrong with it now."""

    found: ConfigMap
    topology: Topology | None
    good: str
    problem: str = ""

    def speaks_of(self, node: str) -> bool:
        """Whether it describes this node."""
        return self.topology is not None and node in self.topology.nodes


class Maps:
    """All maps of a topology. `changed` is called after each change that could be read.

    Who speaks of one `node` alone leaves pools unread: what they say of it comes as a map of the node.
    """

    def __init__(
        self,
        changed: Callable[[], None] = lambda: None,
        report: Callable[[str, str], None] = lambda _name, _why: None,
        node: str = "",
    ) -> None:
        self.sheets: dict[str, Sheet] = {}
        self.profiles: dict[str, str] | None = None if node else {}
        self.copies: dict[str, ConfigMap] = {}
        """Last good states, by the name of the map that they are of."""
        self._changed = changed
        self._report = report

    def take(self, batch: Batch[ConfigMap]) -> None:
        """Take a reflector's batch in."""
        touched = [self._take(change.old, change.new) for change in batch.changes]
        if any(touched) or batch.listed:
            self._changed()

    def _take(self, old: ConfigMap | None, new: ConfigMap | None) -> bool:
        return self.put(new) if new is not None else old is not None and self._drop(old.metadata.name)

    def _drop(self, name: str) -> bool:
        if name.startswith(LAST_GOOD):
            return self.copies.pop(name.removeprefix(LAST_GOOD), None) is not None
        if name.startswith(PROFILE_PREFIX):
            return self._put_profile(name, None)
        return self.sheets.pop(name, None) is not None

    def put(self, found: ConfigMap) -> bool:
        """Read a map; whether it could be read."""
        name = found.metadata.name
        if name.startswith(LAST_GOOD):
            return self._put_copy(name.removeprefix(LAST_GOOD), found)
        if name.startswith(PROFILE_PREFIX):
            return self._put_profile(name, (found.data or {}).get(PROFILE_KEY, ""))
        return is_topology(name) and self._put_map(name, found)

    def _put_profile(self, name: str, text: str | None) -> bool:
        """A user's own profile came, changed or went: the pools of the common map may be of it."""
        if self.profiles is None:
            return False
        self.profiles.pop(name.removeprefix(PROFILE_PREFIX), None)
        if text is not None:
            self.profiles[name.removeprefix(PROFILE_PREFIX)] = text
        main = self.sheets.get(MAIN)
        return main is not None and self._read_map(MAIN, main.found)

    def _put_map(self, name: str, found: ConfigMap) -> bool:
        before = self.sheets.get(name)
        if before is None or before.topology is None or before.problem or before.good != found.text:
            return self._read_map(name, found)
        if node_named_by(before.found) != node_named_by(found):
            return self._read_map(name, found)
        self.sheets[name] = replace(before, found=found)
        return True

    def _read_map(self, name: str, found: ConfigMap) -> bool:
        before = self.sheets.get(name)
        try:
            topology = read(found.text, node_named_by(found), self.profiles)
        except TopologyError as error:
            self.sheets[name] = self._broken(name, found, str(error))
            if before is None or before.problem != str(error):
                self._report(name, str(error))
            return False
        self.sheets[name] = Sheet(found, topology, found.text)
        return True

    def _broken(self, name: str, found: ConfigMap, problem: str) -> Sheet:
        before = self.sheets.get(name)
        if before is not None and before.topology is not None:
            return replace(before, found=found, problem=problem)
        copy = self.copies.get(name)
        return Sheet(found, copied(copy, self.profiles), copy.text if copy else "", problem)

    def _put_copy(self, name: str, copy: ConfigMap) -> bool:
        """A copy counts while its map is broken; whether it does."""
        self.copies[name] = copy
        sheet = self.sheets.get(name)
        topology = copied(copy, self.profiles) if sheet and sheet.problem and sheet.good != copy.text else None
        if sheet is None or topology is None:
            return False
        self.sheets[name] = replace(sheet, topology=topology, good=copy.text)
        return True

    def nodes(self) -> Mapping[str, Node]:
        """Every node that is named, by its own map or by the common one."""
        own = {name: sheet.topology.nodes for name, sheet in self.sheets.items() if sheet.topology and name != MAIN}
        merged: dict[str, Node] = dict(main.topology.nodes) if (main := self.sheets.get(MAIN)) and main.topology else {}
        for name in sorted(own):
            merged |= own[name]
        return merged

    def pools(self) -> tuple[Pool, ...]:
        """The pools of the common map."""
        main = self.sheets.get(MAIN)
        return main.topology.pools if main and main.topology else ()


def reflectors(
    client: Client, maps: Maps, namespace: str, node: str, report: Callable[[str], None]
) -> list[Reflector[ConfigMap]]:
    """Caches that feed `maps`: the maps that speak of one node and their copies, or without a node all there are."""
    names = [f"{copy}{name}" for copy in ("", LAST_GOOD) for name in (MAIN, f"{PREFIX}{node}")] if node else [""]
    made = [
        Reflector(
            client,
            CONFIG_MAPS.within(namespace),
            DECODER,
            selector=Selector(fields=f"metadata.name={name}") if name else EVERYTHING,
            report=report,
        )
        for name in names
    ]
    for each in made:
        each.subscribe(maps.take)
    return made
