"""What one changed pod costs in a big cluster: the next snapshot and a cycle over it; and the snapshot's memory."""

import itertools
import tracemalloc
from collections.abc import Callable

import msgspec
from gpuyard.engine.model import State
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.cycle import Cycle

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


def of_many_kinds(snapshot: Snapshot) -> Snapshot:
    """The same, where each pod that waits asks for something else."""
    waiting = sorted((pod for pod in snapshot.pods.values() if pod.waits), key=lambda pod: pod.key)
    kinds = (msgspec.structs.replace(pod.shape, cpu=pod.shape.cpu + n) for n, pod in enumerate(waiting))
    return snapshot.with_pod(
        *(msgspec.structs.replace(pod, shape=kind) for pod, kind in zip(waiting, kinds, strict=True))
    )


def event_in(snapshot: Snapshot) -> Callable[[], None]:
    """Something that changes one running pod and plans, another one each time."""
    running = itertools.cycle(pod for pod in snapshot.pods.values() if pod.state is State.RUNNING)
    settings = Settings()

    def one_event() -> None:
        pod = next(running)
        changed = snapshot.with_pod(msgspec.structs.replace(pod, labels={"changed": "yes"}))
        actions = Cycle(changed, settings).run().actions
        if actions:
            raise AssertionError(f"nobody can run, yet there are actions: {actions[:3]}")

    one_event()
    return one_event


def figures() -> list[Figure]:
    """Time and memory."""
    snapshot, mib = memory_of_snapshot()
    one_event, of_kinds = event_in(snapshot), event_in(of_many_kinds(snapshot))
    waiting = [pod for pod in snapshot.pods.values() if pod.waits]

    def grants() -> None:
        """Reserve a share of the queue for each pod that waits, and let it go again."""
        for pod in waiting:
            snapshot.with_pod(msgspec.structs.replace(pod, state=State.BOUND)).with_pod(pod)

    each = in_loops(grants) / (2 * len(waiting))
    return [
        Figure("one changed pod of 50,000: snapshot and cycle", in_loops(one_event), at_most(0.1), "loops", HOW),
        Figure("the same, 500 waiting of 500 kinds", in_loops(of_kinds), at_most(0.1), "loops", HOW),
        Figure("one reservation, or its end, in that snapshot (0.2 ms)", each, at_most(0.00054), "loops", HOW),
        Figure("memory of that snapshot", mib, at_most(250), "MiB", HOW),
    ]
