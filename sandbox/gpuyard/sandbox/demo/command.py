"""The command `gpuyard demo`."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from gpuyard.common.kube.errors import KubeError
from gpuyard.sandbox import kind, lifecycle
from gpuyard.sandbox.cli import Failure, checked_name
from gpuyard.sandbox.demo import kind_stage
from gpuyard.sandbox.demo.play import NAMESPACE, play
from gpuyard.sandbox.demo.stage import manifests, set_up
from gpuyard.sandbox.demo.telling import stamped
from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpuyard.sandbox.cluster import Cluster


DEFAULT = "demo"
INTERRUPTED = 130

TRY = (
    "# why it waits is in the pod, where everybody looks for it",
    "kubectl describe pod red-train-3 -n {namespace} | tail -2",
    "# somebody leaves the queue: the next one runs",
    "kubectl delete pod red-train-2 -n {namespace}",
    "kubectl get pods -n {namespace} -o wide",
    "# submit it again: now that one waits; a higher limit lets it run",
    "kubectl apply --server-side -f {sample}/2-pods.yaml",
    "kubectl patch queues.scheduling.run.ai red --type merge \\",
    """  -p '{{"spec":{{"resources":{{"gpu":{{"limit":20}}}}}}}}'""",
    "kubectl get pods -n {namespace} -o wide",
)
"""What to type next, in this order; each of it works as it stands."""


@click.command()
@click.option("--ground", type=click.Choice(["processes", "kind"]), default="processes", show_default=True)
@click.option(
    "--name", default=DEFAULT, show_default=True, callback=checked_name, help="Several demos run side by side."
)
@click.option("--down", is_flag=True, help="End the demo and leave nothing behind.")
def demo(ground: str, name: str, *, down: bool) -> None:
    """Two teams share mock GPUs by queue, on a real control plane; see who runs, who waits, and why."""
    try:
        click.echo(_remove(ground, name) if down else _show(ground, name))
    except (SandboxError, KubeError) as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        end = _end(name, on_kind=ground == "kind")
        click.echo(f"\nInterrupted: what runs by now stays. `{end}` ends it; the same command again goes on.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _remove(ground: str, name: str) -> str:
    found = kind.down(name) if ground == "kind" else lifecycle.down(name)
    return f"the demo {name} is removed" if found else f"there is no demo {name}"


def _show(ground: str, name: str) -> str:
    say, sample = _teller(), manifests() / "samples" / "quickstart"
    cluster = kind_stage.set_up(name, say) if ground == "kind" else set_up(name, say)
    tables = asyncio.run(play(cluster, sample, say))
    return f"\n{tables}\n\n{how_to_go_on(cluster, sample)}"


def _teller() -> Callable[[str], None]:
    begin = time.monotonic()
    return lambda text: click.echo(stamped(time.monotonic() - begin, text))


def how_to_go_on(cluster: Cluster | kind.Cluster, sample: Path) -> str:
    """What to type next, and how to end it."""
    place = [f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}"]
    if shutil.which("kubectl") is None:
        place.append(f"export PATH={shlex.quote(str(cluster.program('kubectl').parent))}{os.pathsep}$PATH")
    end = _end(cluster.name, on_kind=isinstance(cluster, kind.Cluster))
    lines = [line.format(namespace=NAMESPACE, sample=_short(sample)) for line in TRY]
    return "\n".join(("Go on with", *_indented(place), "", "Try", *_indented(lines), "", f"End it with: {end}"))


def _end(name: str, *, on_kind: bool) -> str:
    if name == DEFAULT:
        return "make demo-down" + " GROUND=kind" * on_kind
    return "gpuyard demo" + " --ground kind" * on_kind + f" --name {name} --down"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _short(path: Path) -> Path:
    """The path as one would type it here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
