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
    """Shared GPUs: memory in use, and in use by terminating pods, in thousandths of a MiB (see `part_of_card`)."""


def card_size(gpu_memory: int) -> int:
    """The memory of a GPU in thousandths of a MiB. A GPU whose memory is not known counts as one of 1 MiB."""
    return (gpu_memory or 1) * GPU


def part_of_card(shape: Shape, gpu_memory: int) -> int:
    """The memory that a pod takes of each of its shared GPUs of `gpu_memory` MiB, in thousandths of a MiB.

    Fractions are thousandths of a GPU, so in this unit neither a fraction nor an amount of memory is ever rounded: two
    halves fit on a GPU with an odd number of MiB. A request in MiB is larger than a GPU whose memory is not known.
    """
    if shape.gpu_memory:
        return shape.gpu_memory * GPU if gpu_memory else card_size(0) + 1
    return shape.fraction * (gpu_memory or 1)


def milli_left(used: Iterable[int], gpu_memory: int) -> int:
    """The milli-GPUs that are free on GPUs of `gpu_memory` MiB of which so much is in use.

    Rounded up for each GPU, as `share_of_gpu` rounds requests.
    """
    size = card_size(gpu_memory)
    return sum(-(-max(0, size - some) // (gpu_memory or 1)) for some in used)


def share_of_gpu(shape: Shape, gpu_memory: int) -> int:
    """The milli-GPUs that a shared request counts for each of its devices, where a GPU has `gpu_memory` MiB.

    This is what queues count. Whether a request fits on a GPU is decided by `part_of_card`. Where the memory of a GPU
    is not known, a request in MiB counts as more than a whole GPU.
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
    keepers: list[Pod] = []
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
        if pod.gpu_groups and not shape.shared:
            keepers.append(pod)
            continue
        for group in pod.gpu_groups:
            part = part_of_card(shape, node.gpu_memory)
            used, freed = groups.get(group, (0, 0))
            groups[group] = (used, freed + part) if leaves else (used + part, freed)
    for used, _ in groups.values():
        idle -= 1
        releasing += not used
    for pod in keepers:
        # The pods that share a GPU hold it together with its reservation pod: it is one GPU.
        if not groups.keys() & pod.gpu_groups:
            idle -= 1
            releasing += pod.state is State.TERMINATING
    return Occupancy(idle, releasing, cpu, cpu_releasing, memory, memory_releasing, places, places_releasing, groups)
