"""`gpuyard top`."""

import click
from gpuyard.cli.calling import reaching
from gpuyard.cli.looking import decided, look
from gpuyard.cli.output import page
from gpuyard.cli.overview import overview, page_of
from gpuyard.common.formats import formatted, show
from msgspec.structs import replace


@click.command()
@formatted
@reaching
def top(kubeconfig: str, context: str, output: str) -> None:
    """Who has how many GPUs, and who waits: queues as a tree, nodes, pods.

    WHY says what the engine answers at this moment; `gpuyard explain pod/NAME` says it whole.
    """
    found = look(kubeconfig, context)
    snapshot = found.snapshot()
    if not snapshot.queues:
        click.echo("there are no queues: create one, as in manifests/samples, or every pod goes ungoverned", err=True)
    seen = overview(snapshot, decided(snapshot, replace(found.settings, cycles=1)))
    show(seen, output, lambda: page_of(seen, page()))
