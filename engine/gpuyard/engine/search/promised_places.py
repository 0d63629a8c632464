"""Places promised before this cycle.

A plan's promise is for the pod it names, or for another one of the same owner. Where no such pod waits, a *ghost*
stands in line in its place, so that nobody behind it gets the room. What an elastic plan promises goes to the waiting
pods of its workload as far as it suffices; a ghost stands in line for the rest.
"""

from collections.abc import Iterator, Mapping

from gpuyard.engine.model import Pod, Promise, State, Workload
from gpuyard.engine.model.constraints import suited
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.placement import Standing
from gpuyard.engine.rules.promises import inherits, less, nominations, untaken


def standing_places(snapshot: Snapshot) -> tuple[dict[str, Standing], list[tuple[Workload, Pod]]]:
    """The promised places of pods that wait, and the ghosts of those that do not exist yet (with places as well)."""
    places = {pod.key: Standing(pod.nominated) for pod in nominations(snapshot)}
    ghosts = []
    taken: set[str] = set()
    for promise in snapshot.promises:
        if promise.elastic:
            shared, rest = _dealt(snapshot, promise, places)
            places.update(shared)
            if rest is not None:
                ghosts.append(_ghost(rest, _queue_of_workload(snapshot, promise)))
                places[ghosts[-1][1].key] = Standing(rest.node)
            continue
        pod = next((p for p in _heirs(snapshot, promise) if p.key not in taken), None)
        if pod is None:
            workload, pod = _ghost(promise, promise.queue)
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


def _dealt(
    snapshot: Snapshot, promise: Promise, taken: Mapping[str, Standing]
) -> tuple[dict[str, Standing], Promise | None]:
    """The places of an elastic plan's promise for pods of its workload that wait and have none, and what is left."""
    members = snapshot.members.get(promise.workload, ())
    left, places = untaken(promise, members), {}
    for pod in members:
        if left is not None and pod.waits and pod.key not in taken and _may_come(snapshot, promise, pod):
            left, places[pod.key] = less(left, pod), Standing(promise.node)
    return places, left


def _may_come(snapshot: Snapshot, promise: Promise, pod: Pod) -> bool:
    """Whether a pod inherits the promise and its node suits it."""
    nodes = suited(snapshot.fleet, pod.shape)
    return (nodes is None or promise.node in nodes) and inherits(promise, pod, _queue_of(snapshot, pod))


def _queue_of(snapshot: Snapshot, pod: Pod) -> str:
    workload = snapshot.workloads.get(pod.workload)
    return (workload.queue or "") if workload else ""


def _queue_of_workload(snapshot: Snapshot, promise: Promise) -> str:
    """The queue that an elastic plan's promise counts in."""
    workload = snapshot.workloads.get(promise.workload)
    return promise.queue or (workload.queue if workload else None) or ""


def _ghost(promise: Promise, queue: str) -> tuple[Workload, Pod]:
    whose = promise.pod or f"{promise.workload} on {promise.node}"
    key = f"{whose} of plan {promise.plan}"
    workload = Workload(key=key, queue=queue, priority=promise.priority)
    return workload, Pod(key=key, workload=key, shape=promise.shape)
