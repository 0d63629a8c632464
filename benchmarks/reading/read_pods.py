"""How long it takes to read a big cluster's JSON into a snapshot: decoded, checked, translated, indexed."""

import tempfile
from pathlib import Path

from gpuyard.cli.reading import read
from gpuyard.engine.model.settings import Settings

from benchmarks.measure import Figure, at_most, in_loops
from benchmarks.reading.clusters import written

HOW = "benchmarks.reading.read_pods"
NODES, PODS = 5_000, 50_000


def figures() -> list[Figure]:
    """Time to read the cluster."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        path.write_bytes(written(NODES, PODS))

        def reading() -> None:
            pods = read([str(path)], Settings(), None).snapshot.pods
            if len(pods) != PODS:
                raise AssertionError(f"{len(pods)} pods were read")

        return [Figure("reading 50,000 pods and 5,000 nodes of JSON", in_loops(reading), at_most(4), "loops", HOW)]
