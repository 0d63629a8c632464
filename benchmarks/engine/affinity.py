"""How long a cycle keeps its caller waiting between two pauses where pods seek and avoid each other."""

from statistics import median

from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot

from benchmarks.engine.stepping import MILLISECOND, calibration, long
from benchmarks.engine.yards import with_affinity
from benchmarks.measure import Figure, at_most

HOW = "benchmarks.engine.affinity"
MOST = 5 * MILLISECOND
"""The longest that a verb may have to wait for a step of other work."""


def figures_for(what: str, snapshot: Snapshot) -> list[Figure]:
    """Medians of three cycles."""
    runs = [(unit := calibration(), *long(snapshot, Settings(), unit * MILLISECOND)) for _ in range(3)]
    unit, share, most = (median(column) for column in zip(*runs, strict=True))
    return [
        Figure(f"{what}: longest step", most / unit, at_most(MOST), "loops", HOW),
        Figure(f"{what}: longest step here", most * 1000, None, "ms", HOW),
        Figure(f"{what}: time in steps above 1 ms", 100 * share, None, "%", HOW),
    ]


def figures() -> list[Figure]:
    """The sizes at which a step once took 55 ms and 1.9 s, and the largest that is served."""
    return [
        *figures_for("affinity, 100 nodes and 700 pods", with_affinity(100, 700, 20)),
        *figures_for("affinity, 600 nodes and 4,200 pods", with_affinity(600, 4_200, 100)),
        *figures_for("affinity, 5,000 nodes and 50,000 pods", with_affinity(5_000, 50_000, 500)),
    ]
