"""`gpuyard doctor`: look a cluster over; each finding names the object, what is wrong with it, and what helps."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import click
import msgspec
from gpuyard.cli import remains, scheduler_config
from gpuyard.cli.calling import ANSWER_IS_NO, BAD_INPUT, calling, end, reaching
from gpuyard.cli.files import STANDARD_INPUT
from gpuyard.cli.findings import Finding, Status, all_well, told
from gpuyard.cli.formats import formatted, show
from gpuyard.cli.output import page
from gpuyard.cli.removal import HALVES
from gpuyard.common.kube.client import Client, Selector
from gpuyard.common.kube.resources import NODES, PODS
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.gfd.owned import LabelledNode, owned

UPDATER = Selector(labels="app.kubernetes.io/component=status-updater")
MEANT = "name the file that kube-scheduler has as --config"

REST = "nothing is left on nodes"


async def left_behind(client: Client) -> list[Finding]:
    """What a mock that was deleted has left on nodes."""
    told_of = {}
    if not await client.items(PODS.within(HALVES["mock"]), UPDATER):
        for item in await client.items(NODES.within()):
            labels = owned(msgspec.convert(item, LabelledNode))
            told_of[item["metadata"]["name"]] = remains.told(msgspec.convert(item, ClusterNode), labels)
    remedy = "it is of a mock that is gone: `gpuyard uninstall mock` takes it away"
    found = [Finding(REST, Status.FAIL, f"node {name}: {what}", remedy) for name, what in told_of.items() if what]
    return found or [Finding(REST, Status.OK, "no labels or resources of a mock that is gone")]


CHECKS: Mapping[str, Callable[[Client], Awaitable[list[Finding]]]] = {REST: left_behind}
"""What should be so, and who looks whether it is."""


@click.group(invoke_without_command=True)
@formatted
@reaching
@click.pass_context
def doctor(asked: click.Context, kubeconfig: str, context: str, output: str) -> None:
    """Find what is wrong with gpuyard in a cluster: 0 if all is well, 1 if something was found."""
    if asked.invoked_subcommand:
        return

    async def work(client: Client) -> list[Finding]:
        return [finding for check in CHECKS.values() for finding in await check(client)]

    _answer(calling(work, kubeconfig, context), output)


@doctor.command("scheduler-config")
@click.argument("file")
@formatted
def scheduler_config_file(file: str, output: str) -> None:
    """Find what is wrong with a KubeSchedulerConfiguration: FILE, or - for standard input.

    A ConfigMap that holds one will do as well. 0 if kube-scheduler would ask gpuyard as it should, 1 if not.
    """
    try:
        text = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        found = scheduler_config.lint(scheduler_config.read(text), file)
    except OSError as error:
        end(f"{file}: {(error.strerror or str(error)).lower()}; {MEANT}", BAD_INPUT)
    except scheduler_config.NoConfiguration as error:
        end(f"{file}: {error}; {MEANT}", BAD_INPUT)
    _answer(found, output)


def _answer(found: list[Finding], output: str) -> None:
    show(found, output, lambda: told(found, page()))
    if not all_well(found):
        raise SystemExit(ANSWER_IS_NO)
