"""`gpuyard doctor`: look a cluster over; each finding names the object, what is wrong with it, and what helps."""

from collections.abc import Awaitable, Callable, Mapping

import click
import msgspec
from gpuyard.cli import remains
from gpuyard.cli.calling import ANSWER_IS_NO, as_json, calling, reaching
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
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@reaching
def doctor(kubeconfig: str, context: str, output: str) -> None:
    """Find what is wrong with gpuyard in a cluster: 0 if all is well, 1 if something was found.

    So far it looks for what a mock has left on nodes that was deleted without `gpuyard uninstall`.
    """

    async def work(client: Client) -> dict[str, list[str]]:
        return {good: await check(client) for good, check in CHECKS.items()}

    found = calling(work, kubeconfig, context)
    click.echo(as_json(found) if output == "json" else "\n".join(_lines(found)))
    if any(found.values()):
        raise SystemExit(ANSWER_IS_NO)


def _lines(found: Mapping[str, list[str]]) -> list[str]:
    checks = [f"{'!' if problems else 'ok'} {good}" for good, problems in found.items()]
    return checks + [line for problems in found.values() for line in problems]
