"""How long `gpuyard plan --help` takes, Python's own start included."""

import subprocess
import sys

from benchmarks.measure import Figure, at_most, in_loops

HOW = "benchmarks.reading.help_of_plan"
COMMAND = [sys.executable, "-m", "gpuyard.cli", "plan", "--help"]


def figures() -> list[Figure]:
    """Time from call to end."""

    def helped() -> None:
        subprocess.run(COMMAND, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - our own command

    return [Figure("gpuyard plan --help (0.15 s)", in_loops(helped, 9), at_most(0.4), "loops", HOW)]
