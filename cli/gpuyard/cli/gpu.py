"""`gpuyard gpu`: see the mock GPUs of a cluster, and change them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import click
import msgspec
import yaml
from gpuyard.cli.calling import BAD_INPUT, calling, end
from gpuyard.cli.gpus import Row, index_of, name_lines, rows, table_lines
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.resources import CONFIG_MAPS, PODS
from gpuyard.common.topology.document import TopologyError
from gpuyard.common.topology.editing import change
from gpuyard.common.topology.maps import GENERATED_LABEL, KEY, NAMESPACE, PREFIX, ConfigMap, Maps

T = TypeVar("T")

FALLEN_OFF_THE_BUS = 79


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the topology is."""

    kubeconfig: str
    context: str
    namespace: str


def _asking(work: Callable[[Client], Awaitable[T]], cluster: Cluster) -> T:
    try:
        return calling(work, cluster.kubeconfig, cluster.context)
    except TopologyError as error:
        end(str(error), BAD_INPUT)


@click.group()
@click.option("--kubeconfig", default="", metavar="FILE", help="How to reach the cluster (default: as kubectl).")
@click.option("--context", "kube_context", default="", metavar="NAME", help="The context in it.")
@click.option("-n", "--namespace", default=NAMESPACE, show_default=True, help="Where the topology is.")
def gpu(kubeconfig: str, kube_context: str, namespace: str) -> None:
    """See and change the mock GPUs of a cluster."""
    click.get_current_context().obj = Cluster(kubeconfig, kube_context, namespace)


async def _maps(client: Client, namespace: str) -> Maps:
    maps = Maps()
    for item in await client.items(CONFIG_MAPS.within(namespace)):
        maps.put(msgspec.convert(item, ConfigMap))
    return maps


@gpu.command("list")
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json", "yaml", "name"]), default="table")
@click.option("--node", default="", help="Only this node's.")
@click.option("--no-headers", is_flag=True)
@click.pass_obj
def list_gpus(cluster: Cluster, output: str, node: str, *, no_headers: bool) -> None:
    """All mock GPUs: where, what, whether healthy, and who uses them how much.

    EXACT says whether kubelet itself named the device, or a rule gave it (KWOK nodes, sidecars).
    """

    async def work(client: Client) -> list[Row]:
        maps = await _maps(client, cluster.namespace)
        return rows(maps.nodes(), await client.items(PODS.within()))

    found = [row for row in _asking(work, cluster) if node in {"", row.node}]
    click.echo(_printed(found, output, headers=not no_headers), nl=False)


def _printed(found: list[Row], output: str, *, headers: bool) -> str:
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"
    if output == "yaml":
        text: str = yaml.dump(msgspec.to_builtins(found), Dumper=yaml.CSafeDumper, sort_keys=False)
        return text
    return name_lines(found) if output == "name" else table_lines(found, wide=output == "wide", headers=headers)


@gpu.command("set")
@click.argument("place")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.pass_obj
def set_keys(cluster: Cluster, place: str, changes: tuple[str, ...]) -> None:
    """Change keys of a node (NODE) or of a GPU (NODE/INDEX or NODE/ID) in the topology.

    Values are YAML: `gpuyard gpu set node-1 utilization=10-30 'faults=[allocate-error]'`. An empty value takes the
    key away.
    """
    parsed: dict[str, object] = {}
    for each in changes:
        key, equals, value = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} is not KEY=VALUE")
        parsed[key] = _value(value)
    _change(cluster, place, parsed)


def _value(text: str) -> object:
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader) if text else None
    except yaml.YAMLError as error:
        raise click.BadParameter(f"{text!r} is no YAML value: {error}") from None


@gpu.command()
@click.argument("place")
@click.option("--xid", default=FALLEN_OFF_THE_BUS, show_default=True, help="The error in the metrics; 0: none.")
@click.pass_obj
def fail(cluster: Cluster, place: str, xid: int) -> None:
    """Make a GPU (NODE/INDEX or NODE/ID) unhealthy."""
    _change(cluster, place, {"health": "unhealthy", "xid": xid or None}, gpu_only=True)


@gpu.command()
@click.argument("place")
@click.pass_obj
def heal(cluster: Cluster, place: str) -> None:
    """Make a GPU (NODE/INDEX or NODE/ID) healthy again."""
    _change(cluster, place, {"health": None, "xid": None}, gpu_only=True)


def _change(cluster: Cluster, place: str, changes: dict[str, object], *, gpu_only: bool = False) -> None:
    node, slash, device = place.partition("/")
    if gpu_only and not slash:
        raise click.BadParameter(f"{place!r} names no GPU; write NODE/INDEX or NODE/ID")

    async def work(client: Client) -> str:
        maps = await _maps(client, cluster.namespace)
        named = maps.nodes().get(node)
        if named is None:
            raise TopologyError("", 1, f"no node {node!r}; gpuyard gpu list shows those there are")
        index = index_of(named, device) if slash else None
        return await _write(client, maps, cluster.namespace, node, index, changes)

    click.echo(_asking(work, cluster))


async def _write(  # noqa: PLR0913, PLR0917
    client: Client, maps: Maps, namespace: str, node: str, index: int | None, changes: dict[str, object]
) -> str:
    """Write the map that speaks of the node; a generated one becomes the user's own, or its pool would win."""
    own = next((name for name, sheet in maps.sheets.items() if name.startswith(PREFIX) and sheet.speaks_of(node)), "")
    sheet = maps.sheets[own or "topology"]
    text = change(sheet.found.text, node, index, changes)
    meta: dict[str, object] = {"resourceVersion": sheet.found.metadata.resource_version}
    said = f"configmap/{sheet.found.metadata.name} changed"
    if sheet.found.generated:
        meta["labels"] = {GENERATED_LABEL: None}
        said += "; it is your own now, and no longer follows its pool"
    body = {"metadata": meta, "data": {KEY: text}}
    await client.patch(CONFIG_MAPS.named(sheet.found.metadata.name, namespace), body)
    return said
