"""The mock at size: a thousand nodes of eight GPUs that KWOK plays, a pod on each GPU, on a real API server."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.resources import CONFIG_MAPS, NODES, PODS
from gpuyard.sandbox import Spec, down, up

from benchmarks.measure import Figure, at_least, at_most
from tests.mock.daemons import NAMESPACE, Mock, a_pod

COUNT = 1000
PER_NODE = 8
AT_ONCE = 50
PATIENCE = 120
"""Seconds without progress after which the rest is given up."""
POOL = "nodePools: {all: {gpuProduct: Tesla-K80, gpuMemory: 11441, gpuCount: 8}}"
Call = Callable[[Client], Coroutine[Any, Any, object]]


def figures() -> list[Figure]:
    """How fast pods come and are attributed, what the components need, and how often a map is written."""
    with tempfile.TemporaryDirectory(prefix="gpuyard-") as folder, mock(Path(folder)) as running:
        began = time.monotonic()
        each(running, [creating(number) for number in range(COUNT * PER_NODE)])
        created = time.monotonic() - began
        print(f"  {COUNT * PER_NODE} pods created in {created:.0f} s", flush=True)
        attributed = wait(running, COUNT * PER_NODE)
        took = time.monotonic() - began
        memory = {name: daemon.memory() for name, daemon in running.daemons.items()}
        how = f"{COUNT} KWOK nodes x {PER_NODE} GPUs, {COUNT * PER_NODE} pods"
        return [
            Figure("pods attributed", attributed, at_least(COUNT * PER_NODE), "pods", how),
            Figure("pods created on the real API server", COUNT * PER_NODE / created, None, "per second", how),
            Figure("pods attributed from first to last", COUNT * PER_NODE / took, None, "per second", how),
            Figure("writes to one map in one second", busiest(running), at_most(3), "writes", "clock seconds: 2 + 1"),
            Figure("status_updater: memory", memory["status_updater"], at_most(300), "MiB", how),
            *(Figure(f"{name}: memory", memory[name], None, "MiB", how) for name in ("gfd", "dcgm_exporter")),
        ]


@contextmanager
def mock(folder: Path) -> Iterator[Mock]:
    """The mock, once every node has its GPUs."""
    cluster = up(Spec(name="bench-scale", nodes=COUNT, gpus=0))
    try:
        running = Mock(cluster, folder)
        try:
            cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
            each(running, [labelling(number) for number in range(1, COUNT + 1)])
            running.put(POOL)
            wait(running, 0, maps=COUNT)
            yield running
        finally:
            running.stop()
    finally:
        down(cluster.name)


def labelling(number: int) -> Call:
    """Put a node into the pool."""
    body = {"metadata": {"labels": {"run.ai/simulated-gpu-node-pool": "all"}}}
    return lambda client: client.patch(NODES.named(f"node-{number}"), body)


def creating(number: int) -> Call:
    """A pod with one GPU."""
    body = a_pod(f"p{number}", node=f"node-{number % COUNT + 1}")
    return lambda client: client.create(PODS.within("default"), body)


def each(mock: Mock, work: list[Call]) -> None:
    """Make many calls, some of them at once."""

    async def all_of_them() -> None:
        gate = asyncio.Semaphore(AT_ONCE)
        async with Client(await find_access(str(mock.cluster.kubeconfig))) as client:

            async def one(call: Call) -> None:
                async with gate:
                    await call(client)

            await asyncio.gather(*map(one, work))

    asyncio.run(all_of_them())


def wait(mock: Mock, pods: int, maps: int = 0) -> int:
    """Until so many maps are there and so many pods are written in them, or no more comes; how many are."""
    best, since = written(mock), time.monotonic()
    while best != (max(maps, best[0]), pods) and time.monotonic() - since < PATIENCE:
        time.sleep(2)
        if (found := written(mock)) != best:
            best, since = found, time.monotonic()
            print(f"  {found[0]} maps, {found[1]} pods in them", flush=True)
    return best[1]


def written(mock: Mock) -> tuple[int, int]:
    """How many maps there are, and how many pods they speak of."""

    async def texts() -> list[str]:
        async with Client(await find_access(str(mock.cluster.kubeconfig))) as client:
            items = await client.items(CONFIG_MAPS.within(NAMESPACE))
        own = [item for item in items if item["metadata"]["name"].startswith("topology-")]
        return [item["data"]["topology.yml"] for item in own]

    found = asyncio.run(texts())
    return len(found), sum(text.count("allocatedBy") for text in found)


def busiest(mock: Mock) -> int:
    """The most writes that one map had within one second of the clock."""
    seconds = Counter(
        (entry["objectRef"].get("name"), entry["requestReceivedTimestamp"][:19])
        for entry in mock.writes()
        if entry["objectRef"]["resource"] == "configmaps"
    )
    return max(seconds.values())
