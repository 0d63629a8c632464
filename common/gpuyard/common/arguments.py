"""The options that all our processes have, so that they mean the same everywhere."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from gpuyard.common.http import OPS_PORT
from gpuyard.common.logs import LEVELS
from gpuyard.common.process import Manners
from gpuyard.common.settings import Strict, check
from gpuyard.common.version import __version__


def parser(component: str, purpose: str, kind: type[Strict] | None = None) -> argparse.ArgumentParser:
    """The common options; with `kind` also `--config` and `--check-config` for a file of that kind."""
    made = argparse.ArgumentParser(prog=component, description=purpose)
    made.add_argument("--version", action="version", version=f"{component} {__version__}")
    made.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="the kubeconfig of the cluster (default: as kubectl)"
    )
    made.add_argument(
        "--context", default="", metavar="NAME", help="the context in the kubeconfig (default: the current one)"
    )
    made.add_argument("--log-level", default="info", choices=LEVELS)
    made.add_argument(
        "--ops-port", type=int, default=OPS_PORT, metavar="PORT", help="the port for probes and metrics (default 8081)"
    )
    made.add_argument(
        "--ops-host",
        default=None,
        metavar="ADDRESS",
        help="the address for probes and metrics (default: all addresses)",
    )
    if kind:
        made.add_argument("--config", type=Path, metavar="FILE", help=f"settings of kind {kind.__name__}")
        made.add_argument("--check-config", action="store_true", help="check the settings file, and exit")
    return made


def parse(made: argparse.ArgumentParser, kind: type[Strict] | None, argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; `--check-config` ends the program here with 0 or 2."""
    options = made.parse_args(argv)
    if kind and options.check_config:
        if not options.config:
            made.error("--check-config needs --config FILE")
        made.exit(check(options.config, kind))
    return options


def manners(options: argparse.Namespace, drain: float = 0) -> Manners:
    """How the process behaves, as the command line says."""
    return Manners(ops_port=options.ops_port, ops_host=options.ops_host, drain=drain)
