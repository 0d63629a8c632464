"""The mock at size: a hundred nodes of eight GPUs, 800 pods, a storm of a thousand pod events."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import Spec, down, up

from tests.cluster.share import others_share
from tests.mock.daemons import Mock, eventually, topology
from tests.mock.storm import busiest, creating, deleting, rage

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(900)]

NODES = 100
PER_NODE = 8


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


@pytest.fixture(scope="module")
def full(mock: Mock) -> Mock:
    """A pod on each GPU; the utilization of those on one node is drawn anew each second."""
    drawn = {"run.ai/simulated-gpu-utilization": "10-90"}
    pods = range(NODES * PER_NODE)
    calls = [creating(number, on(number), annotations=drawn if on(number) == "node-2" else {}) for number in pods]
    rage(mock.cluster.kubeconfig, calls)
    return mock


def on(number: int) -> str:
    """The node of a pod."""
    return f"node-{number % NODES + 1}"


def owners(mock: Mock) -> set[str]:
    """The pods that are shown as running."""
    return {each["metadata"]["pod"] for each in mock.usage().values() if each["utilization"]}


@pytest.mark.row("M-37")
def test_eight_hundred_pods_are_all_attributed_and_one_exporter_shows_them(full: Mock) -> None:
    wanted = {f"p{number}" for number in range(NODES * PER_NODE)}
    eventually(lambda: owners(full) == wanted, within=120, pause=1)
    eventually(lambda: {labels.get("pod") for labels in full.series().values()} == wanted, within=30, pause=1)
    began = time.perf_counter()
    size = len(full.scrape())
    print(f"scrape of {NODES * PER_NODE} GPUs: {time.perf_counter() - began:.3f} s, {size} bytes")  # noqa: T201
    print({name: f"{daemon.memory():.0f} MiB" for name, daemon in full.daemons.items()})  # noqa: T201


@pytest.mark.alone
@pytest.mark.row("M-46")
def test_a_storm_of_a_thousand_events_in_ten_seconds_ends_as_a_rebuild_would_in_few_writes(full: Mock) -> None:
    before = len(list(full.writes()))
    fresh = [1000 + number for number in range(0, NODES * PER_NODE, 2)]
    calls = [deleting(number) for number in range(0, NODES * PER_NODE, 2)]
    heard = rage(full.cluster.kubeconfig, calls + [creating(number, on(number)) for number in fresh])
    wanted = {f"p{number}" for number in range(1, NODES * PER_NODE, 2)} | {f"p{number}" for number in fresh}
    eventually(lambda: owners(full) == wanted, within=120, pause=1)
    maps = [entry for entry in list(full.writes())[before:] if entry["objectRef"]["resource"] == "configmaps"]
    print(f"storm: {busiest(heard)} events in 10 s, {len(heard)} in all; {len(maps)} writes")  # noqa: T201
    assert busiest(heard, seconds=10 * others_share()) >= 1000
    for name in {entry["objectRef"]["name"] for entry in maps}:
        at = [received(entry) for entry in maps if entry["objectRef"]["name"] == name]
        assert busiest(at, seconds=1) <= 2, name
    text = full.text()
    full.begin_anew("status_updater")
    eventually(full.daemons["status_updater"].ready, within=60)
    time.sleep(5)
    assert full.text() == text


def received(entry: dict[str, Any]) -> float:
    """When the API server got a request of the audit log."""
    return datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()


@pytest.mark.row("M-49")
def test_a_minute_of_rest_writes_nothing(full: Mock) -> None:
    eventually(lambda: len(owners(full)) == NODES * PER_NODE, within=120, pause=1)
    time.sleep(5)
    before, cpu = len(list(full.writes())), {name: daemon.cpu() for name, daemon in full.daemons.items()}
    time.sleep(60)
    assert len(list(full.writes())) == before
    used = {name: round((daemon.cpu() - cpu[name]) / 60, 4) for name, daemon in full.daemons.items()}
    memory = {name: round(daemon.memory()) for name, daemon in full.daemons.items()}
    print(f"at rest, {NODES} nodes: part of a core {used}, MiB {memory}")  # noqa: T201 - the figures of this run
    assert max(used.values()) <= 0.02
