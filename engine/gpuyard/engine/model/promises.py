"""Promises: room that unfinished Plans keep."""

from typing import NamedTuple

import msgspec
from gpuyard.engine.model.shapes import Shape


class PromiseName(NamedTuple):
    """What tells a promise from all others; promises are listed in this order."""

    plan: str
    pod: str
    workload: str
    node: str


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """Room that an unfinished Plan keeps.

    It is for the pod named `pod`, or for another one of `owner`. The promise of an elastic plan names no pod: it is for
    all pods of `workload` on `node`, and `shape` says how much they get together.
    """

    plan: str
    pod: str = ""
    """Key of the pod it was made for; a pod that keeps its name is found by it."""
    owner: str = ""
    workload: str = ""
    shape: Shape
    node: str
    gpu_groups: tuple[str, ...] = ()
    queue: str = ""
    priority: int = 50
    since: int = 0
    """When an elastic plan was written: pods that had a place before have not come for what it promises."""

    @property
    def namespace(self) -> str:
        """The part of the pod's key before the slash."""
        return self.pod.partition("/")[0]

    @property
    def elastic(self) -> bool:
        """Whether it is for all pods of a workload on its node."""
        return not self.pod

    @property
    def name(self) -> PromiseName:
        """What tells it from all others."""
        return PromiseName(self.plan, self.pod, self.workload, self.node)
