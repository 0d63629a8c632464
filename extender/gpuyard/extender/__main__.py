"""The extender as a process: `python -m gpuyard.extender`."""

import sys
from pathlib import Path

import click
from gpuyard.common import logs, settings
from gpuyard.common.http import OPS_PORT
from gpuyard.common.process import Manners, Process, run
from gpuyard.extender.app import Options, serve
from gpuyard.extender.config import ExtenderConfig

PORT = 8080


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="An ExtenderConfig; followed while the process runs.")
@click.option("--check-config", is_flag=True, help="Say whether --config can be used, and end.")
@click.option("--kubeconfig", default="", help="How to reach the cluster [default: KUBECONFIG, or the pod's account].")
@click.option("--host", default=None, help="The address to listen on [default: all].")
@click.option("--port", default=PORT, show_default=True, help="The port of the verbs.")
@click.option("--ops-port", default=OPS_PORT, show_default=True, help="The port of probes and metrics.")
@click.option("--log-level", type=click.Choice(logs.LEVELS), default="info", show_default=True)
def main(  # noqa: PLR0913 - options
    *,
    config: Path | None,
    check_config: bool,
    kubeconfig: str,
    host: str | None,
    port: int,
    ops_port: int,
    log_level: str,
) -> None:
    """Answer kube-scheduler's questions about pods that ask for GPUs, by the rules of the queues."""
    if check_config:
        if config is None:
            raise click.UsageError("--check-config needs --config FILE")
        sys.exit(settings.check(config, ExtenderConfig))
    logs.configure("extender", log_level)
    options = Options(config=config, kubeconfig=kubeconfig, host=host, port=port)

    async def body(process: Process) -> None:
        await serve(process, options)

    sys.exit(run("gpuyard-extender", body, Manners(ops_port=ops_port, ops_host=host)))


if __name__ == "__main__":
    main()
