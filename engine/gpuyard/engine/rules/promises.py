"""Who may take the room that is promised: by kube-scheduler's nominations, and by plans that are not finished yet."""

from collections.abc import Iterable

from gpuyard.engine.model import Pod, Promise
from gpuyard.engine.model.snapshot import Snapshot
from msgspec.structs import replace


def inherits(promise: Promise, pod: Pod, queue: str) -> bool:
    """Whether a pod of this queue may take what a promise keeps.

    It is the pod that is named, or one of the same namespace and owner. Either asks for the same, in the same queue: a
    name and an owner anybody can write. What an elastic plan promises is for each pod of the workload, whatever it asks
    for, in the same queue if the promise names one.
    """
    if promise.elastic:
        return bool(promise.workload) and promise.workload == pod.workload and promise.queue in ("", queue)
    if promise.shape != pod.shape or promise.queue != queue:
        return False
    named = promise.pod == pod.key
    return named or (bool(promise.owner) and (promise.owner, promise.namespace) == (pod.owner, pod.namespace))


def untaken(promise: Promise, pods: Iterable[Pod]) -> Promise | None:
    """What is left of an elastic plan's promise beside these pods of its workload; None: its GPUs are all taken."""
    left: Promise | None = promise
    for pod in pods:
        if left is not None and pod.active and pod.node == promise.node and placed_since(pod, promise.since):
            left = less(left, pod)
    return left


def less(promise: Promise, pod: Pod) -> Promise | None:
    """What a pod leaves of an elastic plan's promise; None: no GPU."""
    asked, taken = promise.shape, pod.shape
    if taken.gpus >= asked.gpus:
        return None
    cpu, memory = max(0, asked.cpu - taken.cpu), max(0, asked.memory - taken.memory)
    return replace(promise, shape=replace(asked, gpus=asked.gpus - taken.gpus, cpu=cpu, memory=memory))


def placed_since(pod: Pod, moment: int) -> bool:
    """Whether a pod got its place after this moment, as far as anybody knows: the clock of a node may be slow."""
    return max(pod.created, pod.started or 0) >= moment


def nominations(snapshot: Snapshot) -> list[Pod]:
    """The pods that kube-scheduler has nominated for a node; a node that is gone keeps nothing for anybody."""
    return [pod for pod in snapshot.nominated.values() if pod.nominated in snapshot.fleet.nodes]
