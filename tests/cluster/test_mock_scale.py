"""The mock at size: a hundred nodes of eight GPUs, 800 pods, a storm of a thousand pod events."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.resources import PODS
from gpuyard.sandbox import Spec, down, up

from tests.mock.daemons import Mock, a_pod, eventually, topology

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(900)]

NODES = 100
PER_NODE = 8
AT_ONCE = 50


@pytest.fixture(scope="module")
def mock(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mock]:
    """A sandbox of a hundred nodes that the topology gives eight GPUs each."""
    cluster = up(Spec(name=next(sandbox_names), nodes=NODES, gpus=0))
    try:
        running = Mock(cluster, tmp_path_factory.mktemp("mock"))
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        running.put(topology({f"node-{n}": PER_NODE for n in range(1, NODES + 1)}))
        eventually(lambda: running.gpus_of(f"node-{NODES}") == ("8", "8"), within=120, pause=1)
        yield running
        running.stop()
    finally:
        down(cluster.name)


def each(mock: Mock, work: list[Callable[[Client], Coroutine[Any, Any, object]]]) -> None:
    """Make many calls, some of them at once."""

    async def all_of_them() -> None:
        gate = asyncio.Semaphore(AT_ONCE)
        async with Client(await find_access(str(mock.cluster.kubeconfig))) as client:

            async def one(call: Callable[[Client], Coroutine[Any, Any, object]]) -> None:
                async with gate:
                    await call(client)

            await asyncio.gather(*map(one, work))

    asyncio.run(all_of_them())


def creating(number: int) -> Callable[[Client], Coroutine[Any, Any, object]]:
    body = a_pod(f"p{number}", node=f"node-{number % NODES + 1}")
    return lambda client: client.create(PODS.within("default"), body)


def deleting(number: int) -> Callable[[Client], Coroutine[Any, Any, object]]:
    return lambda client: client.delete(PODS.named(f"p{number}", "default"), grace=0)


def owners(mock: Mock) -> set[str]:
    return {each["metadata"]["pod"] for each in mock.usage().values()}


@pytest.mark.row("M-37")
def test_eight_hundred_pods_are_all_attributed_and_one_exporter_shows_them(mock: Mock) -> None:
    each(mock, [creating(number) for number in range(NODES * PER_NODE)])
    wanted = {f"p{number}" for number in range(NODES * PER_NODE)}
    eventually(lambda: owners(mock) == wanted, within=120, pause=1)
    eventually(lambda: {labels.get("pod") for labels in mock.series().values()} == wanted, within=30, pause=1)
    began = time.perf_counter()
    size = len(mock.scrape())
    print(f"scrape of {NODES * PER_NODE} GPUs: {time.perf_counter() - began:.3f} s, {size} bytes")  # noqa: T201
    print({name: f"{daemon.memory():.0f} MiB" for name, daemon in mock.daemons.items()})  # noqa: T201


@pytest.mark.row("M-46")
def test_a_storm_of_a_thousand_events_ends_as_a_rebuild_would_in_few_writes(mock: Mock) -> None:
    before = len(list(mock.writes()))
    began = time.monotonic()
    each(mock, [deleting(number) for number in range(0, NODES * PER_NODE, 2)])
    each(mock, [creating(1000 + 2 * number) for number in range(NODES * PER_NODE // 4)])
    took = time.monotonic() - began
    wanted = {f"p{number}" for number in range(1, NODES * PER_NODE, 2)}
    wanted |= {f"p{1000 + 2 * number}" for number in range(NODES * PER_NODE // 4)}
    eventually(lambda: owners(mock) == wanted, within=120, pause=1)
    maps = [entry for entry in list(mock.writes())[before:] if entry["objectRef"]["resource"] == "configmaps"]
    print(f"storm: 600 calls, each more than one event, in {took:.1f} s; {len(maps)} writes")  # noqa: T201
    per_second = Counter(entry["requestReceivedTimestamp"][:19] for entry in maps)
    # Writes half a second apart: three can fall into one second of the clock.
    assert max(per_second.values()) <= 3
    text = mock.text()
    assert mock.daemons["status_updater"].stop() == 0
    mock.daemons["status_updater"] = mock.start("status_updater")
    eventually(mock.daemons["status_updater"].ready, within=60)
    time.sleep(5)
    assert yaml.load(mock.text(), Loader=yaml.CSafeLoader) == yaml.load(text, Loader=yaml.CSafeLoader)
