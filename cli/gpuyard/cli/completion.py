"""`gpuyard completion`."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell completion script: `eval "$(gpuyard completion bash)"`."""
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(made(context.find_root().command, {}, "gpuyard", "_GPUYARD_COMPLETE").source())
