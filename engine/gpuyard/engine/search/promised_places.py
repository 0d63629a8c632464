"""Places promised before this cycle.

A plan's promise is for the pod it names, or for another one of the same owner. Where no such pod waits, a *ghost*
stands in line in its place, so that nobody behind it gets the room.
"""

from collections.abc import Iterator

from gpuyard.engine.model import Pod, Promise, State, Workload
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.placement import Standing
from gpuyard.engine.rules.promises import inherits, nominations


def standing_places(snapshot: Snapshot) -> tuple[dict[str, Standing], list[tuple[Workload, Pod]]]:
    """The promised places of pods that wait, and the ghosts of those that do not exist yet (with places as well)."""
    places = {pod.key: Standing(pod.nominated) for pod in nominations(snapshot)}
    ghosts = []
    taken: set[str] = set()
    for promise in snapshot.promises:
        pod = next((p for p in _heirs(snapshot, promise) if p.key not in taken), None)
        if pod is None:
            workload, pod = _ghost(promise)
            ghosts.append((workload, pod))
        taken.add(pod.key)
        places[pod.key] = Standing(promise.node, promise.gpu_groups)
    return places, ghosts


def _heirs(snapshot: Snapshot, promise: Promise) -> Iterator[Pod]:
    """The waiting pods that may take a promise, the named one first."""
    named = snapshot.pods.get(promise.pod)
    if named is not None and named.state is State.PENDING and inherits(promise, named, _queue_of(snapshot, named)):
        yield named
    if promise.owner:
        for key in sorted(snapshot.waiting.get(promise.queue, ())):
            for pod in snapshot.members[key]:
                if pod.state is State.PENDING and pod is not named and inherits(promise, pod, promise.queue):
                    yield pod


def _queue_of(snapshot: Snapshot, pod: Pod) -> str:
    workload = snapshot.workloads.get(pod.workload)
    return (workload.queue or "") if workload else ""


def _ghost(promise: Promise) -> tuple[Workload, Pod]:
    key = f"{promise.pod} of plan {promise.plan}"
    workload = Workload(key=key, queue=promise.queue, priority=promise.priority)
    return workload, Pod(key=key, workload=key, shape=promise.shape)
