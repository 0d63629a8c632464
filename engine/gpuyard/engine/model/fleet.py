"""All the nodes together: what they add up to, and a memory of which ones a kind of pod may stand on.

A `Fleet` is made anew whenever a node changes, so what it remembers (`memo`) is never out of date.
"""

from collections.abc import Iterable, Mapping

import msgspec
from gpuyard.engine.model import GPU, NOTHING, Amounts, Node, Shape, Toleration


class Fleet(msgspec.Struct, frozen=True, eq=False):
    """The nodes by name, and what follows from them alone."""

    nodes: Mapping[str, Node] = {}
    names: frozenset[str] = frozenset()
    """The names of all nodes."""
    capacity: Amounts = NOTHING
    """What all nodes that count offer, in a dip as much as before."""
    smallest_gpu: int = 0
    """MiB of the smallest GPU; 0: no node says."""
    largest_gpu: int = 0
    tainted: bool = False
    """Whether any node has a taint that keeps pods away."""
    soft_tainted: frozenset[str] = frozenset()
    """The nodes with a taint that would rather keep pods away."""
    memo: dict[Shape, frozenset[str]] = msgspec.field(default_factory=dict)
    """The open nodes whose labels and taints suit a shape."""
    kinds: dict[tuple[object, ...], frozenset[str]] = msgspec.field(default_factory=dict)
    """The same by what a shape demands of nodes: many shapes differ in their amounts alone."""
    avoided: dict[tuple[Toleration, ...], frozenset[str]] = msgspec.field(default_factory=dict)
    """The nodes with such a taint that is not tolerated, by tolerations."""
    by_label: dict[str, Mapping[str, list[Node]]] = msgspec.field(default_factory=dict)
    """The nodes by the value of a label, for the labels that selectors have named."""

    @classmethod
    def of(cls, nodes: Mapping[str, Node]) -> "Fleet":
        """The fleet of these nodes."""
        sizes = [n.gpu_memory for n in nodes.values() if n.gpus and n.gpu_memory]
        tainted = any(n.taints for n in nodes.values())
        soft = frozenset(n.name for n in nodes.values() if n.soft_taints)
        smallest, largest = min(sizes, default=0), max(sizes, default=0)
        return cls(nodes, frozenset(nodes), _capacity(nodes.values()), smallest, largest, tainted, soft)


def _capacity(nodes: Iterable[Node]) -> Amounts:
    gpus = cpu = memory = 0
    for node in nodes:
        if node.counts:
            gpus += max(node.gpus, node.stable_gpus)
            cpu += node.cpu
            memory += node.memory
    return Amounts(gpus * GPU, cpu, memory)
