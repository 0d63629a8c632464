"""The mock device plugin as a process: follows the topology's word on its node, serves kubelet."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuyard.common import arguments
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.reflector import warn
from gpuyard.common.logs import configure, get_logger
from gpuyard.common.process import Process, run
from gpuyard.common.topology.maps import NAMESPACE, Maps, reflectors
from gpuyard.device_plugin.kubelet import FOLDER, POD_RESOURCES, in_use
from gpuyard.device_plugin.plugin import Plugin

COMPONENT = "gpuyard-device-plugin"
log = get_logger()


async def serve(process: Process, access_from: tuple[str, str], namespace: str, node: str, plugin: Plugin) -> None:
    """Start all parts."""
    client = await process.enter(Client(await find_access(*access_from), agent=COMPONENT))

    def follow() -> None:
        if all(cache.synced for cache in caches):
            plugin.follow(maps.nodes().get(node))

    maps = Maps(follow, lambda name, why: log.warning("topology-refused", config_map=name, reason=why), node)
    caches = reflectors(client, maps, namespace, node, warn)
    process.spawn("plugin", plugin.run())
    for cache in caches:
        process.spawn(f"watch of {cache.address.about}", cache.run())
    process.ready_if("kubelet", lambda: plugin.problem)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; returns the exit code."""
    parser = arguments.parser(COMPONENT, "Serve mock NVIDIA GPUs to the kubelet of this node.")
    parser.add_argument("--namespace", default=NAMESPACE, help="the topology's (default %(default)s)")
    parser.add_argument(
        "--node", default=os.environ.get("NODE_NAME", ""), help="the name of this node (default: $NODE_NAME)"
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="the folder of kubelet's device plugins (default %(default)s)"
    )
    parser.add_argument(
        "--pod-resources", type=Path, default=POD_RESOURCES, metavar="SOCKET", help="(default %(default)s)"
    )
    parser.add_argument(
        "--visible-devices",
        action="store_true",
        help="set NVIDIA_VISIBLE_DEVICES in containers to the ids of their GPUs",
    )
    options = arguments.parse(parser, None, argv)
    if not options.node:
        parser.error("which node is this? Give --node or set NODE_NAME")
    configure(COMPONENT, options.log_level)

    async def body(process: Process) -> None:
        plugin = Plugin(
            options.folder,
            lambda: in_use(options.pod_resources),
            lambda name, server: process.spawn(name, server.run()),
            visible_devices=options.visible_devices,
        )
        await serve(process, (options.kubeconfig, options.context), options.namespace, options.node, plugin)

    return run(COMPONENT, body, arguments.manners(options))


if __name__ == "__main__":
    sys.exit(main())
