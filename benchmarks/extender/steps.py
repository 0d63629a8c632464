"""How long each step of the work beside the verbs takes in a cluster of 5,000 nodes with something of everything.

By processor time and without Python's garbage collector. The walks and their steps are those of the tests that count
the calls in each (`tests/extender/test_steps.py`); so is the list of what is not bounded, which has no bar here.
"""

import asyncio
import gc
import time
from collections.abc import Iterator

import structlog

from benchmarks.measure import Figure, at_most
from tests.extender.test_steps import GROWS
from tests.extender.walks import Yard, walks
from tests.mixed_cluster import Size

SIZE = Size(5_000)
LONGEST, MOST = 5.0, 1.0
"""Milliseconds that one step may take, and 99 of 100."""

LIMIT = 60.0
"""Seconds of processor time after which a walk is left."""


def milliseconds(steps: Iterator[object]) -> list[float]:
    """Processor time of each step, in order of length."""
    taken, end = [], time.thread_time() + LIMIT
    while (start := time.thread_time()) < end:
        is_done = next(steps, steps) is steps
        taken.append(1000 * (time.thread_time() - start))
        if is_done:
            break
    return sorted(taken)


async def measured() -> list[Figure]:
    """All walks, in their order."""
    found, yard = [], Yard(SIZE)
    gc.collect()
    gc.freeze()
    for name, walk in walks(SIZE).items():
        # The planner turns the collector on again between two looks.
        gc.disable()
        taken = milliseconds(walk(yard))
        bars = (None, None) if name in GROWS else (at_most(LONGEST), at_most(MOST))
        how = f"{len(taken)} steps"
        found.append(Figure(f"{name}: longest step", taken[-1], bars[0], "ms CPU", how))
        if len(taken) >= 100:
            found.append(Figure(f"{name}: p99", taken[int(len(taken) * 0.99)], bars[1], "ms CPU", how))
    return found


def figures() -> list[Figure]:
    """Every walk of the tests."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    return asyncio.run(measured())
