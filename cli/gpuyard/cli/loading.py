"""Makes the objects of a snapshot on a sandbox: what is there already stays, so that it may be repeated.

Pods that had a node are made before those that waited, whatever their age, and nobody who waited is made before the
extender has counted them. A pod that is created with a node counts only once that node's kubelet, or KWOK, has taken
it; until then the extender would give away room, and a share of a queue, that is taken.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus

import click
import msgspec
from gpuyard.cli.counted import wait_until_counted
from gpuyard.cli.live import progress
from gpuyard.cli.playing import Wanted
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import NODES, PODS

MANAGER = "gpuyard-snapshot"
SANDBOX = "gpuyard.io/sandbox"
"""The label of a node that a sandbox plays."""

NOT_COUNTED = (
    "the Queues do not say what their pods hold; the pods that waited are made all the same, and may get room that the"
    " cluster had not: `gpuyard doctor` says how the extender is"
)

_AT_ONCE = 20
_ACCOUNT_WITHIN = 60.0
"""Seconds until a new namespace has the account without which no pod may be made there."""

_PAUSE = 0.2


class Loaded(msgspec.Struct, rename="camel"):
    """What became of a snapshot's objects, by kind."""

    made: dict[str, int]
    there_already: dict[str, int]
    left_out: Mapping[str, int]
    """Ended pods and kinds that a sandbox does not play."""
    refused: list[str]
    """Objects that the API server did not take, and why."""


async def strange_nodes(client: Client) -> list[str]:
    """The nodes that no sandbox plays: pods that are made here might really run."""
    nodes = await client.items(NODES.within())
    return sorted(node["metadata"]["name"] for node in nodes if SANDBOX not in (node["metadata"].get("labels") or {}))


async def load(client: Client, wanted: Iterable[Wanted], left_out: Mapping[str, int]) -> Loaded:
    """Make the objects, kind by kind."""
    loaded = Loaded({}, {}, left_out, [])
    given = list(wanted)
    for resource in dict.fromkeys(each.resource for each in given):
        those = [each for each in given if each.resource is resource]
        make = _pods if resource is PODS else _all
        counted = await make(client, those, loaded.refused)
        for into, new in ((loaded.made, True), (loaded.there_already, False)):
            if counted[new]:
                into[resource.kind] = counted[new]
        progress(f"{counted[True]} {resource.plural} made, {counted[False]} were there")
    return loaded


async def _pods(client: Client, wanted: list[Wanted], refused: list[str]) -> Counter[bool]:
    placed = [each for each in wanted if each.body["spec"].get("nodeName")]
    waiting = [each for each in wanted if not each.body["spec"].get("nodeName")]
    counted = await _all(client, placed, refused)
    if placed and waiting:
        progress("waiting for the extender to count the pods that have a node")
        if not await wait_until_counted(client):
            click.echo(NOT_COUNTED, err=True)
    return counted + await _all(client, waiting, refused)


async def _all(client: Client, wanted: list[Wanted], refused: list[str]) -> Counter[bool]:
    counted: Counter[bool] = Counter()
    # Pods one after the other: who came first is asked about first.
    at_once = 1 if any(each.resource is PODS for each in wanted) else _AT_ONCE
    for start in range(0, len(wanted), at_once):
        batch = wanted[start : start + at_once]
        for new in await asyncio.gather(*(_made(client, each, refused) for each in batch)):
            if new is not None:
                counted[new] += 1
    return counted


async def _made(client: Client, wanted: Wanted, refused: list[str]) -> bool | None:
    """Whether the object is new; None if the API server does not take it."""
    try:
        new = await _written(client, wanted)
        if wanted.status:
            address = wanted.resource.named(wanted.body["metadata"]["name"])
            await client.patch(address.sub("status"), {"status": wanted.status})
    except ApiError as error:
        refused.append(f"{wanted.about}: {error.message}")
        return None
    return new


async def _written(client: Client, wanted: Wanted) -> bool:
    meta, resource = wanted.body["metadata"], wanted.resource
    body = _of_sandbox(wanted.body) if resource is NODES else wanted.body
    try:
        await _patiently(lambda: client.create(resource.within(meta.get("namespace", "")), body))
    except ApiError as error:
        if not error.already_exists:
            raise
        if resource is not PODS:
            await client.apply(resource.named(meta["name"], meta.get("namespace", "")), body, manager=MANAGER)
        return False
    return True


def _of_sandbox(node: Json) -> Json:
    labels = {SANDBOX: "snapshot"} | (node["metadata"].get("labels") or {})
    return node | {"metadata": node["metadata"] | {"labels": labels}}


async def _patiently(create: Callable[[], Awaitable[Json]]) -> Json:
    """Create an object; a pod in a new namespace has to wait for that namespace's account."""
    end = asyncio.get_running_loop().time() + _ACCOUNT_WITHIN
    while True:
        try:
            return await create()
        except ApiError as error:
            waits = error.status == HTTPStatus.FORBIDDEN and "serviceaccount" in error.message
            if not (waits or error.busy) or asyncio.get_running_loop().time() > end:
                raise
        await asyncio.sleep(_PAUSE)


def kinds(of: Mapping[str, int]) -> str:
    """Counts by kind, in words."""
    return ", ".join(f"{count} {kind}" for kind, count in of.items()) or "nothing"
