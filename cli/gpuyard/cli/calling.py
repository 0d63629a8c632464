"""How a command talks to a cluster, and how it ends when that fails."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NoReturn, TypeVar

import click
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError, KubeError, UnreachableError

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
        end(f"{error}{_remedy(error)}", UNREACHABLE)


def _remedy(error: KubeError) -> str:
    """What helps, where the error does not say it itself."""
    if isinstance(error, UnreachableError):
        return "; if another cluster is meant, name it with --kubeconfig or --context"
    if isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN:
        return "; ask the cluster's administrators for that right"
    return ""


def reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the options that say which cluster is meant."""
    context = click.option("--context", default="", metavar="NAME", help="The context in the kubeconfig.")
    kubeconfig = "The kubeconfig of the cluster (default: as kubectl)."
    return click.option("--kubeconfig", default="", metavar="FILE", help=kubeconfig)(context(command))


def end(message: str, code: int) -> NoReturn:
    """End the command with a reason."""
    click.echo(message, err=True)
    raise SystemExit(code)
