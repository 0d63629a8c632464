"""How long a cycle keeps its caller waiting between two pauses, in a big cluster.

By processor time, and without Python's garbage collector, which does not run while the planner steps. A call arrives at
any time: how much of all time lies in long steps says more than how many of the steps are long.
"""

import gc
import time
from collections.abc import Iterator
from statistics import median

from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.cycle import Cycle

from benchmarks.calibration import loop
from benchmarks.engine.yards import full, to_move, with_room
from benchmarks.measure import Figure, at_most

HOW = "benchmarks.engine.stepping"
NODES, PODS, WAITING = 5_000, 50_000, 500
PLENTY = 0.03
"""So much of a cycle's time may lie in long steps."""

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


def long(snapshot: Snapshot, settings: Settings, limit: float) -> tuple[float, float]:
    """How much of a cycle's time lies in steps above a limit, and the longest one."""
    gc.collect()
    gc.disable()
    taken = list(steps(Cycle(snapshot, settings)))
    gc.enable()
    return sum(step for step in taken if step > limit) / sum(taken), max(taken)


def figures_for(what: str, snapshot: Snapshot, settings: Settings) -> list[Figure]:
    """Medians of five cycles: in loops, and in milliseconds as they are here."""
    runs = [(unit := calibration(), *long(snapshot, settings, unit * MILLISECOND / 10)) for _ in range(5)]
    unit, share, most = (median(column) for column in zip(*runs, strict=True))
    return [
        Figure(f"{what}: time in steps above 0.1 ms", 100 * share, at_most(100 * PLENTY), "%", HOW),
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
