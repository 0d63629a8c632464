"""What the exporter waits for before it shows anything."""

from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.kube.objects import Meta
from gpuyard.common.topology.maps import ConfigMap
from gpuyard.dcgm_exporter.__main__ import Serving

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
