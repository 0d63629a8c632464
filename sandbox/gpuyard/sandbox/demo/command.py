"""What `gpuyard demo` does: the sample `consolidation` from beginning to end, then two teams to go on with."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from gpuyard.common.formats import Teller, show
from gpuyard.common.kube.errors import KubeError
from gpuyard.sandbox import kind, lifecycle
from gpuyard.sandbox.cli import Failure
from gpuyard.sandbox.demo import consolidation, kind_stage
from gpuyard.sandbox.demo.play import NAMESPACE, play
from gpuyard.sandbox.demo.stage import extender_port, manifests, set_up
from gpuyard.sandbox.demo.telling import document, stamped, tables
from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuyard.sandbox.cluster import Cluster
    from gpuyard.sandbox.demo.consolidation import Narrate
    from gpuyard.sandbox.releases import Say


DEFAULT = "demo"
PROCESSES = "processes"
INTERRUPTED = 130

TRY = (
    "# take the limit back: nobody loses anything, but who comes now waits",
    "kubectl patch queues.scheduling.run.ai red --type merge \\",
    """  -p '{{"spec":{{"resources":{{"gpu":{{"limit":16}}}}}}}}'""",
    "kubectl delete pod red-train-3 -n {namespace}",
    "kubectl apply --server-side -f {sample}/2-pods.yaml",
    "# why it waits, and what would help, is for everybody to see",
    "gpuyard explain pod/red-train-3 -n {namespace}",
    "gpuyard top",
    "# somebody leaves the queue: the next one runs",
    "kubectl delete pod red-train-2 -n {namespace}",
    "kubectl get pods -n {namespace} -o wide",
    "# is all of it well?",
    "gpuyard doctor{extender}",
)
"""What to type next, in this order; each of it works as it stands."""


def act(ground: str | None, name: str, narrate: Narrate, *, down: bool, output: str) -> None:
    """Play the demo, or end it, without a ground wherever it is; `narrate` tells what happened in the cluster.

    A failure is one message.
    """
    try:
        if down:
            _remove(ground, name, output)
        else:
            _show(ground or PROCESSES, name, narrate, output)
    except (SandboxError, KubeError) as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        end = _end(name, on_kind=ground == "kind")
        click.echo(f"\nInterrupted: what runs by now stays. `{end}` ends it; the same command again goes on.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _remove(ground: str | None, name: str, output: str) -> None:
    ended = [_down(each, name) for each in ([ground] if ground else _where(name))]
    found = any(ended)
    told = f"the demo {name} is removed\n" if found else f"there is no demo {name}\n"
    show({"name": name, "removed": found}, output, lambda: told)


def _where(name: str) -> list[str]:
    return ["kind"] * (name in kind.names()) + [PROCESSES] * (name in lifecycle.names()) or [PROCESSES]


def _down(ground: str, name: str) -> bool:
    return kind.down(name) if ground == "kind" else lifecycle.down(name)


def _show(ground: str, name: str, narrate: Narrate, output: str) -> None:
    tell = Teller(output)
    say = _timed(tell)
    cluster = _stage(ground, name, say, lambda told: tell("\n" + textwrap.indent(told, "  ")), narrate)
    sample = manifests() / "samples" / "quickstart"
    scene = asyncio.run(play(cluster, sample, say))
    found = {"name": name, "ground": ground, "kubeconfig": str(cluster.kubeconfig)} | document(scene)
    show(found | {"told": tell.told}, output, lambda: f"\n{tables(scene)}\n\n{how_to_go_on(cluster, sample)}\n")


def _stage(ground: str, name: str, say: Say, tell: Say, narrate: Narrate) -> Cluster | kind.Cluster:
    cluster = kind_stage.set_up(name, say) if ground == "kind" else set_up(name, say)
    if not cluster.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "name"):
        # Else it has been played here.
        told = consolidation.play(cluster, manifests(), say, narrate)
        say("this is what happened, told by the objects of the cluster:")
        tell(told)
    return cluster


def _timed(tell: Say) -> Say:
    begin = time.monotonic()
    return lambda text: tell(stamped(time.monotonic() - begin, text))


def how_to_go_on(cluster: Cluster | kind.Cluster, sample: Path) -> str:
    """What to type next, and how to end it."""
    place = [f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}"]
    found = {"kubectl": cluster.program("kubectl").parent, "gpuyard": Path(sys.executable).parent}
    missing = [folder for program, folder in found.items() if shutil.which(program) is None]
    place += [f"export PATH={shlex.quote(str(folder))}{os.pathsep}$PATH" for folder in missing]
    end = _end(cluster.name, on_kind=isinstance(cluster, kind.Cluster))
    names = {"namespace": NAMESPACE, "sample": _short(sample), "extender": _probes(cluster)}
    lines = [line.format_map(names) for line in TRY]
    return "\n".join(("Go on with", *_indented(place), "", "Try", *_indented(lines), "", f"End it with: {end}"))


def _probes(cluster: Cluster | kind.Cluster) -> str:
    """What tells the doctor where the extender is: here it runs as a process, and nobody sees that in the cluster."""
    return "" if isinstance(cluster, kind.Cluster) else f" --extender http://127.0.0.1:{extender_port(cluster) + 1}"


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
