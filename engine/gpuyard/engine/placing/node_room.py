"""The nodes' rooms during a cycle: what is free now, and what is free once everything on its way out has left.

A `Room` is one node; `Rooms` finds them by free whole GPUs. Three things happen to a room:

    bind         takes what is free now               now -   later -
    nominate     takes what will be free              now     later -
    evict        gives back, once the pod is gone     now     later +

Decided in docs/decisions.md: "The room of a GPU is counted in thousandths of a MiB".
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence

from gpuyard.engine.model import GPU, Node, Shape
from gpuyard.engine.model.counting import Occupancy, card_size, milli_left, part_of_card
from gpuyard.engine.model.snapshot import Slot, Snapshot
from gpuyard.engine.placing.nodes_by_cpu import ByCpu
from gpuyard.engine.placing.strategies import Strategy
from gpuyard.engine.sharing.cards import Card, Task, ranked
from gpuyard.engine.stepwise import at_once, in_order, paused


class Room:
    """One node: what is free `now` and `later`, and of its shared `groups` the memory in use now and later."""

    __slots__ = (
        "cpu_later",
        "cpu_now",
        "groups",
        "later",
        "memory_later",
        "memory_now",
        "node",
        "now",
        "pods_later",
        "pods_now",
        "version",
    )

    def __init__(self, node: Node, left: Occupancy) -> None:
        self.node = node
        self.version = 0
        self.now, self.later = left.idle, left.idle + left.releasing
        self.cpu_now, self.cpu_later = left.cpu, left.cpu + left.cpu_releasing
        self.memory_now, self.memory_later = left.memory, left.memory + left.memory_releasing
        self.pods_now, self.pods_later = left.pods, left.pods + left.pods_releasing
        self.groups = {name: [used + leaving, used] for name, (used, leaving) in left.groups.items()}

    def fits_later(self, shape: Shape) -> bool:
        """Whether the pod has room once everything on its way out has left."""
        return (
            self.pods_later >= 1
            and (not shape.cpu or self.cpu_later >= shape.cpu)
            and (not shape.memory or self.memory_later >= shape.memory)
            and (not shape.gpus or self.later >= shape.gpus)
            and (not shape.shared or self.shares(shape, 1) >= shape.devices)
        )

    def fits_now(self, shape: Shape) -> bool:
        """Whether a pod that fits later has room already."""
        return (
            self.pods_now >= 1
            and (not shape.cpu or self.cpu_now >= shape.cpu)
            and (not shape.memory or self.memory_now >= shape.memory)
            and (not shape.gpus or self.now >= shape.gpus)
            and (not shape.shared or self.shares(shape, 0) >= shape.devices)
        )

    def shares(self, shape: Shape, when: int) -> int:
        """How many GPUs could take a part of this size: shared ones with room, and whole ones; now (0) or later (1)."""
        task = self._task(shape)
        if task.memory > card_size(self.node.gpu_memory):
            return 0
        joined = sum(self._card(name, when).takes(task) for name in self.groups)
        if when:
            return joined + max(0, self.later)
        promised = sum(not cell[0] and self._card(name, 1).takes(task) for name, cell in self.groups.items())
        return joined + max(0, min(self.now, self.later + promised))

    def _task(self, shape: Shape) -> Task:
        return Task(part_of_card(shape, self.node.gpu_memory))

    def _card(self, group: str, when: int, index: int = 0) -> Card:
        """A shared GPU with what pods may still join there; now (0) or later (1).

        A GPU that all its pods leave has nothing to join, nor has one that is only promised to pods so far, now:
        a pod that starts there needs a free GPU.
        """
        held, stays = self.groups[group]
        in_use = stays > 0 and (when == 1 or held > 0)
        free = card_size(self.node.gpu_memory) - (stays if when else max(held, stays))
        return Card(self.node.name, index, free if in_use else 0)

    def could_join(self, shape: Shape) -> bool:
        """Whether a shared GPU in use has room for a part of this size."""
        task = self._task(shape)
        return any(self._card(group, 1).takes(task) for group in self.groups)

    def takes(self, shape: Shape, groups: Sequence[str]) -> bool:
        """Whether these very GPUs will have room for the parts of a shared request that fits."""
        part, size = part_of_card(shape, self.node.gpu_memory), card_size(self.node.gpu_memory)
        stays = [self.groups[group][1] if group in self.groups else 0 for group in groups]
        return stays.count(0) <= self.later and all(used + part <= size for used in stays)

    def has_now(self, shape: Shape, groups: Sequence[str]) -> bool:
        """Whether the chosen GPUs have room for the parts already."""
        task = self._task(shape)
        held = [group for group in groups if group in self.groups and self.groups[group][0]]
        return len(groups) - len(held) <= self.now and all(self._card(group, 0).takes(task) for group in held)

    def choose_groups(self, shape: Shape, own: Sequence[str], strategy: Strategy) -> tuple[str, ...]:
        """The GPUs for a shared request that fits, as `sharing` ranks them: to pack whole ones last, to spread first.

        Of the whole ones those that the pod itself has left, then those that are free already, then those being freed:
        shared ones under their names, others under new ones.
        """
        names, cards = self._cards(shape, own)
        best = ranked(self._task(shape), cards, strategy.rank)
        return tuple(names[card.index] for card in best[: shape.devices])

    def best_card(self, shape: Shape, strategy: Strategy) -> int:
        """The free memory of the GPU that a shared request which fits would get first."""
        return ranked(self._task(shape), self._cards(shape, ())[1], strategy.rank)[0].free

    def _cards(self, shape: Shape, own: Sequence[str]) -> tuple[list[str], list[Card]]:
        """The names of the GPUs that a shared request may get, and the GPUs as cards, in the order of ties."""
        used = sorted(group for group, cell in self.groups.items() if cell[1])
        leaving = [*(g for g in own if g in self.groups), *sorted(g for g in self.groups if g not in own)]
        freed = [g for g in leaving if not self.groups[g][1]]
        new = list(_unused_names(self.groups, shape.devices))
        ready, mine = max(0, self.now), sum(g in own for g in freed)
        fresh = [*freed[:mine], *new[:ready], *freed[mine:], *new[ready:]][: max(0, self.later)]
        size = card_size(self.node.gpu_memory)
        cards = [self._card(group, 1, index) for index, group in enumerate(used)]
        cards += [Card(self.node.name, index, size) for index in range(len(used), len(used) + len(fresh))]
        return used + fresh, cards

    def shared_milli(self) -> int:
        """The milli-GPUs that will be free on the shared GPUs that stay in use."""
        return milli_left((stays for _, stays in self.groups.values() if stays), self.node.gpu_memory)

    def shift(self, shape: Shape, groups: Sequence[str], now: int, later: int) -> None:
        """Give back (1), take (-1) or leave (0) a pod's part of what is free now and later."""
        self.version += 1
        if now:
            self.now += now * shape.gpus
            self.cpu_now += now * shape.cpu
            self.memory_now += now * shape.memory
            self.pods_now += now
        if later:
            self.later += later * shape.gpus
            self.cpu_later += later * shape.cpu
            self.memory_later += later * shape.memory
            self.pods_later += later
        for group in groups:
            self._shift_group(group, part_of_card(shape, self.node.gpu_memory), now, later)

    def _shift_group(self, group: str, part: int, now: int, later: int) -> None:
        cell = self.groups.setdefault(group, [0, 0])
        before = cell[0] > 0, cell[1] > 0
        cell[0] -= now * part
        cell[1] -= later * part
        self.now += before[0] - (cell[0] > 0)
        self.later += before[1] - (cell[1] > 0)
        if not cell[0] and not cell[1]:
            del self.groups[group]


