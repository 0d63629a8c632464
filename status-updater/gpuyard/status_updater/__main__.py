"""The status updater as a process: follows pods, nodes and the topology; one of its replicas writes."""

import sys
from collections.abc import Sequence

import msgspec
from gpuyard.common import arguments
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.changes import Batch
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.events import Recorder
from gpuyard.common.kube.reflector import Reflector, warn
from gpuyard.common.kube.resources import NODES, PODS
from gpuyard.common.lease import Elector, own_identity
from gpuyard.common.logs import configure
from gpuyard.common.process import Process, run
from gpuyard.common.topology.cluster_node import DECODER, ClusterNode
from gpuyard.common.topology.maps import NAMESPACE, ConfigMap, Maps, reflectors
from gpuyard.status_updater.desk import Desk
from gpuyard.status_updater.pods import Pod
from gpuyard.status_updater.updater import REASONS, Updater

COMPONENT = "gpuyard-status-updater"


class Feed:
    """Hands what the caches hear to the desk, and wakes the updater."""

    def __init__(self, desk: Desk, updater: Updater) -> None:
        self._desk = desk
        self._updater = updater

    def take_maps(self, batch: Batch[ConfigMap]) -> None:
        """Maps came, changed or went."""
        for change in batch.changes:
            for found in (change.old, change.new):
                if found is not None:
                    self._desk.touch_map(found)
        self._updater.news.set()

    def take_nodes(self, batch: Batch[ClusterNode]) -> None:
        """Nodes changed, came or went."""
        known = (change.new or change.old for change in batch.changes)
        self._desk.touched.update(node.metadata.name for node in known if node is not None)
        self._updater.news.set()

    def take_pods(self, batch: Batch[Pod]) -> None:
        """Pods changed, came or went; most have nothing to do with GPUs."""
        for change in batch.changes:
            self._desk.take_pod(change.old, change.new)
        if self._desk.touched:
            self._updater.news.set()


async def serve(process: Process, access_from: tuple[str, str], namespace: str) -> None:
    """Start all parts."""
    client = await process.enter(Client(await find_access(*access_from), agent=COMPONENT))
    identity = own_identity()
    elector = Elector(client, COMPONENT, namespace, identity)
    acting = client.fenced(lambda: elector.leading)
    # The maps tell the updater, which is made of them: hence by name.
    maps = Maps(report=lambda name, why: updater.refuse(name, why))  # noqa: PLW0108
    nodes = Reflector(client, NODES.within(), DECODER, report=warn)
    pods = Reflector(client, PODS.within(), msgspec.json.Decoder(Pod), report=warn)
    recorder = Recorder(acting, COMPONENT, identity, REASONS)
    desk = Desk(maps, nodes.store)
    updater = Updater(acting, desk, namespace, recorder)
    feed = Feed(desk, updater)
    nodes.subscribe(feed.take_nodes)
    pods.subscribe(feed.take_pods)
    of_maps = reflectors(client, maps, namespace, "", warn)
    for each in of_maps:
        each.subscribe(feed.take_maps)
    caches: list[Reflector[ConfigMap] | Reflector[ClusterNode] | Reflector[Pod]] = [*of_maps, nodes, pods]

    async def work() -> None:
        for cache in caches:
            await cache.wait_synced()
        await updater.run()

    for cache in caches:
        process.spawn(f"watch of {cache.address.about}", cache.run())
    process.spawn("events", recorder.run())
    process.spawn("lease", elector.run(work))
    process.dump_with("caches", lambda: {cache.address.about: len(cache.store) for cache in caches})
    process.dump_with("events", lambda: {"dropped": recorder.dropped})
    process.ready_if("caches", lambda: ", ".join(cache.problem for cache in caches if not cache.synced))


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; returns the exit code."""
    parser = arguments.parser(COMPONENT, "Write the use of each mock GPU into the topology.")
    parser.add_argument("--namespace", default=NAMESPACE, help="the topology's (default %(default)s)")
    options = arguments.parse(parser, None, argv)
    configure(COMPONENT, options.log_level)
    access_from = (options.kubeconfig, options.context)
    return run(COMPONENT, lambda process: serve(process, access_from, options.namespace), arguments.manners(options))


if __name__ == "__main__":
    sys.exit(main())
