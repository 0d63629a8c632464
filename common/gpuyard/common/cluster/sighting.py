"""What the watch says of one pod at one moment."""

import msgspec
from gpuyard.engine.model import Pod, Workload


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """What the watch says of a pod at one moment."""

    pod: Pod
    workload: Workload | None = None
    """None: the pod is not governed."""
    version: int = 0
    """The object's resourceVersion: later ones are larger."""
    verdict: str | None = None
    """kube-scheduler's message when it last found no place; None: it has not said so."""
    claims_volumes: bool = False
    """Whether binding it may wait for volumes."""
    fault: str = ""
    """What of the pod cannot be read."""
    awaits: str = ""
    """Its owner, while nobody has seen that, so that nobody knows how many start with this pod."""
