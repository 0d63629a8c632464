"""`gpuyard version`."""

import json

import click
from gpuyard.common.version import __version__


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def version(output: str) -> None:
    """The version of gpuyard."""
    click.echo(json.dumps({"version": __version__}) if output == "json" else __version__)
