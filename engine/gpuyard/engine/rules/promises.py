"""Who may take the room that is promised: by kube-scheduler's nominations, and by plans that are not finished yet."""

from gpuyard.engine.model import Pod, Promise
from gpuyard.engine.model.snapshot import Snapshot


def inherits(promise: Promise, pod: Pod, queue: str) -> bool:
    """Whether a pod of this queue may take what a promise keeps.

    It is the pod that is named, or one of the same namespace and owner. Either asks for the same, in the same queue: a
    name and an owner anybody can write.
    """
    if promise.shape != pod.shape or promise.queue != queue:
        return False
    named = promise.pod == pod.key
    return named or (bool(promise.owner) and (promise.owner, promise.namespace) == (pod.owner, pod.namespace))


def nominations(snapshot: Snapshot) -> list[Pod]:
    """The pods that kube-scheduler has nominated for a node; a node that is gone keeps nothing for anybody."""
    return [pod for pod in snapshot.nominated.values() if pod.nominated in snapshot.fleet.nodes]
