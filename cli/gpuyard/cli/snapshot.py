"""`gpuyard snapshot`: keep what decides about the pods of a cluster, and play it on a sandbox."""

import sys
from collections import Counter
from pathlib import Path

import click
from gpuyard.cli.calling import ANSWER_IS_NO, BAD_INPUT, calling, end, reaching
from gpuyard.cli.files import STANDARD_INPUT
from gpuyard.cli.live import document, survey
from gpuyard.cli.loading import Loaded, kinds, load, strange_nodes
from gpuyard.cli.playing import documents, flat, playable
from gpuyard.common.formats import formatted, show
from gpuyard.common.kube.client import Client, Json


@click.group()
def snapshot() -> None:
    """Save what decides about a cluster's pods, and load it into a sandbox."""


@snapshot.command()
@click.argument("file")
@formatted
@reaching
def save(kubeconfig: str, context: str, file: str, output: str) -> None:
    """Write all objects that decide about the cluster's pods to FILE (-: standard output), and print their number.

    These are nodes, pods, queues, pod groups, priority classes, disruption budgets, namespaces and plans. Commands,
    variables, volumes and other tools' annotations of pods are left out. `gpuyard plan -f FILE` reads the file.
    """
    things = calling(survey, kubeconfig, context)
    text = document(things)
    if file == STANDARD_INPUT:
        click.echo(text, nl=False)
        return
    try:
        Path(file).write_bytes(text)
    except OSError as error:
        end(f"{file}: cannot be written: {(error.strerror or str(error)).lower()}; name another file, or -", BAD_INPUT)
    counted = Counter(str(thing["kind"]) for thing in things)
    show({"file": file, "objects": counted}, output, lambda: f"{file}: {kinds(counted)}\n")


@snapshot.command("load")
@click.argument("file")
@click.option("--force", is_flag=True, help="Load into a cluster that is not a sandbox; pods may really run.")
@formatted
@reaching
def load_file(file: str, kubeconfig: str, context: str, output: str, *, force: bool) -> None:
    """Create the objects of FILE (-: standard input) on a sandbox, so that it looks like the saved cluster.

    Nodes are simulated; pods that had a node get it, and the others wait for kube-scheduler; ended pods are left out.
    Waiting pods are created last, once the Queues show what the running ones hold. The command may be repeated:
    existing objects stay. `gpuyard sandbox up --nodes 0` starts a sandbox without nodes of its own.
    """
    found = playable(_objects(file))

    async def work(client: Client) -> Loaded | list[str]:
        strange = [] if force else await strange_nodes(client)
        return strange or await load(client, *found)

    done = calling(work, kubeconfig, context)
    if not isinstance(done, Loaded):
        names = f"{done[0]} and {len(done) - 1} others are" if len(done) > 1 else f"{done[0]} is"
        end(
            f"this cluster is not a sandbox: node {names} not made by one; --force loads the snapshot all the same",
            BAD_INPUT,
        )
    show(done, output, lambda: _told(done))
    for line in done.refused:
        click.echo(line, err=True)
    if done.refused:
        raise SystemExit(ANSWER_IS_NO)


def _objects(file: str) -> list[Json]:
    try:
        text = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        return [thing for each in documents(text) for thing in flat(each)]
    except OSError as error:
        end(f"{file}: {(error.strerror or str(error)).lower()}; name a file of `gpuyard snapshot save`", BAD_INPUT)
    except ValueError as error:
        end(f"{file}: {error}; name a file of `gpuyard snapshot save`", BAD_INPUT)


def _told(done: Loaded) -> str:
    lines = [f"made: {kinds(done.made)}"]
    lines += [f"there already: {kinds(done.there_already)}"] if done.there_already else []
    lines += [f"left out: {kinds(done.left_out)}"] if done.left_out else []
    return "".join(f"{line}\n" for line in lines)
