"""`gpuyard doctor`: look a cluster over; each finding names the object, what is wrong with it, and what helps.

Decided in docs/decisions.md: "The doctor ends with 1 for a warning, too".
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import click
from gpuyard.cli import (
    alterations,
    bypass,
    callers,
    devices,
    rights,
    scheduler_config,
    schemas,
    scraping,
    settings_file,
    wiring,
)
from gpuyard.cli.calling import ANSWER_IS_NO, BAD_INPUT, calling, end, reaching
from gpuyard.cli.files import STANDARD_INPUT
from gpuyard.cli.findings import Finding, all_well, told
from gpuyard.cli.output import page
from gpuyard.cli.patient import Check, Patient, examined
from gpuyard.common.formats import formatted, show
from gpuyard.common.kube.client import Client

MEANT = "name the file that kube-scheduler has as --config"

CHECKS: Mapping[str, Check] = {
    wiring.ANSWERS: wiring.answers,
    wiring.TOLD: wiring.told,
    wiring.ASKS: wiring.asks,
    callers.KNOWN: callers.known,
    settings_file.TAKEN: settings_file.taken,
    rights.GRANTED: rights.granted,
    schemas.THERE: schemas.there,
    bypass.GOVERNED: bypass.by_queue,
    alterations.COUNTED: alterations.counted,
    devices.MOCKED: devices.mocked,
    devices.OFFERED: devices.offered,
    devices.REST: devices.left_behind,
    scraping.SCRAPED: scraping.scraped,
}
"""What should be so, and who looks whether it is."""


@click.group(invoke_without_command=True)
@click.option("--extender", default="", metavar="URL", help="Health URL of an extender outside the cluster.")
@click.option("--prometheus", default="", metavar="URL", help="Check that this Prometheus has gpuyard's metrics.")
@formatted
@reaching
@click.pass_context
def doctor(asked: click.Context, /, kubeconfig: str, context: str, output: str, **urls: str) -> None:
    """Find what is wrong with gpuyard in a cluster. The exit code is 0 if all is well, 1 if something was found.

    The command checks that an extender answers kube-scheduler and nobody else; its settings, rights, CRDs, queues and
    metrics; pods that were changed while they ran; the mock; the GPUs of nodes, and what a removed mock has left on
    them. It changes nothing.
    """
    if asked.invoked_subcommand:
        return

    async def work(client: Client) -> list[Finding]:
        patient = Patient(client, **urls)
        await patient.look()
        return [finding for name, check in CHECKS.items() for finding in await examined(patient, name, check)]

    _answer(calling(work, kubeconfig, context), output)


@doctor.command("scheduler-config")
@click.argument("file")
@formatted
def scheduler_config_file(file: str, output: str) -> None:
    """Find what is wrong with a KubeSchedulerConfiguration: FILE, or - for standard input.

    A ConfigMap that holds one will do as well. 0 if kube-scheduler would ask gpuyard as it should, 1 if not.
    """
    try:
        text = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        found = scheduler_config.lint(scheduler_config.read(text), file)
    except OSError as error:
        end(f"{file}: {(error.strerror or str(error)).lower()}; {MEANT}", BAD_INPUT)
    except scheduler_config.NoConfiguration as error:
        end(f"{file}: {error}; {MEANT}", BAD_INPUT)
    _answer(found, output)


def _answer(found: list[Finding], output: str) -> None:
    show(found, output, lambda: told(found, page()))
    if not all_well(found):
        raise SystemExit(ANSWER_IS_NO)
