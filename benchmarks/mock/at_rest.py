"""What the mock costs while nothing happens: four nodes of eight GPUs full of pods, on a real API server.

The plugin talks to a stand-in for kubelet; the exporter is scraped every fifteen seconds.
"""

import asyncio
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuyard.sandbox import Spec, down, up

from benchmarks.measure import Figure, at_most
from tests.mock.daemons import Mock, a_pod, eventually, topology
from tests.mock.kubelet import kubelet_in

NODES = 4
PER_NODE = 8
MIB = {"device_plugin": 60, "dcgm_exporter": 60, "status_updater": 110, "gfd": 110}
REST = 60
SCRAPE = 15


def figures() -> list[Figure]:
    """Memory and processor time of each component over a minute."""
    with tempfile.TemporaryDirectory(prefix="gpuyard-") as folder, kubelet(Path(folder)), mock(Path(folder)) as running:
        before = {name: daemon.cpu() for name, daemon in running.daemons.items()}
        for _ in range(REST // SCRAPE):
            time.sleep(SCRAPE)
            running.scrape()
        used = {name: 100 * (daemon.cpu() - before[name]) / REST for name, daemon in running.daemons.items()}
        memory = {name: daemon.memory() for name, daemon in running.daemons.items()}
    how = f"{NODES} nodes x {PER_NODE} GPUs, all used, {REST} s"
    return [
        *(Figure(f"{name} at rest: memory", memory[name], at_most(most), "MiB", how) for name, most in MIB.items()),
        *(Figure(f"{name} at rest: processor", used[name], at_most(1), "% of a core", how) for name in MIB),
    ]


@contextmanager
def mock(folder: Path) -> Iterator[Mock]:
    """The four components, once they have come to rest."""
    as_in_the_image(folder)
    cluster = up(Spec(name="bench-at-rest", nodes=NODES, gpus=0))
    try:
        running = Mock(cluster, folder)
        running.arguments["device_plugin"] = ["--node=node-1", f"--folder={folder}", f"--pod-resources={folder}/none"]
        running.daemons["device_plugin"] = running.start("device_plugin")
        running.put(topology({f"node-{n}": PER_NODE for n in range(1, NODES + 1)}))
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        pods = [a_pod(f"p{n}", node=f"node-{n % NODES + 1}") for n in range(NODES * PER_NODE)]
        cluster.kubectl("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, pods)))
        eventually(lambda: len(running.usage()) == len(pods), within=60)
        eventually(lambda: all(daemon.ready() for daemon in running.daemons.values()), within=60)
        time.sleep(5)
        yield running
        running.stop()
    finally:
        down(cluster.name)


def as_in_the_image(folder: Path) -> None:
    """Hide what only development has: structlog loads rich, 3 MiB, where it finds it."""
    (folder / "rich.py").write_text("raise ImportError('rich is not in the image')\n")
    os.environ["PYTHONPATH"] = str(folder)


@contextmanager
def kubelet(folder: Path) -> Iterator[None]:
    """A stand-in for kubelet, on a thread of its own."""
    over, ready = threading.Event(), threading.Event()

    async def serve() -> None:
        async with kubelet_in(folder):
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()
