"""Which GPUs of its node a pod has, by index: those that the input names, else the lowest free ones."""

from collections.abc import Iterable

from gpuyard.engine.model import Pod
from gpuyard.engine.model.snapshot import Snapshot


class Devices:
    """The GPUs of each node, looked at when first asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._taken: dict[str, dict[int, str]] = {}

    def of(self, pod: Pod) -> tuple[int, ...]:
        """The whole GPUs of a pod that holds room."""
        return tuple(sorted(index for index, user in self._node(pod.node).items() if user == pod.key))

    def take(self, node: str, count: int, user: str = "") -> tuple[int, ...]:
        """The lowest `count` free GPUs of a node, taken from now on."""
        taken = self._node(node)
        free = (index for index in range(len(taken) + count) if index not in taken)
        chosen = tuple(index for index, _ in zip(free, range(count), strict=False))
        taken.update(dict.fromkeys(chosen, user))
        return chosen

    def _node(self, name: str) -> dict[int, str]:
        taken = self._taken.get(name)
        if taken is None:
            taken = self._taken[name] = {}
            self._fill(name, self._snapshot.on_node.get(name, ()))
        return taken

    def _fill(self, name: str, pods: Iterable[Pod]) -> None:
        taken = self._taken[name]
        unknown = []
        shared = {group for pod in pods for group in pod.gpu_groups}
        for pod in pods:
            if pod.shape.gpus and pod.devices:
                taken.update(dict.fromkeys(pod.devices, pod.key))
            elif pod.shape.gpus:
                unknown.append(pod)
            elif pod.devices and not pod.shape.shared:
                taken.update(dict.fromkeys(pod.devices, ""))
                shared.difference_update(pod.gpu_groups)
        for pod in unknown:
            self.take(name, pod.shape.gpus, pod.key)
        for _ in shared:
            self.take(name, 1)