def _unused_names(taken: Collection[str], count: int) -> Iterator[str]:
    """New names for shared GPUs of a node: `gpu-0`, `gpu-1` and so on."""
    number = 0
    while count > 0:
        name = f"gpu-{number}"
        if name not in taken:
            count -= 1
            yield name
        number += 1


class Rooms:
    """All nodes, and an index of the open ones by (now, later) free whole GPUs, names in order."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rooms: dict[str, Room] = {}
        self._shelves: dict[Slot, list[str]] = {}
        self._fresh = {(idle, idle + releasing): names for (idle, releasing), names in snapshot.slots.items() if names}
        self.free_later = sum(max(0, later) * len(names) for (_, later), names in self._fresh.items())
        self.shared = set(snapshot.sharing)
        self._by_cpu: ByCpu | None = None
        self._shared_milli: int | None = None
        """What will be free on the shared GPUs of open nodes; None: not counted yet."""
        self.stirred: set[str] = set()
        """The nodes that have changed, even if that was undone; whoever acts on it clears it."""

    def __getitem__(self, name: str) -> Room:
        room = self._rooms.get(name)
        if room is None:
            room = self._rooms[name] = Room(self._snapshot.fleet.nodes[name], self._snapshot.room[name])
        return room

    def __contains__(self, name: object) -> bool:
        return name in self._snapshot.room

    def names(self) -> Iterable[str]:
        """All nodes' names."""
        return self._snapshot.room

    def empty(self) -> frozenset[str]:
        """The open nodes whose GPUs are all free."""
        some = (name for now, later in self.slots() if now == later > 0 for name in self.shelf((now, later)))
        return frozenset(name for name in some if self._snapshot.fleet.nodes[name].gpus == self[name].later)

    def slots(self) -> list[Slot]:
        """The pairs (now, later) that some open node has."""
        return [*self._fresh, *(slot for slot, names in self._shelves.items() if names)]

    def count(self, slot: Slot) -> int:
        """How many open nodes have exactly these free GPUs."""
        return len(self._fresh[slot] if slot in self._fresh else self._shelves.get(slot, ()))

    def shelf(self, slot: Slot) -> list[str]:
        """The open nodes with exactly these free GPUs, by name."""
        names = self._shelves.get(slot)
        if names is None:
            names = self._shelves[slot] = sorted(self._fresh.pop(slot, ()))
        return names

    def order_shelves(self) -> Iterator[None]:
        """Put the names on all shelves in order, a little at a time."""
        for slot, names in list(self._fresh.items()):
            self._shelves[slot] = yield from in_order(names)
            del self._fresh[slot]

    def order_by_cpu(self, strategy: Strategy) -> Generator[None, None, ByCpu]:
        """Make the index of millicores, a little at a time."""
        if self._by_cpu is None:
            index = ByCpu(strategy)
            yield from index.fill((room.node, room.cpu_later) for room in map(self.__getitem__, self.names()))
            self._by_cpu = index
        return self._by_cpu

    def with_cpu(self, cpu: int, strategy: Strategy) -> Iterator[str]:
        """The open nodes with so many millicores free later, those without GPUs first; see `ByCpu`."""
        return at_once(self.order_by_cpu(strategy)).names(cpu)

    def shift(self, name: str, shape: Shape, groups: Sequence[str], now: int, later: int) -> None:
        """Change one room (see `Room.shift`) and keep the indexes right."""
        room = self[name]
        self.stirred.add(name)
        before, cpu = (room.now, room.later), room.cpu_later
        milli = room.shared_milli() if groups else 0
        room.shift(shape, groups, now, later)
        if groups and self._shared_milli is not None and room.node.open:
            self._shared_milli += room.shared_milli() - milli
        if self._by_cpu is not None and cpu != room.cpu_later and room.node.open:
            self._by_cpu.move(room.node, cpu, room.cpu_later)
        after = (room.now, room.later)
        if groups:
            self.shared.add(name)
        if before != after and room.node.open:
            shelf = self.shelf(before)
            del shelf[bisect_left(shelf, name)]
            insort(self.shelf(after), name)
            self.free_later += max(0, after[1]) - max(0, before[1])

    def count_shared(self) -> Generator[None, None, int]:
        """The milli-GPUs that will be free on the shared GPUs of open nodes; counted once, in steps."""
        if self._shared_milli is None:
            total = 0
            for name in paused(list(self.shared)):
                if name is None:
                    yield
                elif self[name].node.open:
                    total += self[name].shared_milli()
            self._shared_milli = total
        return self._shared_milli

    def free_milli(self) -> int:
        """All milli-GPUs of open nodes that will be free, those of shared GPUs included."""
        return self.free_later * GPU + at_once(self.count_shared())
