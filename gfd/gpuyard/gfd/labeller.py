"""Brings labels to where the topology says they should be: on nodes, or in a file for node feature discovery.

Level-based: each pass compares all nodes with the topology and writes what differs, so nothing that was missed
can stay wrong, and at rest nothing is written.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import KubeError
from gpuyard.common.kube.resources import NODES
from gpuyard.common.logs import get_logger
from gpuyard.common.node_labels import MANAGER, LabelledNode, body
from gpuyard.common.topology.model import Node
from gpuyard.gfd.labels import TIMESTAMP, Labels, labels
from gpuyard.gfd.owned import change

AT_ONCE = 8
log = get_logger()


def due(nodes: Mapping[str, LabelledNode], topology: Mapping[str, Node], timestamp: str) -> dict[str, Labels]:
    """What to apply to which node; empty labels take ours away."""
    found: dict[str, Labels] = {}
    for name, node in nodes.items():
        wanted = labels(topology[name], timestamp) if name in topology else {}
        if (labelled := change(node, wanted)) is not None:
            found[name] = labelled
    return found


class Labeller:
    """Writes labels onto nodes."""

    def __init__(self, client: Client, timestamp: Callable[[], str]) -> None:
        self._client = client
        self._timestamp = timestamp

    async def bring(self, nodes: Mapping[str, LabelledNode], topology: Mapping[str, Node]) -> bool:
        """One pass; whether all that was due could be written."""
        gate = asyncio.Semaphore(AT_ONCE)
        wanted = due(nodes, topology, self._timestamp())
        done = await asyncio.gather(*(self._apply(gate, name, each) for name, each in wanted.items()))
        return all(done)

    async def _apply(self, gate: asyncio.Semaphore, name: str, wanted: Labels) -> bool:
        async with gate:
            try:
                await self._client.apply(NODES.named(name), body(name, wanted), manager=MANAGER)
            except KubeError as error:
                log.warning("labels-not-written", node=name, reason=str(error))
                return False
        log.info("labels-written", node=name, count=len(wanted))
        return True


def _timeless(text: str) -> str:
    """The file but for the time in it: that alone is no reason to write."""
    return re.sub(f"^{re.escape(TIMESTAMP)}=.*$", f"{TIMESTAMP}=", text, flags=re.MULTILINE)


def write_file(path: Path, wanted: Labels) -> bool:
    """Write `name=value` lines, replacing the file in one step; whether it was not right already.

    Node feature discovery reads the folder at any time: it sees the old file or the new one, never a part.
    """
    text = "".join(f"{name}={value}\n" for name, value in sorted(wanted.items()))
    if path.exists() and _timeless(path.read_text(encoding="utf-8")) == _timeless(text):
        return False
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return True
