"""`gpuyard top`."""

import click
from gpuyard.cli.calling import reaching
from gpuyard.cli.looking import decided, look
from gpuyard.cli.output import page
from gpuyard.cli.overview import Overview, names, overview, page_of
from gpuyard.common.formats import MACHINES, listing, show
from msgspec.structs import replace


@click.command()
@click.argument("part", type=click.Choice(Overview.__struct_fields__), required=False)
@listing
@reaching
def top(kubeconfig: str, context: str, part: str | None, output: str, *, no_headers: bool) -> None:
    """Show who uses how many GPUs and which pods wait: queues as a tree, nodes and pods, or one of the three.

    The column WHY has the engine's present reason, in full with -o wide; `gpuyard explain pod/NAME` adds what would
    help.
    """
    found = look(kubeconfig, context)
    snapshot = found.snapshot()
    if not snapshot.queues:
        click.echo("there are no queues: create one, as in manifests/samples, or every pod goes ungoverned", err=True)
    seen = overview(snapshot, decided(snapshot, replace(found.settings, cycles=1)))
    if part:
        seen = replace(Overview([], [], []), **{part: getattr(seen, part)})
    if output in MACHINES:
        show(seen, output, str)
    elif output == "name":
        click.echo(names(seen), nl=False)
    else:
        click.echo(page_of(seen, page()._replace(headers=not no_headers), wide=output == "wide"), nl=False)
