"""Dips are not losses: a node that reports fewer GPUs for a while goes on to count for shares as before.

    reports as many as before, or more
   ┌──────────────────────────────────┐
   ▼                                  │
Stable ──fewer, or not ready──▶ Dipping ──`capacity.grace` is over, or the lower count is meant──▶ Stable, with that

A lower count is meant, and believed at once, if it is above 0, is not below what the node's pods hold, and equals the
node's capacity. A kubelet or plugin that restarts reports 0; with a broken GPU the capacity stays above the count.

Times are those of a clock that never jumps. Whoever stands by watches as well: a new leader knows what dips. One that
begins in the middle of a dip sees by the pods that stand there what the node must have had, and its grace begins then.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NoReturn

import msgspec
from gpuyard.engine.model import Node
from gpuyard.engine.model.snapshot import Snapshot

_NEVER = float("inf")

INTERVAL = 1.0
"""Seconds between two looks of one who stands by."""


class _Seen(msgspec.Struct, frozen=True):
    gpus: int
    since: float | None = None
    """Since when it dips."""


class Capacity:
    """Remembers how many GPUs each node had when it was well."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._nodes: Mapping[str, Node] = {}

    def dipping(self, snapshot: Snapshot, now: float, grace: float) -> list[Node]:
        """The nodes that dip, as the engine is to see them: their last stable count counts, nothing is placed there."""
        nodes = snapshot.fleet.nodes
        if nodes is self._nodes and self.next_end(grace) == _NEVER:
            return []
        before, known, self._nodes = self._nodes, self._seen, nodes
        # Of a node that is as it was and does not dip there is nothing new to see: thousands are not looked at again.
        self._seen = {
            name: seen
            if before.get(name) is node and (seen := known[name]).since is None
            else self._look(node, snapshot, now, grace)
            for name, node in nodes.items()
        }
        return [_dip(nodes[name], seen.gpus) for name, seen in self._seen.items() if seen.since is not None]

    def next_end(self, grace: float) -> float:
        """When the first dip that lasts would stop to be forgiven."""
        return min((seen.since + grace for seen in self._seen.values() if seen.since is not None), default=_NEVER)

    def _look(self, node: Node, snapshot: Snapshot, now: float, grace: float) -> _Seen:
        before = self._seen.get(node.name) or _Seen(max(node.gpus if node.ready else 0, _held(node, snapshot)))
        if node.ready and (node.gpus >= before.gpus or _is_meant(node, snapshot)):
            return _Seen(node.gpus)
        since = now if before.since is None else before.since
        over = now - since >= grace or not before.gpus
        return _Seen(node.gpus if node.ready else 0) if over else _Seen(before.gpus, since)


async def keep_watch(
    capacity: Capacity, snapshot: Callable[[], Snapshot], grace: Callable[[], float], clock: Callable[[], float]
) -> NoReturn:
    """Go on to look, whoever leads, until cancelled."""
    while True:
        capacity.dipping(snapshot(), clock(), grace())
        await asyncio.sleep(INTERVAL)


def _is_meant(node: Node, snapshot: Snapshot) -> bool:
    """Whether a lower count than before is no dip: somebody has taken GPUs away that nobody used."""
    return node.all_allocatable and node.gpus > 0 and node.gpus >= _held(node, snapshot)


def _held(node: Node, snapshot: Snapshot) -> int:
    """The whole GPUs that the pods on a node have: kubelet gave them away, so they were there."""
    return sum(pod.shape.gpus for pod in snapshot.on_node.get(node.name, ()) if pod.active)


def _dip(node: Node, gpus: int) -> Node:
    # A node that is not ready still reports its GPUs: it dips all the same.
    return msgspec.structs.replace(node, gpus=node.gpus if node.ready else 0, stable_gpus=gpus)
