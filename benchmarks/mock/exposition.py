"""The exporter's page against prometheus_client's: as many samples, every value new since the last one."""

import asyncio
import time
from itertools import count
from statistics import median

from aiohttp.test_utils import TestClient, TestServer
from gpuyard.common.topology.model import Node
from gpuyard.common.topology.reading import read
from gpuyard.dcgm_exporter.app import Exporter, exporter_app
from gpuyard.dcgm_exporter.families import FAMILIES
from gpuyard.dcgm_exporter.labels import Switches
from gpuyard.dcgm_exporter.page import Page
from gpuyard.dcgm_exporter.readings import Meters
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from benchmarks.measure import Figure, at_most, ratio

PER_NODE = 8
LABELS = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION")


def yard(gpus: int) -> dict[str, Node]:
    """Nodes of eight A100s, each drawing its utilization anew every second."""
    lines = ["nodes:"]
    for n in range(gpus // PER_NODE):
        lines += [f"  node-{n}:", "    gpu-memory: 40960", "    gpu-product: NVIDIA-A100-SXM4-40GB", "    gpus:"]
        lines += [f"      - metrics: {{utilization: 1-100, uid: u{n}-{i}, fb-used: {i}}}" for i in range(PER_NODE)]
    return dict(read("\n".join(lines)).nodes)


class Ours:
    """A page that is scraped a second later each time."""

    def __init__(self, gpus: int) -> None:
        self._page = Page(yard(gpus), Switches())
        self._meters = Meters()
        self._now = 1_000_000

    def scrape(self) -> str:
        """Readings and text."""
        self._now += 1
        return self._page.text(self._now, self._meters)


class Theirs:
    """The same number of samples in prometheus_client, all set anew before each exposition."""

    def __init__(self, gpus: int) -> None:
        self._registry = CollectorRegistry()
        families = [Gauge(family.name, family.help, LABELS, registry=self._registry) for family in FAMILIES]
        names = [(str(i % 8), f"GPU-{i}", "b", f"nvidia{i % 8}", "m", f"node-{i // 8}", "v") for i in range(gpus)]
        self._columns = [[family.labels(*each) for each in names] for family in families]
        self._round = 0

    def scrape(self) -> bytes:
        """Values and text."""
        self._round += 1
        for column in self._columns:
            for row, sample in enumerate(column):
                sample.set(row + self._round)
        return generate_latest(self._registry)


def figures() -> list[Figure]:
    """The ratio at 1,024 GPUs, and a scrape of one node."""
    ours, theirs = Ours(1024), Theirs(1024)
    samples = ours.scrape().count("} ")
    return [
        Figure(
            "1,024 GPUs x 25 families over prometheus_client",
            ratio(ours.scrape, theirs.scrape, 3),
            at_most(1 / 15),
            "ratio",
            f"{samples} samples, all changed; readings and text",
        ),
        Figure(
            "a scrape of a node of 8 GPUs over HTTP",
            asyncio.run(scraped()),
            at_most(2),
            "ms",
            "median of 300, all values changed",
        ),
    ]


async def scraped() -> float:
    """Milliseconds from a request to the last byte of its answer; the caller's own time is in it."""
    now = count(1_000_000)
    exporter = Exporter(lambda: next(now))
    exporter.show(yard(PER_NODE))
    times: list[float] = []
    async with TestClient(TestServer(exporter_app(exporter))) as client:
        for _ in range(300):
            start = time.perf_counter()
            await (await client.get("/metrics")).read()
            times.append(time.perf_counter() - start)
    return median(times) * 1000
