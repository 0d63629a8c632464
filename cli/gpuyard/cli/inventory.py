"""What of gpuyard is in a cluster: every object that carries our labels, whatever kind it is.

Decided in docs/decisions.md: "Uninstall finds what carries our labels, of whatever kind".
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import msgspec
from gpuyard.common.kube.client import EVERYTHING, Client, Json, Selector
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.objects import Meta
from gpuyard.common.kube.resources import Address, Resource

PART_OF, INSTANCE = "app.kubernetes.io/part-of", "app.kubernetes.io/instance"
GPUYARD = "gpuyard"

# What our processes and their users keep in our namespaces without a label, and what every namespace has.
KNOWN = ("topology", "gpu-profile-", "gpuyard-")
EVERYWHERE = ("default", "kube-root-ca.crt")
EVENT = "Event"
ATTEMPTS = 20


class Kind(NamedTuple):
    """A kind of object that can be listed and deleted."""

    resource: Resource
    namespaced: bool


class Thing(NamedTuple):
    """One object."""

    resource: Resource
    meta: Meta

    @property
    def address(self) -> Address:
        """Where it is."""
        return self.resource.named(self.meta.name, self.meta.namespace)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.meta.name}"


async def kinds(client: Client) -> list[Kind]:
    """Every kind that this cluster knows."""
    groups = (await client.get(Address("/apis", "the API's groups")))["groups"]
    versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]
    return [kind for version in versions for kind in await _of_version(client, version)]


async def _of_version(client: Client, version: str) -> list[Kind]:
    path = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        listed = (await client.get(Address(path, version)))["resources"]
    except ApiError:
        return []  # an extension of the API that is out of order holds nothing of ours
    return [
        Kind(Resource(version, each["name"], each["kind"]), each["namespaced"])
        for each in listed
        if "/" not in each["name"] and {"list", "delete"} <= set(each["verbs"])
    ]


async def ours(client: Client, known: Iterable[Kind], half: str) -> list[Thing]:
    """The objects of one half; what belongs to another object goes with that."""
    selector = Selector(labels=f"{PART_OF}={GPUYARD},{INSTANCE}={half}")
    found = [thing for kind in known for thing in await _things(client, kind.resource, "", selector)]
    return [thing for thing in found if not thing.meta.owner_references]


async def strangers(client: Client, known: Iterable[Kind], namespace: str) -> list[Thing]:
    """What somebody else put into a namespace of ours."""
    resources = [kind.resource for kind in known if kind.namespaced and kind.resource.kind != EVENT]
    found = [thing for resource in resources for thing in await _things(client, resource, namespace)]
    return [thing for thing in found if is_strange(thing.meta)]


def is_strange(meta: Meta) -> bool:
    """Whether an object in a namespace of ours is neither ours nor anybody's doing."""
    if (meta.labels or {}).get(PART_OF) == GPUYARD or meta.owner_references:
        return False
    return meta.name not in EVERYWHERE and not meta.name.startswith(KNOWN)


async def _things(client: Client, resource: Resource, namespace: str, selector: Selector = EVERYTHING) -> list[Thing]:
    items = await _patiently(lambda: client.items(resource.within(namespace), selector))
    return [Thing(resource, msgspec.convert(item["metadata"], Meta)) for item in items]


async def _patiently(ask: Callable[[], Awaitable[list[Json]]]) -> list[Json]:
    """List a kind; for a moment after its CRD was applied the API server asks for patience."""
    for _ in range(ATTEMPTS):
        try:
            return await ask()
        except ApiError as error:
            if error.not_found:
                return []  # its CRD has gone meanwhile
            if not error.busy:
                raise
            await asyncio.sleep(max(error.retry_after, 1))
    return await ask()
