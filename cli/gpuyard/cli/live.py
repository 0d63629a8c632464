"""The live cluster as the document that `gpuyard plan -f` reads: what decides about pods, nothing secret."""

import sys
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus

import click
import msgspec
from gpuyard.common.cluster import owners
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.kube import resources
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import AccessError, ApiError
from gpuyard.common.settings import SettingsError, parse
from gpuyard.engine.kube.objects import Notes, OwnerSpec, PodOwner
from gpuyard.engine.model.settings import Settings

SOURCE = "the cluster"
"""What stands for the file's name in messages."""

REMEDY = "gpuyard's CRDs are not installed, see docs/install.md"

CONFIG = resources.CONFIG_MAPS.named("gpuyard-extender", "gpuyard")
FILE = "extender.yaml"

TOPOLOGIES = resources.TOPOLOGIES
"""Only where KAI Scheduler's CRDs are: none of ours."""

# Pods before nodes and namespaces: what a pod names was there before it.
KINDS = (
    resources.PODS,
    resources.POD_GROUPS,
    resources.QUEUES,
    resources.PRIORITY_CLASSES,
    resources.DISRUPTION_BUDGETS,
    resources.PLANS,
    resources.NAMESPACES,
    resources.NODES,
    TOPOLOGIES,
)
OWNERS = tuple(owners.KINDS.values())
_OF_A_CONTAINER = ("name", "resources", "restartPolicy", "allocatedResourcesStatus")
_CONTAINERS = ("containers", "initContainers", "containerStatuses", "initContainerStatuses")
_LEFT_OUT = ("images", "volumes", "ephemeralContainers", "ephemeralContainerStatuses", "imagePullSecrets")
_NOTES = frozenset(Notes.__struct_encode_fields__)


def progress(line: str) -> None:
    """Tell people who wait at a terminal what is being read."""
    if sys.stderr.isatty():
        click.echo(line, err=True)


async def survey(client: Client) -> list[Json]:
    """The objects of the cluster that decide about pods, kind by kind; a kind that it does not know is left out."""
    found: list[Json] = []
    for resource in KINDS:
        try:
            items = await client.items(resource.within())
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                raise AccessError(f"{error}; ask for the right to list {resource.plural} in all namespaces") from None
            if not error.not_found:
                raise
            if resource != TOPOLOGIES:
                what = f"{resource.plural} ({resource.api_version})"
                click.echo(f"{client.access.server} has no {what}: {REMEDY}", err=True)
            continue
        progress(f"read {len(items)} {resource.plural}")
        found += [{"apiVersion": resource.api_version, "kind": resource.kind} | bare(item) for item in items]
    return standing([*found, *[owner async for owner in _owners(client)]])


async def _owners(client: Client) -> AsyncIterator[Json]:
    """The owners that say how many of their pods start together, as far as there are such kinds, and for us."""
    for resource in OWNERS:
        try:
            items = await client.items(resource.within())
        except ApiError as error:
            if error.forbidden:
                click.echo(f"{error}; what {resource.plural} say of their pods is not known", err=True)
            elif not error.not_found:
                raise
            continue
        for item in items:
            if spec := _size(item):
                meta = {"metadata": _meta(item["metadata"])}
                yield {"apiVersion": resource.api_version, "kind": resource.kind} | meta | spec


def _size(owner: Json) -> Json:
    """What of an owner says how many of its pods start together; of most Jobs there is nothing."""
    try:
        seen = msgspec.convert(owner, PodOwner)
    except msgspec.ValidationError:
        return {}
    spec = {"spec": msgspec.to_builtins(seen.spec)} if seen.spec and seen.spec != OwnerSpec() else {}
    noted = seen.metadata and seen.metadata.annotations and seen.metadata.annotations.batch_minimum
    return spec or ({"spec": {}} if noted else {})


async def settings(client: Client) -> Settings:
    """How the extender of the cluster decides; as by default where it is not installed or we may not look."""
    try:
        text = ((await client.get(CONFIG)).get("data") or {}).get(FILE, "")
        return parse(text.encode(), ExtenderConfig, CONFIG.about).engine
    except ApiError as error:
        if not error.not_found:
            click.echo(f"{error}; going on with the default settings", err=True)
    except SettingsError as error:
        click.echo(f"{error}; going on with the default settings", err=True)
    return Settings()


def bare(thing: Json) -> Json:
    """An object without what nobody plans with: commands, variables, volumes, annotations of others."""
    kept = thing | {"metadata": _meta(thing.get("metadata") or {})}
    for part in ("spec", "status"):
        if isinstance(thing.get(part), dict):
            kept[part] = {key: _bare_part(key, value) for key, value in thing[part].items() if key not in _LEFT_OUT}
    return kept


def _meta(meta: Json) -> Json:
    notes = {key: value for key, value in (meta.get("annotations") or {}).items() if key in _NOTES}
    rest = {key: value for key, value in meta.items() if key not in {"managedFields", "annotations"}}
    return rest | ({"annotations": notes} if notes else {})


def _bare_part(key: str, value: object) -> object:
    if key not in _CONTAINERS or not isinstance(value, list):
        return value
    return [{name: one[name] for name in _OF_A_CONTAINER if name in one} for one in value]


def standing(things: Iterable[Json]) -> list[Json]:
    """The objects without the pods whose node has gone: for a while the API server still has them."""
    given = list(things)
    nodes = {thing["metadata"]["name"] for thing in given if thing["kind"] == "Node"}
    return [thing for thing in given if thing["kind"] != "Pod" or thing["spec"].get("nodeName", "") in nodes | {""}]


def document(things: Iterable[Json]) -> bytes:
    """The objects as a `List`, one on each line."""
    lines = b",\n".join(msgspec.json.encode(thing) for thing in things)
    return b'{"apiVersion": "v1", "kind": "List", "items": [\n' + lines + b"\n]}\n"
