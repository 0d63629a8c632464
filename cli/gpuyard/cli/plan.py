"""`gpuyard plan`: its options. What it does is in `planning`, imported only when there is something to plan."""

from importlib import import_module

import click

_PHASES = "allocate,consolidate,reclaim,preempt,evict-stale"
_OUTPUTS = ("table", "json", "jsonl", "yaml", "story")


@click.command(no_args_is_help=True)
@click.option(
    "-f", "paths", multiple=True, metavar="PATH", help="Read a file, a folder, or - for standard input. Repeatable."
)
@click.option(
    "--each", metavar="DIR", help="Read each file in DIR as a snapshot of its own, in the order of their names."
)
@click.option("--live", is_flag=True, help="Read the live cluster; -f adds objects to it: what if I submitted this?")
@click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig for --live (default: as kubectl).")
@click.option("--context", default="", metavar="NAME", help="The context in the kubeconfig.")
@click.option(
    "-n",
    "--namespace",
    default="",
    help="The namespace of objects that name none (default: default; with --live as kubectl).",
)
@click.option(
    "--phases", metavar="LIST", default=_PHASES, show_default=True, help="The phases of a cycle, in this order."
)
@click.option(
    "--cycles", type=click.IntRange(min=1), default=20, show_default=True, help="The largest number of cycles."
)
@click.option(
    "--now",
    metavar="TIME",
    help="The time of the decision, as 2026-01-31T12:00:00Z.  [default: newest time of the input]",
)
@click.option(
    "--placement",
    metavar="STRATEGY",
    help="The order of nodes and GPUs with room: pack, the fullest first; spread, the emptiest first.  "
    "[default: pack; with --live as in the cluster]",
)
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A setting, as consolidation.maxMoved=4.")
@click.option("-o", "output", type=click.Choice(_OUTPUTS), default="table", show_default=True)
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="POD",
    help="Exit with 1 unless NAMESPACE/POD is placed, or all pods of KIND/NAME.",
)
@click.option(
    "--timeout",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    help="The time limit for one snapshot, in seconds.",
)
@click.option(
    "--explain", metavar="POD", help="Show the whole decision about NAMESPACE/POD or KIND/NAME, and what would help."
)
def plan(**options: object) -> None:
    """Show what the decision engine would do with a snapshot of a cluster, and why.

    The command changes nothing, and needs a cluster only with --live. The same input gives the same answer, byte for
    byte.

    \b
    gpuyard snapshot save cluster.json
    gpuyard plan -f cluster.json -f new-job.yaml        # what if I submitted this?
    gpuyard plan --live -f new-job.yaml --check job/new-job

    For a Job, a Deployment, a PyTorchJob and the like that are being submitted, the command plans the pods that they
    would create: job new-job creates new-job-0, new-job-1, ...; with generateName new- it is job new-x. If several
    namespaces have a job of that name, the submitted job is meant, then the job in the namespace of -n or of the
    context. If names clash, write NAMESPACE/KIND/NAME.

    Exit code: 0 also when pods stay pending, 1 when --check finds one that does, 2 for bad input,
    3 when the cluster cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    raise SystemExit(import_module("gpuyard.cli.planning").run(**options))
