"""Many pods at once: calls as fast as the API server takes them, and when a watcher heard of each event."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.objects import Meta
from gpuyard.common.kube.reflector import Reflector
from gpuyard.common.kube.resources import PODS

from tests.mock.daemons import a_pod

if TYPE_CHECKING:
    from pathlib import Path

AT_ONCE = 50
Call = Callable[[Client], Coroutine[Any, Any, object]]


class _Pod(msgspec.Struct, frozen=True):
    metadata: Meta


def creating(number: int, node: str, namespace: str = "default", annotations: dict[str, str] | None = None) -> Call:
    """A pod with one GPU on a node."""
    body = a_pod(f"p{number}", node=node, annotations=annotations)
    return lambda client: client.create(PODS.within(namespace), body)


def deleting(number: int, namespace: str = "default") -> Call:
    """That pod's end, at once."""
    return lambda client: client.delete(PODS.named(f"p{number}", namespace), grace=0)


def rage(kubeconfig: Path, calls: list[Call], namespace: str = "default") -> list[float]:
    """Make the calls, some of them at once and in this order; the times of the pod events that came of them."""

    async def storm() -> list[float]:
        async with Client(await find_access(str(kubeconfig))) as client:
            heard = await _watched(client, namespace, calls)
        # An encrypted connection that was cut, as the watch's, is closed by the loop a little later.
        await asyncio.sleep(0.25)
        return heard

    return asyncio.run(storm())


async def _watched(client: Client, namespace: str, calls: list[Call]) -> list[float]:
    heard: list[float] = []
    pods = Reflector(client, PODS.within(namespace), msgspec.json.Decoder(_Pod))
    pods.subscribe(lambda batch: None if batch.listed else heard.extend([time.time()] * len(batch.changes)))
    watching = asyncio.create_task(pods.run())
    await pods.wait_synced()
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(call: Call) -> None:
        async with gate:
            await call(client)

    await asyncio.gather(*map(one, calls))
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return heard


def busiest(times: list[float], seconds: float = 10) -> int:
    """How many fell into the fullest stretch of so many seconds."""
    times = sorted(times)
    return max((bisect_left(times, start + seconds) - index for index, start in enumerate(times)), default=0)
