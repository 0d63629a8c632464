"""Calls to the API server by the thousand: some at once, or so many a second."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import UnreachableError
from gpuyard.common.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json = dict[str, Any]
Call = Callable[[Client], Coroutine[Any, Any, object]]

AT_ONCE = 40


def creating(pod: Json) -> Call:
    """This pod, made."""
    return lambda client: client.create(PODS.within(pod["metadata"]["namespace"]), pod)


def deleting(pod: Json) -> Call:
    """This pod's end, at once."""
    meta = pod["metadata"]
    return lambda client: client.delete(PODS.named(meta["name"], meta["namespace"]), grace=0)


def touching(name: str, namespace: str, value: str) -> Call:
    """An annotation of this pod, changed."""
    body = {"metadata": {"annotations": {"example.com/touched": value}}}
    return lambda client: client.patch(PODS.named(name, namespace), body)


def send(kubeconfig: Path, calls: Iterable[Call]) -> None:
    """Make the calls, as fast as the API server takes them."""

    async def all_of_them() -> None:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(call: Call) -> None:
            async with gate:
                await call(client)

        async with Client(await find_access(str(kubeconfig))) as client:
            await asyncio.gather(*map(one, calls))

    asyncio.run(all_of_them())


@contextlib.contextmanager
def storm(kubeconfig: Path, calls: Iterator[Call], a_second: int) -> Iterator[None]:
    """While this lasts, so many of the calls are made each second."""
    over = threading.Event()

    async def go_on() -> None:
        async with Client(await find_access(str(kubeconfig))) as client:
            while not over.is_set():
                with contextlib.suppress(UnreachableError):
                    await next(calls)(client)
                await asyncio.sleep(1 / a_second)

    thread = threading.Thread(target=lambda: asyncio.run(go_on()))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
