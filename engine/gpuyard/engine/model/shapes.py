"""What a pod asks for, and where it may stand."""

from typing import NamedTuple

import msgspec


class Requirement(NamedTuple):
    """One expression over labels: `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeTerm(NamedTuple):
    """Node affinity: all the requirements on labels and on the node's name hold together."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()
    """Requirements on the field `metadata.name`."""


class PreferredNodes(NamedTuple):
    """A node affinity that is a wish, with its weight of 1 to 100."""

    weight: int
    term: NodeTerm


class PodTerm(NamedTuple):
    """Pod (anti-)affinity: pods that match, counted within a domain of nodes with equal `topology_key`."""

    topology_key: str
    selector: tuple[Requirement, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Empty: the pod's own namespace; `*`: every namespace."""
    weight: int = 0
    """0: required; otherwise a wish."""


class Toleration(NamedTuple):
    """A toleration; empty key with `Exists` tolerates everything, empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Shape(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What one pod asks for and where it may stand. Readers give pods of one kind one and the same Shape.

    Of the GPU requests only one is set: `gpus` whole ones, or `fraction` (milli-GPUs), or `gpu_memory` (MiB), the last
    two on each of `devices` GPUs of one node.
    """

    gpus: int = 0
    fraction: int = 0
    gpu_memory: int = 0
    devices: int = 1
    cpu: int = 0
    memory: int = 0
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[NodeTerm, ...] = ()
    """One of them must hold; none: anywhere."""
    preferred: tuple[PreferredNodes, ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether it asks for parts of GPUs."""
        return bool(self.fraction or self.gpu_memory)

    @property
    def wants_gpu(self) -> bool:
        """Whether it asks for any GPU at all."""
        return bool(self.gpus or self.fraction or self.gpu_memory)
