"""`gpuyard demo`: the sandbox plays it, the words in which it is told are those of the story."""

import click
from gpuyard.cli.happened import happened
from gpuyard.common.formats import formatted
from gpuyard.sandbox.cli import checked_name
from gpuyard.sandbox.demo import DEFAULT, act


@click.command()
@click.option(
    "--ground",
    type=click.Choice(["processes", "kind"]),
    help="The ground to run on [default: processes; with --down: each].",
)
@click.option(
    "--name",
    default=DEFAULT,
    show_default=True,
    callback=checked_name,
    help="The name of the demo; several can run side by side.",
)
@click.option("--down", is_flag=True, help="Stop the demo and remove everything that it started.")
@formatted
def demo(ground: str | None, name: str, output: str, *, down: bool) -> None:
    """Jobs get mock GPUs by queue, on a real control plane; see who runs, who moves, who waits, and why.

    A small job moves so that a large one fits, told as it happened; then two teams share the cluster, one pod waits,
    and the advice of `gpuyard explain` lets it run. What runs then stays, to try things on.
    """
    act(ground, name, happened, down=down, output=output)
