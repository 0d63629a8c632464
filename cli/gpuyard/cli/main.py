"""The command `gpuyard`. A sub-command is imported when it is called: help must not cost what planning costs."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

import click


class Part(NamedTuple):
    """A sub-command: where it is, and its line in the help."""

    where: str
    help: str


PARTS: Mapping[str, Part] = {
    "plan": Part("gpuyard.cli.plan:plan", "Show what the decision engine would do with a snapshot of a cluster."),
    "explain": Part("gpuyard.cli.explain:explain", "Show why a pod waits, since when, and what would help."),
    "top": Part("gpuyard.cli.top:top", "Show queues, nodes and pods: GPUs in use, and pods that wait."),
    "snapshot": Part(
        "gpuyard.cli.snapshot:snapshot", "Save what decides about a cluster's pods; load it into a sandbox."
    ),
    "gpu": Part("gpuyard.cli.gpu:gpu", "Show and change the mock GPUs of a cluster."),
    "sandbox": Part("gpuyard.sandbox.cli:sandbox", "Run a real Kubernetes with mock GPU nodes, to try and test on."),
    "demo": Part("gpuyard.cli.demo:demo", "Play jobs in queues on a real control plane with mock GPUs."),
    "doctor": Part("gpuyard.cli.doctor:doctor", "Find what is wrong with gpuyard in a cluster, and what helps."),
    "certificates": Part(
        "gpuyard.cli.certificates:certificates",
        "Create and renew the mTLS certificates, or the token, of kube-scheduler and the extender.",
    ),
    "uninstall": Part("gpuyard.cli.uninstall:uninstall", "Remove gpuyard from a cluster, and leave nothing of it."),
    "completion": Part("gpuyard.cli.completion:completion", "Print the shell completion script."),
    "version": Part("gpuyard.cli.version:version", "Print the version of gpuyard."),
}


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported on their first use."""

    def __init__(self, *, parts: Mapping[str, Part], help: str) -> None:  # noqa: A002 - click's name for it
        super().__init__(name="gpuyard", help=help, context_settings={"help_option_names": ["-h", "--help"]})
        self._parts = parts

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names of the commands, in the order of the table."""
        return list(self._parts)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called; of a word that is none it tells which one may be meant."""
        if args and args[0] not in self._parts and (near := get_close_matches(args[0], self._parts, n=1)):
            ctx.fail(f"No such command {args[0]!r}; did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name."""
        part = self._parts.get(cmd_name)
        if part is None:
            return None
        module, _, name = part.where.partition(":")
        command = getattr(import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{part.where} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, part.help) for name, part in self._parts.items()])


gpuyard = LazyGroup(
    parts=PARTS,
    help="Queue quotas for GPU pods on the default kube-scheduler, and a mock GPU stack to try them on.",
)


def main() -> None:
    """Run the command line."""
    gpuyard()
