"""How long the engine takes to decide, without reading: whole cycles on clusters of several shapes and sizes."""

import time
from collections.abc import Callable
from statistics import median

from gpuyard.engine.model.results import Bind, Evict, Nominate
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.cycle import Cycle

from benchmarks.engine.yards import to_consolidate, to_fill, to_reclaim
from benchmarks.measure import Figure, at_most, in_loops

HOW = "benchmarks.engine.planning"
GROWTH = 5.5


def cycle(snapshot: Snapshot, expected: dict[type, int], max_moved: int = 16) -> None:
    """Run one cycle and make sure that it did its work."""
    actions = Cycle(snapshot, Settings(max_moved=max_moved)).run().actions
    found = {kind: sum(isinstance(action, kind) for action in actions) for kind in expected}
    if found != expected:
        raise AssertionError(f"the cycle gave {found}, not {expected}")


def filling(pods: int) -> Callable[[], None]:
    """Fill empty nodes."""
    snapshot = to_fill(pods)
    return lambda: cycle(snapshot, {Bind: pods})


def reclaiming(gpus: int) -> Callable[[], None]:
    """Take half of a full cluster back."""
    snapshot = to_reclaim(gpus)
    return lambda: cycle(snapshot, {Evict: gpus, Nominate: gpus})


def consolidating(nodes: int) -> Callable[[], None]:
    """Move small pods for gangs of big ones."""
    snapshot = to_consolidate(nodes)
    count = 41 * nodes // 500 * 10
    return lambda: cycle(snapshot, {Evict: count, Nominate: 2 * count}, max_moved=-1)


def growth(make: Callable[[int], Callable[[], None]], size: int) -> float:
    """How much longer four times as much takes, by processor time: a busy machine is not fair to such short runs."""
    small, large = make(size // 4), make(size)
    times = [(processor_seconds(small), processor_seconds(large)) for _ in range(5)]
    return median(large for _, large in times) / median(small for small, _ in times)


def processor_seconds(work: Callable[[], None]) -> float:
    """Run a piece of work once; the processor time it took."""
    start = time.process_time()
    work()
    return time.process_time() - start


def figures() -> list[Figure]:
    """The three kinds of work, and how each grows."""
    return [
        Figure("fill 4,000 GPUs on 500 nodes", in_loops(filling(4000)), at_most(3.2), "loops", HOW),
        Figure("reclaim 800 GPUs on 200 nodes", in_loops(reclaiming(800)), at_most(2.5), "loops", HOW),
        Figure("consolidate for 41 gangs on 500 nodes", in_loops(consolidating(500)), at_most(30), "loops", HOW),
        Figure("fill, growth to 4 times the size", growth(filling, 4000), at_most(GROWTH), "times", HOW),
        Figure("reclaim, growth to 4 times the size", growth(reclaiming, 3200), at_most(GROWTH), "times", HOW),
        Figure("consolidate, growth to 4 times the size", growth(consolidating, 500), at_most(GROWTH), "times", HOW),
    ]
