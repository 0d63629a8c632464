"""Nodes, and the trees of domains that their labels span."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

Labels = Mapping[str, str]
NO_LABELS: Labels = {}


class Taint(NamedTuple):
    """A taint that keeps pods away, or with `PreferNoSchedule` would rather."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node: what it offers now (`gpus`, `cpu`, …) and what it counts for in shares (`stable_gpus`)."""

    name: str
    gpus: int = 0
    stable_gpus: int = -1
    """The last stable count; -1: as `gpus`. Larger than `gpus` means a dip: it counts, but nothing is placed there."""
    capacity: int = -1
    """The GPUs of `status.capacity`, of which `gpus` are allocatable; -1: not known, taken for as many."""
    cpu: int = 0
    memory: int = 0
    pods: int = 110
    gpu_memory: int = 0
    """MiB of one GPU; 0: not known, requests in GPU memory do not fit."""
    labels: Labels = NO_LABELS
    taints: tuple[Taint, ...] = ()
    """Those that keep pods away."""
    soft_taints: tuple[Taint, ...] = ()
    """Those with `PreferNoSchedule`: of no account for room, only for kube-scheduler's choice."""
    ready: bool = True
    cordoned: bool = False

    @property
    def dips(self) -> bool:
        """Whether it reports fewer GPUs than it had a moment ago."""
        return self.stable_gpus > self.gpus

    @property
    def all_allocatable(self) -> bool:
        """Whether each GPU of the node can be given to a pod."""
        return self.capacity in (-1, self.gpus)

    @property
    def counts(self) -> bool:
        """Whether its capacity counts for the shares of the queues."""
        return self.ready or self.dips

    @property
    def open(self) -> bool:
        """Whether pods may be placed there at all."""
        return self.ready and not self.cordoned and not self.dips


class Topology(msgspec.Struct, frozen=True):
    """A tree of domains: node labels, the widest level first."""

    name: str
    levels: tuple[str, ...]
