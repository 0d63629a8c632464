"""The mock GPU feature discovery as a process: labels all nodes, or writes one node's file."""

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gpuyard.common import arguments
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.reflector import Reflector, warn
from gpuyard.common.kube.resources import NODES
from gpuyard.common.lease import Elector, own_identity
from gpuyard.common.logs import configure, get_logger
from gpuyard.common.node_labels import DECODER, LabelledNode
from gpuyard.common.process import Process, run
from gpuyard.common.topology.maps import NAMESPACE, ConfigMap, Maps, reflectors
from gpuyard.gfd.labeller import Labeller, write_file
from gpuyard.gfd.labels import labels

COMPONENT = "gpuyard-gfd"
PACE = 0.5
RETRY = 2.0
log = get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    access_from: tuple[str, str]
    namespace: str
    timestamp: bool
    node: str

    def now(self) -> str:
        """The timestamp's value; empty when it is switched off."""
        return str(int(time.time())) if self.timestamp else ""


class Loop:
    """Runs a pass after each news, and again while something could not be written."""

    def __init__(self) -> None:
        self.news = asyncio.Event()

    async def run(self, labeller: Labeller, nodes: Mapping[str, LabelledNode], maps: Maps) -> NoReturn:
        """Work until cancelled."""
        while True:
            self.news.clear()
            done = await labeller.bring(nodes, maps.nodes())
            await asyncio.sleep(PACE)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), None if done else RETRY)


def _refused(name: str, why: str) -> None:
    log.warning("topology-refused", config_map=name, reason=why)


async def label_nodes(process: Process, options: Options) -> None:
    """Label all nodes that the topology names; one replica works."""
    client = await process.enter(Client(await find_access(*options.access_from), agent=COMPONENT))
    identity = own_identity()
    elector = Elector(client, COMPONENT, options.namespace, identity)
    loop = Loop()
    maps = Maps(loop.news.set, _refused)
    nodes = Reflector(client, NODES.within(), DECODER, report=warn)
    nodes.subscribe(lambda _: loop.news.set())
    caches: list[Reflector[ConfigMap] | Reflector[LabelledNode]]
    caches = [*reflectors(client, maps, options.namespace, "", warn), nodes]
    labeller = Labeller(client.fenced(lambda: elector.leading), options.now)

    async def work() -> None:
        for cache in caches:
            await cache.wait_synced()
        await loop.run(labeller, nodes.store, maps)

    for cache in caches:
        process.spawn(f"watch of {cache.address.about}", cache.run())
    process.spawn("lease", elector.run(work))
    process.ready_if("caches", lambda: ", ".join(cache.problem for cache in caches if not cache.synced))


async def write_features(process: Process, options: Options, path: Path) -> None:
    """Keep this node's file for node feature discovery right."""
    client = await process.enter(Client(await find_access(*options.access_from), agent=COMPONENT))

    def rewrite() -> None:
        if not all(cache.synced for cache in caches):
            return
        node = maps.nodes().get(options.node)
        if write_file(path, labels(node, options.now()) if node else {}):
            log.info("file-written", path=str(path))

    maps = Maps(rewrite, _refused, options.node)
    caches = reflectors(client, maps, options.namespace, options.node, warn)
    for cache in caches:
        process.spawn(f"watch of {cache.address.about}", cache.run())
    process.ready_if("caches", lambda: ", ".join(cache.problem for cache in caches if not cache.synced))


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; returns the exit code."""
    parser = arguments.parser(COMPONENT, "Set the topology as NVIDIA's node labels.")
    parser.add_argument("--namespace", default=NAMESPACE, help="the topology's (default %(default)s)")
    parser.add_argument("--no-timestamp", action="store_true", help="leave out the label nvidia.com/gfd.timestamp")
    parser.add_argument(
        "--output-file",
        type=Path,
        metavar="FILE",
        help="write the labels of one node to FILE, for node feature discovery",
    )
    parser.add_argument(
        "--node", default=os.environ.get("NODE_NAME", ""), help="the node of --output-file (default: $NODE_NAME)"
    )
    given = arguments.parse(parser, None, argv)
    path: Path | None = given.output_file
    if path and not given.node:
        parser.error("whose labels go into the file? Give --node or set NODE_NAME")
    configure(COMPONENT, given.log_level)
    options = Options((given.kubeconfig, given.context), given.namespace, not given.no_timestamp, given.node)

    async def body(process: Process) -> None:
        if path:
            await write_features(process, options, path)
        else:
            await label_nodes(process, options)

    return run(COMPONENT, body, arguments.manners(given))


if __name__ == "__main__":
    sys.exit(main())
