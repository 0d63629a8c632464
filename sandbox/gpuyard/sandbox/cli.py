"""The commands `gpuyard sandbox up | down | status`."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from gpuyard.common.formats import formatted, show
from gpuyard.sandbox import kind, lifecycle, processes
from gpuyard.sandbox.components import COMPONENTS
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.kind.report import report as kind_report
from gpuyard.sandbox.spec import Spec, checked

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_IS_NO = 1

FILE = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)
GROUND_NAMES = click.Choice(["processes", "kind"])


def checked_name(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    """A sandbox's name for click; one that cannot be a name is bad input."""
    try:
        return name if name is None else checked(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


NAME = click.option(
    "--name",
    default="default",
    show_default=True,
    callback=checked_name,
    help="The name of the sandbox; several can run side by side.",
)


class Failure(click.ClickException):
    """A sandbox that cannot be had, for the shell: the cluster cannot be reached."""

    exit_code = 3


@click.group()
def sandbox() -> None:
    """Run a real Kubernetes with mock GPU nodes, to try and test on."""


@sandbox.command()
@click.option("--ground", type=GROUND_NAMES, default="processes", show_default=True, help="The ground to run on.")
@NAME
@click.option("--nodes", type=int, help="The number of KWOK nodes [default: 4], or of kind workers [default: 2].")
@click.option(
    "--gpus", default=8, show_default=True, help="The GPUs of each KWOK node; on kind the mock stack adds them."
)
@click.option("--scheduler-config", type=FILE, help="The KubeSchedulerConfiguration file for kube-scheduler.")
@click.option("--extender-url", default="", help="The URL of the extenders in that configuration.")
@click.option("--audit-policy", type=FILE, help="The audit policy file [default: record all but reads of leases].")
@click.option("--api-server-flag", "api_server_flags", multiple=True, help="One more flag for kube-apiserver.")
@formatted
def up(ground: str, nodes: int | None, output: str, **wanted: Any) -> None:  # noqa: ANN401 - click passes options by name
    """Start a sandbox; do nothing if it runs already."""
    chosen = GROUNDS[ground]
    try:
        spec = Spec(nodes=chosen.nodes if nodes is None else nodes, **wanted)
    except ValueError as error:
        raise click.UsageError(_with_options(str(error))) from error
    try:
        cluster = chosen.up(spec)
    except SandboxError as error:
        raise Failure(str(error)) from error
    export = f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}\n"
    show(chosen.report(spec.name), output, lambda: export)


def _with_options(text: str) -> str:
    """What is wrong with a `Spec`, its fields named as options are typed."""
    fields = "|".join(Spec.__struct_fields__)
    return re.sub(rf"\b({fields})\b", lambda found: "--" + found[0].replace("_", "-"), text)


@sandbox.command()
@click.option("--ground", type=GROUND_NAMES, help="Remove the sandbox only from this ground [default: from each].")
@NAME
@formatted
def down(ground: str | None, name: str, output: str) -> None:
    """Remove a sandbox with everything that it left, also after a crash."""
    known = [each for each in GROUNDS if name in GROUNDS[each].names()]
    try:
        found = [GROUNDS[each].down(name) for each in ([ground] if ground else known)]
    except SandboxError as error:
        raise Failure(str(error)) from error
    told = f"sandbox {name} is removed\n" if any(found) else f"there is no sandbox {name}\n"
    show({"name": name, "removed": any(found)}, output, lambda: told)


@sandbox.command()
@click.option("--ground", type=GROUND_NAMES, help="Show only the sandboxes of this ground [default: all].")
@click.option("--name", callback=checked_name, help="Show only this sandbox.")
@formatted
def status(ground: str | None, name: str | None, output: str) -> None:
    """Show the sandboxes, their components and files."""
    asked = [GROUNDS[ground]] if ground else GROUNDS.values()
    reports = [one.report(each) for one in asked for each in one.names() if name in (None, each)]
    show(reports, output, lambda: ("\n\n".join(map(table, reports)) or "there is no sandbox") + "\n")
    if name and not reports:
        raise click.exceptions.Exit(ANSWER_IS_NO)


def report(name: str) -> dict[str, Any]:
    """Everything that can be said about a sandbox, for JSON and for the table."""
    cluster = lifecycle.find(name)
    if cluster is None:
        return {"name": name, "ground": "processes", "state": "broken", "components": []}
    running = cluster.processes
    states = {component: _state(running.get(component)) for component in (*COMPONENTS, *sorted(running))}
    needed = {states[component] for component in COMPONENTS}
    return {
        "name": name,
        "ground": "processes",
        "state": "up" if needed == {"running"} else "degraded",
        "kubeconfig": str(cluster.kubeconfig),
        "apiUrl": cluster.api_url,
        "auditLog": str(cluster.audit_log),
        "folder": str(cluster.folder),
        "components": [
            {
                "name": component,
                "state": state,
                "pid": running[component].pid if component in running else None,
                "port": cluster.record.ports.get(component),
                "program": str(cluster.program(component)) if component in COMPONENTS else None,
                "log": str(cluster.log(component)),
            }
            for component, state in states.items()
        ],
    }


def table(found: dict[str, Any]) -> str:
    """A report as lines for a person."""
    lines = [f"sandbox {found['name']} ({found['ground']}): {found['state']}"]
    if found["state"] == "broken":
        lines.append(f"  its files are incomplete: `gpuyard sandbox down --name {found['name']}` removes the rest")
    lines += [f"  {key:<11} {found[key]}" for key in ("kubeconfig", "apiUrl", "auditLog", "engine") if key in found]
    width = max((len(one["name"]) for one in found["components"]), default=0)
    if found["components"]:
        lines.append(f"  {'COMPONENT':<{width}} {'STATE':<8} {'PID':>8} {'PORT':>6}  LOG")
    lines += [
        f"  {one['name']:<{width}} {one['state']:<8} {one['pid'] or '-':>8} {one['port'] or '-':>6}  {one['log']}"
        for one in found["components"]
    ]
    return "\n".join(lines)


def _state(process: processes.Process | None) -> str:
    if process is None:
        return "dead"
    return "paused" if processes.paused(process) else "running"


@dataclass(frozen=True)
class Ground:
    """What every ground can do, and how many nodes it has unless told otherwise."""

    up: Callable[[Spec], Any]
    down: Callable[[str], bool]
    names: Callable[[], list[str]]
    report: Callable[[str], dict[str, Any]]
    nodes: int


def _kind_up(spec: Spec) -> kind.Cluster:
    """A kind cluster in which the extender finds the token, once the manifests are applied."""
    cluster = kind.up(spec)
    cluster.give_token()
    return cluster


GROUNDS = {
    "processes": Ground(lifecycle.up, lifecycle.down, lifecycle.names, report, nodes=4),
    "kind": Ground(_kind_up, kind.down, kind.names, kind_report, nodes=2),
}
