"""`gpuyard gpu`: see the mock GPUs of a cluster, and change them."""

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import click
import yaml
from gpuyard.cli.calling import ANSWER_IS_NO, BAD_INPUT, calling, end
from gpuyard.cli.gpus import Row, name_lines, rows, table_lines
from gpuyard.cli.topology import ChangeError, Changes, Place, Written, complaints, read_maps, write
from gpuyard.common.formats import MACHINES, for_programs, formatted, listing, show
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.resources import PODS
from gpuyard.common.shallow import ShallowLoader
from gpuyard.common.topology.maps import NAMESPACE

P = ParamSpec("P")
T = TypeVar("T")

FALLEN_OFF_THE_BUS = 79


_BASE = "tag:yaml.org,2002:"
_WHOLE = (f"{_BASE}int", re.compile(r"^-?(?:0|[1-9]\d{0,17})$", re.ASCII))


class _Loader(ShallowLoader):
    """Reads as text what is neither truth, nothing nor a plain whole number: versions look like much else in YAML."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in known if each[0] in {f"{_BASE}bool", f"{_BASE}null"}]
    + ([_WHOLE] if first in set("-0123456789") else [])
    for first, known in ShallowLoader.yaml_implicit_resolvers.items()
}
_Loader.yaml_constructors = {
    tag: make
    for tag, make in ShallowLoader.yaml_constructors.items()
    if tag not in {f"{_BASE}{name}" for name in ("binary", "timestamp", "float", "set", "omap", "pairs")}
}


class Cluster(NamedTuple):
    """The namespace of the topology."""

    kubeconfig: str
    context: str
    namespace: str


def in_cluster(command: Callable[Concatenate[Cluster, P], None]) -> Callable[..., None]:
    """A command with the options that say where the topology is."""

    @click.option(
        "--kubeconfig", default="", metavar="FILE", help="The kubeconfig of the cluster (default: as kubectl)."
    )
    @click.option("--context", default="", metavar="NAME", help="The context in the kubeconfig.")
    @click.option("-n", "--namespace", default=NAMESPACE, show_default=True, help="The namespace of the topology.")
    @wraps(command)
    def called(kubeconfig: str, context: str, namespace: str, *args: P.args, **kwargs: P.kwargs) -> None:
        command(Cluster(kubeconfig, context, namespace), *args, **kwargs)

    return called


def _asking(work: Callable[[Client], Awaitable[T]], cluster: Cluster) -> T:
    try:
        return calling(work, cluster.kubeconfig, cluster.context)
    except ChangeError as error:
        end(str(error), BAD_INPUT)


@click.group()
def gpu() -> None:
    """Show and change the mock GPUs of a cluster."""


@gpu.command("list")
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@listing
@in_cluster
def list_gpus(cluster: Cluster, nodes: tuple[str, ...], output: str, *, no_headers: bool) -> None:
    """All mock GPUs, or those of some nodes: where, what, whether healthy, and who uses them how much.

    EXACT says whether kubelet itself named the device, or a rule gave it (KWOK nodes, sidecars).
    """

    async def work(client: Client) -> list[Row]:
        maps = await read_maps(client, cluster.namespace)
        for line in complaints(maps, cluster.namespace):
            click.echo(line, err=True)
        return rows(maps.nodes(), await client.items(PODS.within()))

    every = _asking(work, cluster)
    found = [row for row in every if not nodes or row.node in nodes]
    click.echo(_printed(found, output, headers=not no_headers), nl=False)
    if missing := sorted(set(nodes) - {row.node for row in found}):
        end(f"no mock GPUs on {', '.join(missing)}", ANSWER_IS_NO)


def _printed(found: list[Row], output: str, *, headers: bool) -> str:
    if output in MACHINES:
        return for_programs(found, output)
    return name_lines(found) if output == "name" else table_lines(found, wide=output == "wide", headers=headers)


@gpu.command("set")
@click.argument("place")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE...")
@formatted
@in_cluster
def set_keys(cluster: Cluster, place: str, changes: tuple[str, ...], output: str) -> None:
    """Change keys of a node (NODE) or of a GPU (NODE/INDEX or NODE/ID) in the topology.

    Values are YAML: `gpuyard gpu set node-1 utilization=10-30 'faults=[allocate-error]'`. An empty value takes the
    key away.
    """
    _change(cluster, [Place.read(place)], dict(pair(each) for each in changes), "is set", output)


def pair(text: str) -> tuple[str, object]:
    """`KEY=VALUE`, the value as YAML.

    Raises:
        click.BadParameter: it is not written so.
    """
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    try:
        return key, yaml.load(value, Loader=_Loader) if value else None  # noqa: S506 - it makes less than the safe one
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        # The library lets the three others through, of values that their `!!tag` does not allow.
        raise click.BadParameter(f"{value!r} is no YAML value: {error}") from None


@gpu.command()
@click.argument("places", nargs=-1, required=True, metavar="PLACE...")
@click.option(
    "--xid",
    type=click.IntRange(min=0),
    default=FALLEN_OFF_THE_BUS,
    show_default=True,
    help="The XID error to report; 0: none.",
)
@formatted
@in_cluster
def fail(cluster: Cluster, places: tuple[str, ...], xid: int, output: str) -> None:
    """Make GPUs (each NODE/INDEX or NODE/ID) unhealthy, with an XID error."""
    _change(cluster, _gpus(places), {"health": "unhealthy", "xid": xid or None}, "is unhealthy", output)


@gpu.command()
@click.argument("places", nargs=-1, required=True, metavar="PLACE...")
@formatted
@in_cluster
def heal(cluster: Cluster, places: tuple[str, ...], output: str) -> None:
    """Make GPUs (each NODE/INDEX or NODE/ID) healthy again."""
    _change(cluster, _gpus(places), {"health": None, "xid": None}, "is healthy", output)


def _gpus(places: tuple[str, ...]) -> list[Place]:
    found = [Place.read(text) for text in places]
    if nodes := [place.node for place in found if not place.device]:
        raise click.BadParameter(f"{nodes[0]!r} names no GPU; write NODE/INDEX or NODE/ID")
    return found


def _change(cluster: Cluster, places: list[Place], changes: Changes, become: str, output: str) -> None:
    done: list[Written] = []

    async def work(client: Client) -> None:
        for place in places:
            written = await write(client, cluster.namespace, place, changes)
            done.append(written)

    try:
        _asking(work, cluster)
    finally:  # what was done is told, whatever came of the rest
        show(done, output, lambda: "".join(f"{each.place} {become} in {each}\n" for each in done))
