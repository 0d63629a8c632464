"""The open nodes by free millicores, for pods that ask for no GPU: a node without GPUs before one that has some."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from gpuyard.engine.model import Node
from gpuyard.engine.placing.strategies import Strategy
from gpuyard.engine.stepwise import in_order

_Entry = tuple[bool, int, str]


class ByCpu:
    """An index of nodes by the millicores that they have left, in the order of a strategy."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._entries: list[_Entry] = []

    def fill(self, left: Iterable[tuple[Node, int]]) -> Iterator[None]:
        """Take in all nodes with the millicores that they have left, a little at a time."""
        self._entries = yield from in_order(self._entry(node, cpu) for node, cpu in left if node.open)

    def move(self, node: Node, before: int, after: int) -> None:
        """The millicores that a node has left have changed."""
        del self._entries[bisect_left(self._entries, self._entry(node, before))]
        insort(self._entries, self._entry(node, after))

    def names(self, cpu: int) -> Iterator[str]:
        """The nodes that have so many millicores, the best first."""
        for gpus in (False, True):
            first, last = bisect_left(self._entries, (gpus,)), bisect_left(self._entries, (gpus + 1,))
            if cpu and self._strategy.fullest_first:
                first = bisect_left(self._entries, (gpus, self._strategy.rank(cpu)))
            elif cpu:
                last = bisect_left(self._entries, (gpus, self._strategy.rank(cpu) + 1))
            yield from (self._entries[n][2] for n in range(first, last))

    def _entry(self, node: Node, cpu: int) -> _Entry:
        return bool(node.gpus), self._strategy.rank(cpu), node.name
