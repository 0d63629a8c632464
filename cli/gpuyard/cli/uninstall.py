"""`gpuyard uninstall`: take gpuyard out of a cluster, also what deleting its objects would leave."""

import sys
from collections.abc import Sequence

import click
from gpuyard.cli.calling import ANSWER_IS_NO, BAD_INPUT, calling, end, reaching
from gpuyard.cli.removal import HALVES, Removal
from gpuyard.common.formats import Teller, formatted
from gpuyard.common.kube.client import Client

MORE = {"mock": "the labels, annotations and GPUs that the mock has put on nodes", "extender": "annotations on pods"}
"""What is removed beside the objects, by half."""


@click.command()
@click.argument("half", type=click.Choice(list(HALVES)), required=False)
@click.option("--yes", "-y", is_flag=True, help="Do not ask before removing.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option("--crds", is_flag=True, help="Also delete the CRDs, with all Queues and PodGroups.")
@click.option("--wait/--no-wait", default=True, help="Wait until kubelets let go of the GPUs (5 minutes).")
@formatted
@reaching
def uninstall(  # noqa: PLR0913 - the options of the command
    half: str | None, kubeconfig: str, context: str, output: str, *, yes: bool, dry_run: bool, crds: bool, wait: bool
) -> None:
    """Remove gpuyard from a cluster: the mock, the extender, or without a name both.

    The command lists what it will remove and from which cluster, and asks. Objects with gpuyard's labels go, and the
    labels, annotations and resources that it has put on nodes. Other objects stay, and are named where they are in the
    way. The command may be repeated.
    """
    say, halves = Teller(output), [half] if half else list(HALVES)

    confirmed: list[str] = []

    async def look(client: Client) -> list[str]:
        confirmed.append(client.access.server)
        say(f"gpuyard{f' ({half})' if half else ''} on {client.access.server} ({client.access.origin}):")
        return await Removal(client, say).planned(halves)

    async def work(client: Client) -> list[str]:
        _stay_with(confirmed, client)
        say(f"removing gpuyard{f' ({half})' if half else ''} from {client.access.server}")
        return await Removal(client, say).run(halves, wait=wait, crds=crds)

    if dry_run or not yes:
        planned = calling(look, kubeconfig, context)
        for line in _listed(planned, halves, crds=crds):
            say(line)
        if dry_run:
            say.end({"wouldRemove": planned}, output)
            return
        _ask()
    left = calling(work, kubeconfig, context)
    say.end({"done": say.told, "left": left}, output)
    for line in left:
        click.echo(line, err=True)
    if left:
        raise SystemExit(ANSWER_IS_NO)


def _listed(planned: Sequence[str], halves: Sequence[str], *, crds: bool) -> list[str]:
    """What would be removed, a line each."""
    kept = "" if crds else "; CRDs that still have objects stay without --crds"
    return [*(f"  {each}" for each in planned), f"  and {' and '.join(MORE[half] for half in halves)}{kept}"]


def _stay_with(confirmed: Sequence[str], client: Client) -> None:
    """End the command where the context means another cluster than the one that was shown."""
    if confirmed and client.access.server not in confirmed:
        end(f"nothing is removed: the context now means another cluster, {client.access.server}", BAD_INPUT)


def _ask() -> None:
    """Ask a person at a terminal; end the command where there is none, or the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        end("nothing is removed: confirm with --yes where there is no terminal to ask at", BAD_INPUT)
    if not click.confirm("Remove all of this?", err=True):
        end("nothing is removed", ANSWER_IS_NO)
