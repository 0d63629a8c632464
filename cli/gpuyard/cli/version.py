"""`gpuyard version`."""

import click
from gpuyard.common.version import __version__


@click.command()
def version() -> None:
    """The version of gpuyard."""
    click.echo(__version__)
