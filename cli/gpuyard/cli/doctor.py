"""`gpuyard doctor`: look a cluster over; each finding names the object, what is wrong with it, and what helps."""

from collections.abc import Awaitable, Callable, Mapping

import click
import msgspec
from gpuyard.cli import remains
from gpuyard.cli.calling import ANSWER_IS_NO, calling
from gpuyard.cli.removal import HALVES
from gpuyard.common.kube.client import Client, Selector
from gpuyard.common.kube.resources import NODES, PODS
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.gfd.owned import LabelledNode, owned

UPDATER = Selector(labels="app.kubernetes.io/component=status-updater")


async def left_behind(client: Client) -> list[str]:
    """What a mock that was deleted has left on nodes."""
    if await client.items(PODS.within(HALVES["mock"]), UPDATER):
        return []
    told = {}
    for item in await client.items(NODES.within()):
        labels = owned(msgspec.convert(item, LabelledNode))
        told[item["metadata"]["name"]] = remains.told(msgspec.convert(item, ClusterNode), labels)
    remedy = "of a mock that is gone; `gpuyard uninstall mock` takes it away"
    return [f"node {name}: {found} {remedy}" for name, found in told.items() if found]


CHECKS: Mapping[str, Callable[[Client], Awaitable[list[str]]]] = {"nothing is left on nodes": left_behind}
"""What should be so, and who looks whether it is: sentences about what is not."""


@click.command()
@click.option("--kubeconfig", default="", metavar="FILE", help="How to reach the cluster (default: as kubectl).")
@click.option("--context", default="", metavar="NAME", help="The context in it.")
def doctor(kubeconfig: str, context: str) -> None:
    """Find what is wrong with gpuyard in a cluster: 0 if all is well, 1 if something was found.

    So far it looks for what a mock has left on nodes that was deleted without `gpuyard uninstall`.
    """

    async def work(client: Client) -> list[str]:
        found: list[str] = []
        for good, check in CHECKS.items():
            problems = await check(client)
            click.echo(f"{'!' if problems else 'ok'} {good}")
            found += problems
        return found

    found = calling(work, kubeconfig, context)
    for line in found:
        click.echo(line)
    if found:
        raise SystemExit(ANSWER_IS_NO)
