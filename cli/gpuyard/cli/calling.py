"""How a command talks to a cluster, and how it ends when that fails."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import click
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import KubeError

T = TypeVar("T")

ANSWER_IS_NO = 1
BAD_INPUT = 2
UNREACHABLE = 3


def calling(work: Callable[[Client], Awaitable[T]], kubeconfig: str, context: str) -> T:
    """What the work brings back from the cluster; the command ends with the reason if the cluster does not answer."""

    async def ask() -> T:
        async with Client(await find_access(kubeconfig, context), agent="gpuyard-cli") as client:
            return await work(client)

    try:
        return asyncio.run(ask())
    except KubeError as error:
        end(str(error), UNREACHABLE)


def reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the options that say which cluster is meant."""
    context = click.option("--context", default="", metavar="NAME", help="The context in it.")
    kubeconfig = "How to reach the cluster (default: as kubectl)."
    return click.option("--kubeconfig", default="", metavar="FILE", help=kubeconfig)(context(command))


def end(message: str, code: int) -> NoReturn:
    """End the command with a reason."""
    click.echo(message, err=True)
    raise SystemExit(code)
