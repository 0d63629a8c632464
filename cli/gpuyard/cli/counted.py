"""Whether the extender of a cluster has counted the pods that have a node there.

A pod that is created with a node counts only when kubelet, or KWOK in its place, has taken it: until then the name of
the node is no more than a wish. The extender sees that on its own watch, and then each Queue says what its pods hold.
"""

import asyncio
from collections.abc import Mapping
from time import time
from typing import NamedTuple

from gpuyard.cli.live import SOURCE, settings, standing
from gpuyard.cli.looking import sifted
from gpuyard.cli.patient import key_of
from gpuyard.cli.playing import ORDER
from gpuyard.cli.reading import read
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import PODS, QUEUES, Resource
from gpuyard.engine.kube import quantity
from gpuyard.engine.model import Amounts, State
from gpuyard.engine.model.counting import UNUSED
from gpuyard.engine.model.settings import Settings

PATIENCE = 60.0
"""Seconds until the pods are taken to be counted whatever the Queues say."""

NOBODY = 15.0
"""Seconds in which an extender that runs has written some Queue's status."""

_PAUSE = 0.5


class _Look(NamedTuple):
    """The cluster at one moment."""

    taken: bool
    """Whether all pods that name a node have been taken by its kubelet."""
    told: Mapping[str, Amounts | None]
    """What each Queue says that its pods hold; None: it says nothing."""
    held: Mapping[str, Amounts]
    """What the pods of each Queue hold."""


async def wait_until_counted(client: Client) -> bool:
    """Wait until each Queue says what its pods hold; whether they do.

    Where no Queue says anything, no extender is there that could count.
    """
    decides, loop = await settings(client), asyncio.get_running_loop()
    began = loop.time()
    while True:
        seen = await _look(client, decides)
        waited = loop.time() - began
        silent = waited > NOBODY and set(seen.told.values()) <= {None}
        if seen.taken and (silent or seen.told == seen.held):
            return True
        if waited > PATIENCE:
            return False
        await asyncio.sleep(_PAUSE)


async def _look(client: Client, decides: Settings) -> _Look:
    things: list[Json] = [
        {"apiVersion": resource.api_version, "kind": resource.kind} | item
        for resource in ORDER
        for item in await _items(client, resource)
    ]
    text, _ = sifted(standing(things), decides)
    told = {thing["metadata"]["name"]: _told(thing) for thing in things if thing["kind"] == QUEUES.kind}
    if text is None:
        return _Look(taken=True, told={}, held={})
    snapshot = read((), decides, int(time()), (SOURCE, text)).snapshot
    named = {key_of(thing) for thing in things if thing["kind"] == PODS.kind and thing["spec"].get("nodeName")}
    taken = not any(pod.state is State.PENDING for key, pod in snapshot.pods.items() if key in named)
    return _Look(taken, told, {name: snapshot.use.get(name, UNUSED).allocated for name in told})


async def _items(client: Client, resource: Resource) -> list[Json]:
    """The objects of a kind; of one that the cluster does not know there are none."""
    try:
        return await client.items(resource.within())
    except ApiError as error:
        if not error.not_found:
            raise
    return []


def _told(queue: Json) -> Amounts | None:
    """What a Queue's status says that its pods hold."""
    held: Json | None = (queue.get("status") or {}).get("allocated")
    if held is None:
        return None
    gpus, cpu, memory = (held.get(name, 0) for name in ("nvidia.com/gpu", "cpu", "memory"))
    return Amounts(quantity.scaled(gpus, 3), quantity.cpu(cpu), quantity.size(memory))
