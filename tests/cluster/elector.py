"""A process that takes part in an election and, while it leads, writes its name again and again.

    python -m tests.cluster.elector KUBECONFIG NAMESPACE NAME

It prints what happens, one word a line: up, leading, wrote, ended.
"""

import asyncio
import itertools
import sys

from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client, Timeouts
from gpuyard.common.kube.errors import KubeError
from gpuyard.common.kube.resources import CONFIG_MAPS
from gpuyard.common.lease import Elector, Timing
from gpuyard.common.process import Manners, Process, run

TIMING = Timing(duration=6, deadline=4, retry=0.5)


def say(word: str) -> None:
    print(word, flush=True)  # noqa: T201


async def write(client: Client, namespace: str, name: str) -> None:
    """The leader's work: act, again and again, through a client that asks whether it may."""
    say("leading")
    try:
        for number in itertools.count():
            try:
                await client.patch(CONFIG_MAPS.named("work", namespace), {"data": {"by": name, "n": str(number)}})
                say("wrote")
            except KubeError as error:
                say(type(error).__name__)
            await asyncio.sleep(0.2)
    finally:
        say("ended")


async def body(process: Process) -> None:
    kubeconfig, namespace, name = sys.argv[1:]
    client = await process.enter(Client(await find_access(kubeconfig), Timeouts(total=1)))
    elector = Elector(client, "gpuyard-test", namespace, name, timing=TIMING)
    say("up")
    process.spawn("lease", elector.run(lambda: write(client.fenced(lambda: elector.leading), namespace, name)))


if __name__ == "__main__":
    sys.exit(run("elector", body, Manners(ops_port=0, ops_host="127.0.0.1")))
