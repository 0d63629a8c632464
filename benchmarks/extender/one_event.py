"""What one pod's end costs the extender in processor time: 5,000 nodes, 20,000 pods, and the planner's cycle after it.

In memory: the API server's part, and reading from the watch, is what `at_rest` adds.
"""

import asyncio
import gc
import time
from collections.abc import Sequence
from statistics import median

from benchmarks.measure import Figure, at_most
from tests.extender.builders import Json, node, pod, queue
from tests.extender.planner.stage import Stage

NODES = 5000
PODS = 20_000
QUEUES = 20
EVENTS = 15


def running(number: int) -> Json:
    """A pod in its place."""
    return pod(f"p{number}", f"q{number % QUEUES}", on=f"node-{number % NODES:04}")


def stage(waits: Sequence[Json]) -> Stage:
    """A cluster in use, and who waits in it."""
    nodes = (node(f"node-{number:04}") for number in range(NODES))
    made = Stage(*nodes, *(queue(f"q{number}") for number in range(QUEUES)), queue("shut", limit=0))
    made.bench.put(*map(running, range(PODS)))
    made.submit(*waits)
    gc.collect()
    gc.freeze()
    return made


async def milliseconds(waits: Sequence[Json]) -> list[float]:
    """Processor time of each event with its cycle."""
    made, found = stage(waits), []
    for _ in range(2):
        await made.look()
    for number in range(EVENTS):
        begin = time.process_time()
        made.bench.drop(running(number))
        await made.look()
        found.append(1000 * (time.process_time() - begin))
    return found


def figures() -> list[Figure]:
    """With one pod that waits over its limit, and with five hundred."""
    found = []
    for count in (1, 500):
        waits = [pod(f"waits-{number}", "shut", verdict="no") for number in range(count)]
        times = asyncio.run(milliseconds(waits))
        name = f"one pod's end and the cycle after it, {count} over their limit"
        how = f"{NODES} nodes, {PODS} pods; longest {max(times):.0f} ms of {EVENTS}"
        found.append(Figure(name, median(times), at_most(100), "ms CPU", how))
    return found
