"""`gpuyard snapshot`: keep what decides about the pods of a cluster, to plan with it elsewhere."""

from pathlib import Path

import click
from gpuyard.cli.calling import BAD_INPUT, calling, end, reaching
from gpuyard.cli.files import STANDARD_INPUT
from gpuyard.cli.live import document, survey


@click.group()
def snapshot() -> None:
    """Keep what `gpuyard plan -f` reads of a cluster."""


@snapshot.command()
@click.argument("file")
@reaching
def save(kubeconfig: str, context: str, file: str) -> None:
    """Write what decides about the cluster's pods to FILE (-: standard output).

    That is its nodes, pods, queues, pod groups, priority classes, budgets, namespaces and plans. Commands, variables,
    volumes and foreign annotations of pods are left out. `gpuyard plan -f FILE` reads it.
    """
    text = document(calling(survey, kubeconfig, context))
    if file == STANDARD_INPUT:
        click.echo(text, nl=False)
        return
    try:
        Path(file).write_bytes(text)
    except OSError as error:
        end(f"{file}: cannot be written: {(error.strerror or str(error)).lower()}; name another file, or -", BAD_INPUT)
