"""Which of the nodes that kube-scheduler offers are the best for a pod, by the strategy of placing."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, filterfalse, islice

from gpuyard.engine.model import Shape
from gpuyard.engine.model.counting import Occupancy
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.strategies import MOST_POINTS, Strategy

FEW = 32
"""So many equals are sorted; for more that would take longer than all the rest."""


def best(  # noqa: PLR0913 - what the order depends on
    snapshot: Snapshot,
    shape: Shape,
    offered: Collection[str],
    most: int,
    fits: Callable[[str], bool] | None,
    *,
    strategy: Strategy,
) -> list[str]:
    """At most so many of the offered nodes that fit (None: all do), the best first.

    No node is offered twice. Equals come by name, or where there are many of them as kube-scheduler offers them: it
    does so in turn.
    """
    found: dict[str, None] = {}
    for names in _in_order(snapshot, shape, offered, strategy):
        new = filter(fits, filterfalse(found.__contains__, names))
        found |= dict.fromkeys(islice(new, most - len(found)))
        if len(found) >= most:
            break
    return list(found)


def points(offered: Mapping[str, Occupancy | None], strategy: Strategy) -> Mapping[str, int]:
    """Points of each node, by how full it is among those offered; nodes that nobody knows get none."""
    return strategy.points({name: room.idle + room.releasing if room else None for name, room in offered.items()})


def ranked(orders: Mapping[str, tuple[int, ...] | None]) -> Mapping[str, int]:
    """Points of each node by its place in an order, the lowest first; None: nobody knows the node, no points."""
    places = {order: place for place, order in enumerate(sorted({one for one in orders.values() if one is not None}))}
    return {name: 0 if order is None else max(0, MOST_POINTS - places[order]) for name, order in orders.items()}


def _in_order(
    snapshot: Snapshot, shape: Shape, offered: Collection[str], strategy: Strategy
) -> Iterator[Iterable[str]]:
    """The offered nodes in groups, the best first; some of them twice."""
    if shape.shared:
        sharing = (name for name in sorted(snapshot.sharing) if name in offered)
        whole = _by_fullness(snapshot, 1, offered, strategy)
        yield from chain([sharing], whole) if strategy.joins_first else chain(whole, [sharing])
        return
    yield from _by_fullness(snapshot, shape.gpus, offered, strategy)
    # Full or closed for all we know: kube-scheduler knows why it offers them.
    yield sorted(filter(snapshot.fleet.nodes.__contains__, offered))


def _by_fullness(
    snapshot: Snapshot, gpus: int, offered: Collection[str], strategy: Strategy
) -> Iterator[Iterable[str]]:
    """The open nodes with so many free GPUs, in the order of the strategy, counting those on their way out."""
    by_room = {(idle, idle + releasing): names for (idle, releasing), names in snapshot.slots.items()}
    for slot in strategy.fitting(by_room, gpus):
        if slot[0] >= gpus:
            names = by_room[slot]
            few = len(names) <= FEW
            yield filter(offered.__contains__, sorted(names)) if few else filter(names.__contains__, offered)
