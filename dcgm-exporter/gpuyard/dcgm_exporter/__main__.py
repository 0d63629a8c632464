"""The mock exporter as a process: follows the topology, serves port 9400."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuyard.common import arguments
from gpuyard.common.http import listening
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.changes import Batch
from gpuyard.common.kube.client import Client, Selector
from gpuyard.common.kube.reflector import Reflector, warn
from gpuyard.common.kube.resources import CONFIG_MAPS, NODES
from gpuyard.common.logs import configure, get_logger
from gpuyard.common.process import Process, run
from gpuyard.common.topology.cluster_node import DECODER as NODE_DECODER
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.common.topology.maps import DECODER, NAMESPACE, ConfigMap, Maps, reflectors
from gpuyard.dcgm_exporter.app import PORT, Exporter, exporter_app
from gpuyard.dcgm_exporter.labels import SwitchError, read_switches

COMPONENT = "gpuyard-dcgm-exporter"
SWITCHES = "gpuyard-exporter"
log = get_logger()


class Serving:
    """What the exporter knows: the maps, its switches and, without a node of its own, which nodes have no kubelet."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.exporter = Exporter()
        self.maps = Maps(
            self.refresh, lambda name, why: log.warning("topology-refused", config_map=name, reason=why), node
        )
        self.without_kubelet: set[str] = set()
        self.synced: Callable[[], bool] = lambda: True

    def refresh(self) -> None:
        """Show the nodes that this exporter speaks for, as soon as all is known."""
        if not self.synced():
            return
        own = {self.node} if self.node else self.without_kubelet
        shown = {name: node for name, node in self.maps.nodes().items() if name in own}
        if self.node and not shown and (self.exporter.nodes or not self.exporter.ready):
            log.info("node-not-in-topology", node=self.node)
        self.exporter.show(shown)

    def take_nodes(self, batch: Batch[ClusterNode]) -> None:
        """Learn which nodes KWOK plays."""
        for change in batch.changes:
            for known in (change.old, change.new):
                if known is not None:
                    self.without_kubelet.discard(known.metadata.name)
            if change.new is not None and change.new.played:
                self.without_kubelet.add(change.new.metadata.name)
        self.refresh()

    def take_switches(self, batch: Batch[ConfigMap]) -> None:
        """Follow the ConfigMap with the switches; what cannot be read leaves the last good ones."""
        for change in batch.changes:
            try:
                self.exporter.switch(read_switches((change.new and change.new.data) or {}))
            except SwitchError as error:
                log.warning("switches-refused", config_map=SWITCHES, reason=str(error))
        self.refresh()


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    kubeconfig: str
    context: str
    namespace: str
    node: str
    host: str | None
    port: int


async def serve(process: Process, options: Options) -> None:
    """Start all parts."""
    access = await find_access(options.kubeconfig, options.context)
    client = await process.enter(Client(access, agent=COMPONENT))
    serving = Serving(options.node)
    caches = reflectors(client, serving.maps, options.namespace, options.node, warn)
    switches = Reflector(
        client,
        CONFIG_MAPS.within(options.namespace),
        DECODER,
        selector=Selector(fields=f"metadata.name={SWITCHES}"),
        report=warn,
    )
    switches.subscribe(serving.take_switches)
    nodes = Reflector(client, NODES.within(), NODE_DECODER, report=warn)
    nodes.subscribe(serving.take_nodes)
    needed: list[Reflector[ConfigMap] | Reflector[ClusterNode]] = [
        *caches,
        switches,
        *([] if options.node else [nodes]),
    ]
    serving.synced = lambda: all(cache.synced for cache in needed)
    for cache in needed:
        process.spawn(f"watch of {cache.address.about}", cache.run())
    process.ready_if("topology", lambda: "" if serving.exporter.ready else "not read yet")
    await process.enter(listening(exporter_app(serving.exporter), options.port, options.host))


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; returns the exit code."""
    parser = arguments.parser(COMPONENT, "Serve the topology as NVIDIA's metrics on port 9400.")
    parser.add_argument("--namespace", default=NAMESPACE, help="the topology's (default %(default)s)")
    parser.add_argument(
        "--node", default=os.environ.get("NODE_NAME", ""),
        help="serve this node's GPUs (default: $NODE_NAME; empty: those of all nodes without a kubelet)",
    )  # fmt: skip
    parser.add_argument("--host", metavar="ADDRESS", help="the address to serve on (default: all addresses)")
    parser.add_argument("--port", type=int, default=PORT, help="the port to serve on (default %(default)s)")
    given = arguments.parse(parser, None, argv)
    configure(COMPONENT, given.log_level)
    options = Options(given.kubeconfig, given.context, given.namespace, given.node, given.host, given.port)
    return run(COMPONENT, lambda process: serve(process, options), arguments.manners(given))


if __name__ == "__main__":
    sys.exit(main())
