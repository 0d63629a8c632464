"""Promises: room that unfinished Plans keep."""

import msgspec
from gpuyard.engine.model.shapes import Shape


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """Room that an unfinished Plan keeps: for the pod named `pod`, or for another one of `owner`."""

    plan: str
    pod: str
    """Key of the pod it was made for; a pod that keeps its name is found by it."""
    owner: str = ""
    workload: str = ""
    shape: Shape
    node: str
    gpu_groups: tuple[str, ...] = ()
    queue: str = ""
    priority: int = 50

    @property
    def namespace(self) -> str:
        """The part of the pod's key before the slash."""
        return self.pod.partition("/")[0]
