"""The extender as a process: `python -m gpuyard.extender`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuyard.common import arguments, logs
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.process import Process, run
from gpuyard.extender.app import Options, serve

COMPONENT = "gpuyard-extender"
PURPOSE = "Answer kube-scheduler's questions about pods that ask for GPUs, by the rules of the queues."
PORT, TLS_PORT = 8080, 8443


def main(argv: Sequence[str] | None = None) -> None:
    """Run until told to stop."""
    given = arguments.parse(_parser(), ExtenderConfig, argv)
    logs.configure("extender", given.log_level)
    options = Options(
        config=given.config,
        kubeconfig=given.kubeconfig,
        context=given.context,
        host=given.host,
        port=_port(given),
        tls=given.tls,
        token=given.token,
        lease=given.lease_namespace,
        pod=given.pod,
    )

    async def body(process: Process) -> None:
        await serve(process, options)

    sys.exit(run(COMPONENT, body, arguments.manners(given)))


def _port(given: argparse.Namespace) -> int:
    """Where the verbs listen; 0: the system chooses."""
    if given.port is not None:
        return int(given.port)
    return TLS_PORT if given.tls else PORT


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(COMPONENT, PURPOSE, ExtenderConfig)
    parser.add_argument(
        "--host", default=None, metavar="ADDRESS", help="the address of the verbs (default: all addresses)"
    )
    parser.add_argument("--port", type=int, help=f"the port of the verbs (default {PORT}, TLS {TLS_PORT})")
    parser.add_argument(
        "--tls",
        type=Path,
        metavar="FOLDER",
        help="accept only callers with a certificate of FOLDER/ca.crt; serve with tls.crt and tls.key",
    )
    parser.add_argument(
        "--token",
        type=Path,
        metavar="FOLDER",
        help="accept only callers that show the token in FOLDER/token, or in FOLDER/previous",
    )
    parser.add_argument(
        "--lease-namespace",
        default="",
        metavar="NAMESPACE",
        help="the namespace of the Lease that elects one of several extenders (default: no election)",
    )
    parser.add_argument(
        "--pod",
        default=os.environ.get("POD_NAME", ""),
        metavar="NAME",
        help="the name of this pod, which gets the leader's label (default: $POD_NAME)",
    )
    return parser


if __name__ == "__main__":
    main()
