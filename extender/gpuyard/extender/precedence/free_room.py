"""The GPUs that are left for one pod and those who go before it: on the nodes offered, or on one that is cleared."""

from abc import ABC, abstractmethod
from collections.abc import Collection

from gpuyard.engine.model import GPU, Pod, Shape
from gpuyard.engine.model.constraints import suited
from gpuyard.engine.model.counting import milli_left
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.node_room import Room
from gpuyard.extender.ledger import Ledger
from gpuyard.extender.precedence.waiting_line import Demand


def is_scarce(snapshot: Snapshot, in_flight: int = 0) -> bool:
    """Whether those who wait ask for more GPUs than are free, beside those that are taken any moment."""
    return snapshot.wanted > (free_gpus(snapshot) - in_flight) * GPU + _shared(snapshot, snapshot.sharing)


def free_gpus(snapshot: Snapshot) -> int:
    """The whole GPUs that are free on open nodes."""
    return sum(max(0, idle) * len(names) for (idle, _), names in snapshot.slots.items())


def _shared(snapshot: Snapshot, nodes: Collection[str]) -> int:
    """The milli-GPUs that are left of the GPUs that several share on these nodes."""
    return sum(
        milli_left((used for used, _ in snapshot.sharing[name].values()), snapshot.fleet.nodes[name].gpu_memory)
        for name in nodes
    )


class FreeRoom(ABC):
    """What is left for some requests."""

    _left: int
    """Milli-GPUs of GPUs that nobody shares."""
    _shared: int
    """Milli-GPUs of those that several share already."""

    @abstractmethod
    def fits(self, shape: Shape, each: Demand) -> bool:
        """Whether such a request could be served if nobody else were: its first pod, and in sum all that start."""

    def serves(self, asked: Demand) -> bool:
        """Whether it is enough for so much."""
        return self._whole(asked) <= self._left

    def _whole(self, asked: Demand) -> int:
        """What is asked for of GPUs that nobody shares."""
        return asked.whole + max(0, asked.parts - self._shared)


class OfferedRoom(FreeRoom):
    """What is free on the nodes that are offered to one pod."""

    def __init__(self, snapshot: Snapshot, pod: Pod, offered: Collection[str], ledger: Ledger) -> None:
        self._snapshot, self._offered = snapshot, offered
        everywhere = len(offered) >= len(snapshot.fleet.nodes)
        self._free = self._largest = 0
        self.is_news = False
        """Whether kube-scheduler has seen somebody go whom our watch still shows."""
        least = max(pod.shape.gpus, 1)
        for (idle, releasing), names in snapshot.slots.items():
            # A node that is offered has room for the pod: if not by our count, then those who were leaving have left.
            # One that wants a part of a GPU is offered every node: that says nothing.
            if idle < least <= idle + releasing and not pod.shape.shared:
                self._count_late([name for name in names if name in offered], idle, releasing, ledger, pod.key)
            elif idle > 0:
                self._count(idle, len(names) if everywhere else sum(name in offered for name in names))
        others = ledger.spoken_for(None if everywhere else offered, pod.key)
        self._left = (self._free - others) * GPU
        self._shared = _shared(snapshot, [name for name in snapshot.sharing if name in offered])

    def _count(self, room: int, nodes: int) -> None:
        if nodes:
            self._free += room * nodes
            self._largest = max(self._largest, room)

    def _count_late(self, nodes: Collection[str], idle: int, releasing: int, ledger: Ledger, asker: str) -> None:
        """Count nodes that have room by kube-scheduler's count alone, which does not know of places that are kept."""
        news = [name for name in nodes if not _keeps(ledger, name, asker)]
        self._count(idle + releasing, len(news))
        self.is_news |= bool(news)
        for name in set(nodes).difference(news):
            self._count(max(0, idle), 1)
            # What is promised there is taken off the whole: it comes out of what is leaving.
            self._free += max(0, ledger.promises.gpus.get(name, 0) - max(0, idle))

    def fits(self, shape: Shape, each: Demand) -> bool:
        """Whether such a request could be served if nobody else were: its first pod, and in sum all that start."""
        if not self.serves(each):
            return False
        if shape.shared and self._shared >= each.parts:
            return True
        least = max(shape.gpus, 1)
        nodes = suited(self._snapshot.fleet, shape)
        if nodes is None or self._largest < least:
            return self._largest >= least
        rooms = self._snapshot.room
        free = [rooms[name].idle + rooms[name].releasing for name in nodes if name in self._offered]
        return max(free, default=0) >= least and sum(one for one in free if one > 0) * GPU >= each.whole


class ClearedRoom(FreeRoom):
    """What one node would have free if some were evicted there; `free` whole GPUs are so already, wherever."""

    def __init__(self, snapshot: Snapshot, node: str, room: Room, free: int) -> None:
        self._fleet, self._node, self._room = snapshot.fleet, node, room
        self._left, self._everywhere = room.now * GPU, (free + room.now) * GPU
        self._shared = milli_left((used for used, _ in room.groups.values()), room.node.gpu_memory)

    def fits(self, shape: Shape, each: Demand) -> bool:
        """Whether such a request would take some of it: its first pod fits there, and all find room somewhere."""
        if self._whole(each) > self._everywhere:
            return False
        nodes = suited(self._fleet, shape)
        if nodes is not None and self._node not in nodes:
            return False
        return self._room.shares(shape, 0) >= shape.devices if shape.shared else self._room.now >= max(shape.gpus, 1)


def _keeps(ledger: Ledger, node: str, but: str) -> bool:
    """Whether a place on a node is kept for one pod alone, another one than `but`."""
    return ledger.in_flight.keeps(node, but) or next(ledger.promises.open_on(node), None) is not None
