"""`gpuyard version`."""

import click
from gpuyard.common.formats import formatted, show
from gpuyard.common.version import __version__


@click.command()
@formatted
def version(output: str) -> None:
    """Print the version of gpuyard."""
    show({"version": __version__}, output, lambda: f"{__version__}\n")
