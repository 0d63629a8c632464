"""What the exporter waits for before it shows anything, and where it listens."""

import asyncio
import json
from pathlib import Path

import pytest
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.kube.objects import Meta
from gpuyard.common.process import Manners, Process
from gpuyard.common.topology.maps import ConfigMap
from gpuyard.dcgm_exporter.__main__ import Options, Serving, serve

from tests.mock.daemons import free_port

TOPOLOGY = "nodes: {n: {gpu-product: x, gpu-memory: 5, gpus: [{}]}}"


def test_the_last_cache_to_be_filled_may_be_that_of_the_switches() -> None:
    synced: list[bool] = []
    serving = Serving("n")
    serving.synced = lambda: bool(synced)
    found = ConfigMap(Meta(name="topology"), {"topology.yml": TOPOLOGY})
    serving.maps.take(Batch([Change(None, found)], listed=True))
    assert not serving.exporter.ready
    synced.append(True)
    serving.take_switches(Batch([], listed=True))
    assert serving.exporter.ready
    assert list(serving.exporter.nodes) == ["n"]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """The way to an API server that does not answer."""
    named = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(named))
    return str(tmp_path / "kubeconfig")


async def listens(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


@pytest.mark.row("X-92")
@pytest.mark.parametrize(("host", "elsewhere"), [("127.0.0.1", False), (None, True)])
async def test_it_listens_on_the_address_that_it_is_given_and_else_on_all(
    kubeconfig: str, host: str | None, elsewhere: bool
) -> None:
    options = Options(kubeconfig, context="", namespace="default", node="n", host=host, port=free_port())

    async def body(process: Process) -> None:
        await serve(process, options)
        assert await listens("127.0.0.1", options.port)
        assert await listens("127.0.0.2", options.port) == elsewhere
        process.stopping.set()

    await Process("test").live(body, Manners(ops_port=0, ops_host="127.0.0.1", grace=5))
