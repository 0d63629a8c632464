"""How long a cycle keeps its caller waiting between two pauses, in a big cluster.

By processor time, and without Python's garbage collector: when it runs is for the process to say.
"""

import gc
import time
from collections.abc import Iterator
from statistics import median

from gpuyard.engine.plan import Cycle
from gpuyard.engine.settings import Settings
from gpuyard.engine.snapshot import Snapshot

from benchmarks.calibration import loop
from benchmarks.engine.yards import full, to_move, with_room
from benchmarks.measure import Figure, at_most

HOW = "benchmarks.engine.stepping"
NODES, PODS, WAITING = 5_000, 50_000, 500
MILLISECOND = 0.0027
"""One millisecond in loops, where a loop takes 0.37 s."""


def calibration() -> float:
    """Time of the loop on the clock that the steps are measured by."""
    start = time.thread_time()
    loop()
    return time.thread_time() - start


def steps(cycle: Cycle) -> Iterator[float]:
    """The seconds from each pause to the next."""
    start = time.thread_time()
    for _ in cycle.steps():
        yield time.thread_time() - start
        start = time.thread_time()


def longest(snapshot: Snapshot, settings: Settings) -> tuple[float, float]:
    """Of one cycle the step that only one of a thousand passes, and the longest one."""
    gc.collect()
    gc.disable()
    taken = sorted(steps(Cycle(snapshot, settings)))
    gc.enable()
    return taken[len(taken) * 999 // 1000], taken[-1]


def figures_for(what: str, snapshot: Snapshot, settings: Settings) -> list[Figure]:
    """Medians of five cycles: in loops, and in milliseconds as they are here."""
    runs = [(calibration(), *longest(snapshot, settings)) for _ in range(5)]
    unit, rare, most = (median(column) for column in zip(*runs, strict=True))
    return [
        Figure(f"{what}: 999 of 1,000 steps within", rare / unit, at_most(MILLISECOND), "loops", HOW),
        Figure(f"{what}: longest step", most / unit, at_most(MILLISECOND), "loops", HOW),
        Figure(f"{what}: longest step here", most * 1000, None, "ms", HOW),
    ]


def figures() -> list[Figure]:
    """Clusters in which nobody can start, everybody can, and many have to move."""
    size = (NODES, PODS, WAITING)
    return [
        *figures_for("nobody can start", full(*size), Settings()),
        *figures_for("all 500 start", with_room(*size), Settings()),
        *figures_for("41 gangs by moving others", to_move(*size), Settings(max_moved=-1)),
    ]
