"""`gpuyard plan`: its options. What it does is in `planning`, imported only when there is something to plan."""

from importlib import import_module

import click

_PHASES = "allocate,consolidate,reclaim,preempt,evict-stale"
_OUTPUTS = ("table", "json", "jsonl", "yaml", "story")


@click.command(no_args_is_help=True)
@click.option(
    "-f", "paths", multiple=True, metavar="PATH", help="A file, a folder, or - for standard input. Repeatable."
)
@click.option("--each", metavar="DIR", help="Every file in DIR is a snapshot of its own, in the order of the names.")
@click.option("--live", is_flag=True, help="The cluster as it is now; -f adds to it: what if I submitted this?")
@click.option("--kubeconfig", default="", metavar="FILE", help="How to reach it with --live (default: as kubectl).")
@click.option("--context", default="", metavar="NAME", help="The context in it.")
@click.option(
    "-n", "--namespace", default="", help="Of objects that name none (default: default; with --live as kubectl)."
)
@click.option("--phases", metavar="LIST", default=_PHASES, show_default=True, help="What a cycle runs, in this order.")
@click.option("--cycles", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many cycles.")
@click.option("--now", metavar="TIME", help="The clock, as 2026-01-31T12:00:00Z.  [default: newest time of the input]")
@click.option(
    "--placement",
    metavar="STRATEGY",
    help="Take first the fullest nodes and GPUs with room: pack; the emptiest: spread.  "
    "[default: pack; with --live as the cluster]",
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
    "--timeout", type=click.IntRange(min=1), default=600, show_default=True, help="Seconds that one snapshot may take."
)
@click.option(
    "--explain", metavar="POD", help="The whole decision about NAMESPACE/POD or KIND/NAME, and what would help."
)
def plan(**options: object) -> None:
    """What the decision engine would do with a snapshot of a cluster, and why.

    It changes nothing, and needs no cluster but with --live; the same input gives the same answer, byte for byte.

    \b
    kubectl get nodes,pods,queues.scheduling.run.ai,podgroups.scheduling.run.ai,\\
        priorityclasses,pdb -A -o json | gpuyard plan -f -
    gpuyard plan -f cluster.yaml -f new-job.yaml        # what if I submitted this?
    gpuyard plan --live -f new-job.yaml --check job/new-job

    Of a Job, a Deployment, a PyTorchJob and their like that are being submitted, it plans for the pods that they would
    make: job new-job makes new-job-0, new-job-1, ...; with generateName new- it is job new-x. Where several namespaces
    have a job of that name, the one that is being submitted is meant, then the one of -n or of the context; where -n
    and what is being submitted say different ones, write NAMESPACE/KIND/NAME.

    Exit code: 0 also when pods stay pending, 1 when --check finds one that does, 2 for bad input,
    3 when the cluster cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    raise SystemExit(import_module("gpuyard.cli.planning").run(**options))
