"""Where pods may land that were let through and that no watch has shown on a node yet.

Some have a node of their own: its room is kept for them alone. The others are in flight to one of the nodes that filter
returned, and may land on each of them.

Decided in docs/decisions.md: "A pod in flight counts wherever it may land".
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from gpuyard.engine.model import Pod

_NOBODY: Mapping[str, Pod] = {}


class Flights:
    """The pods on their way, by key and by node."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        """The nodes that have room reserved for one pod and for nobody else, by that pod's key."""
        self.gpus = 0
        """The whole GPUs that the pods in flight ask for."""
        self.sharing = 0
        """How many of them want parts of GPUs."""
        self._flights: dict[str, tuple[Pod, Sequence[str]]] = {}
        self._landing: dict[str, dict[str, Pod]] = {}
        self._kept_on: Counter[str] = Counter()

    def keep(self, pod: Pod, node: str) -> None:
        """Room on this node is for this pod alone."""
        self.kept[pod.key] = node
        self._kept_on[node] += 1

    def start(self, pod: Pod, nodes: Sequence[str]) -> None:
        """A pod may land on each of these nodes."""
        self._flights[pod.key] = (pod, nodes)
        self.gpus += pod.shape.gpus
        self.sharing += pod.shape.shared
        for node in nodes:
            self._landing.setdefault(node, {})[pod.key] = pod

    def end(self, key: str) -> None:
        """A pod has landed, or will not any more."""
        node = self.kept.pop(key, "")
        if node:
            self._leave(node)
        pod, nodes = self._flights.pop(key, (None, ()))
        if pod is not None:
            self.gpus -= pod.shape.gpus
            self.sharing -= pod.shape.shared
        for name in nodes:
            self._land(name, key)

    def _leave(self, node: str) -> None:
        self._kept_on[node] -= 1
        if not self._kept_on[node]:
            # Nodes come and go: a name that nobody is on the way to must not stay for ever.
            del self._kept_on[node]

    def _land(self, node: str, key: str) -> None:
        landing = self._landing.get(node, {})
        landing.pop(key, None)
        if not landing:
            self._landing.pop(node, None)

    @property
    def names(self) -> int:
        """How many nodes are remembered: those that some pod is on its way to."""
        return len(self._landing) + len(self._kept_on)

    @property
    def all(self) -> Collection[tuple[Pod, Sequence[str]]]:
        """The pods in flight, each with the nodes on which it may land."""
        return self._flights.values()

    def gpus_to(self, nodes: Collection[str] | None, but: str = "") -> int:
        """The whole GPUs that others than this one may take on some of these nodes (None: on any) any moment."""
        if nodes is None:
            return self.gpus - (self._flights[but][0].shape.gpus if but in self._flights else 0)
        return sum(pod.shape.gpus for pod, names in self.all if pod.key != but and any(map(nodes.__contains__, names)))

    def landing_on(self, node: str) -> Collection[Pod]:
        """The pods that may land on this node any moment."""
        return self._landing.get(node, _NOBODY).values()

    def keeps(self, node: str, but: str) -> bool:
        """Whether room on this node is reserved for one pod alone, another one than `but`."""
        return self._kept_on[node] > (self.kept.get(but) == node)
