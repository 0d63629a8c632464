"""What pods take: of a queue, and of a node."""

from collections.abc import Iterable, Mapping

import msgspec
from gpuyard.engine.model import GPU, NOTHING, Amounts, Node, Pod, Shape, State


class QueueUse(msgspec.Struct, frozen=True):
    """What a queue's whole subtree holds and asks for."""

    allocated: Amounts = NOTHING
    fixed: Amounts = NOTHING
    """The part of `allocated` that is not preemptible."""
    requested: Amounts = NOTHING
    """`allocated` and all that wait, even beyond what can run."""

    def plus(self, other: "QueueUse") -> "QueueUse":
        """The sum of both."""
        return QueueUse(
            self.allocated.plus(other.allocated), self.fixed.plus(other.fixed), self.requested.plus(other.requested)
        )


UNUSED = QueueUse()


class Occupancy(msgspec.Struct, frozen=True):
    """What the pods leave of one node: free now (`idle`), and free once the terminating ones are gone (`releasing`)."""

    idle: int
    releasing: int = 0
    cpu: int = 0
    cpu_releasing: int = 0
    memory: int = 0
    memory_releasing: int = 0
    pods: int = 0
    pods_releasing: int = 0
    groups: Mapping[str, tuple[int, int]] = {}
    """Shared GPUs: milli-GPUs in use, and in use by terminating pods."""


def share_of_gpu(shape: Shape, gpu_memory: int) -> int:
    """The milli-GPUs that a shared request takes of each of its devices, where a GPU has `gpu_memory` MiB.

    More than a whole GPU, so that it fits nowhere, where nobody says how much a GPU has.
    """
    if shape.fraction or not shape.gpu_memory:
        return shape.fraction
    return -(-shape.gpu_memory * GPU // gpu_memory) if gpu_memory else GPU + 1


def claim(shape: Shape, gpu_memory: int) -> Amounts:
    """What a pod of this shape counts in its queue, with GPUs of `gpu_memory` MiB; a whole GPU where nobody says."""
    share = share_of_gpu(shape, gpu_memory) if gpu_memory or not shape.gpu_memory else GPU
    return Amounts(
        shape.gpus * GPU + share * shape.devices if shape.wants_gpu else 0,
        shape.cpu,
        shape.memory,
    )


def occupancy(node: Node, pods: Iterable[Pod]) -> Occupancy:
    """Count what `pods` leave of `node`."""
    idle, cpu, memory, places = node.gpus, node.cpu, node.memory, node.pods
    releasing = cpu_releasing = memory_releasing = places_releasing = 0
    groups: dict[str, tuple[int, int]] = {}
    for pod in pods:
        shape, leaves = pod.shape, pod.state is State.TERMINATING
        idle -= shape.gpus
        cpu -= shape.cpu
        memory -= shape.memory
        places -= 1
        if leaves:
            releasing += shape.gpus
            cpu_releasing += shape.cpu
            memory_releasing += shape.memory
            places_releasing += 1
        for group in pod.gpu_groups:
            share = share_of_gpu(shape, node.gpu_memory)
            used, freed = groups.get(group, (0, 0))
            groups[group] = (used, freed + share) if leaves else (used + share, freed)
    for used, _ in groups.values():
        idle -= 1
        releasing += not used
    return Occupancy(idle, releasing, cpu, cpu_releasing, memory, memory_releasing, places, places_releasing, groups)
