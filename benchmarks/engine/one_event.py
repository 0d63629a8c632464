"""What one changed pod costs in a big cluster: the next snapshot and a cycle over it; and the snapshot's memory."""

import itertools
import tracemalloc

import msgspec
from gpuyard.engine.model import State
from gpuyard.engine.plan import Cycle
from gpuyard.engine.settings import Settings
from gpuyard.engine.snapshot import Snapshot

from benchmarks.engine.yards import full
from benchmarks.measure import Figure, at_most, in_loops

HOW = "benchmarks.engine.one_event"
NODES, PODS, WAITING = 5_000, 50_000, 500
MIB = 1 << 20


def memory_of_snapshot() -> tuple[Snapshot, float]:
    """The big snapshot, and the MiB it takes."""
    tracemalloc.start()
    snapshot = full(NODES, PODS, WAITING)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return snapshot, used / MIB


def figures() -> list[Figure]:
    """Time and memory."""
    snapshot, mib = memory_of_snapshot()
    running = itertools.cycle(pod for pod in snapshot.pods.values() if pod.state is State.RUNNING)
    settings = Settings()

    def one_event() -> None:
        pod = next(running)
        changed = snapshot.with_pod(msgspec.structs.replace(pod, labels={"changed": "yes"}))
        actions = Cycle(changed, settings).run().actions
        if actions:
            raise AssertionError(f"nobody can run, yet there are actions: {actions[:3]}")

    waiting = [pod for pod in snapshot.pods.values() if pod.waits]

    def grants() -> None:
        """Reserve a share of the queue for each pod that waits, and let it go again."""
        for pod in waiting:
            snapshot.with_pod(msgspec.structs.replace(pod, state=State.BOUND)).with_pod(pod)

    one_event()
    each = in_loops(grants) / (2 * len(waiting))
    return [
        Figure("one changed pod of 50,000: snapshot and cycle", in_loops(one_event), at_most(0.1), "loops", HOW),
        Figure("one reservation, or its end, in that snapshot (0.2 ms)", each, at_most(0.00054), "loops", HOW),
        Figure("memory of that snapshot", mib, at_most(250), "MiB", HOW),
    ]
