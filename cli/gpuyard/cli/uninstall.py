"""`gpuyard uninstall`: take gpuyard out of a cluster, also what deleting its objects would leave."""

import click
from gpuyard.cli.calling import ANSWER_IS_NO, calling, reaching
from gpuyard.cli.removal import HALVES, Removal
from gpuyard.common.formats import Teller, formatted
from gpuyard.common.kube.client import Client


@click.command()
@click.argument("half", type=click.Choice(list(HALVES)), required=False)
@click.option("--crds", is_flag=True, help="Remove the CRDs even while there are queues or pod groups, and these too.")
@click.option("--wait/--no-wait", default=True, help="Whether to wait until kubelets let go of the GPUs (5 minutes).")
@formatted
@reaching
def uninstall(  # noqa: PLR0913 - the options of the command
    half: str | None, kubeconfig: str, context: str, output: str, *, crds: bool, wait: bool
) -> None:
    """Remove gpuyard from a cluster: the mock, the extender, or without a name both.

    Objects with our labels go, and what only we know: labels, annotations and resources on nodes. What is not ours
    stays, and is named where it is in the way. It may be repeated.
    """
    say = Teller(output)

    async def work(client: Client) -> list[str]:
        say(f"removing gpuyard{f' ({half})' if half else ''} from {client.access.server}")
        return await Removal(client, say).run([half] if half else list(HALVES), wait=wait, crds=crds)

    left = calling(work, kubeconfig, context)
    say.end({"done": say.told, "left": left}, output)
    for line in left:
        click.echo(line, err=True)
    if left:
        raise SystemExit(ANSWER_IS_NO)
