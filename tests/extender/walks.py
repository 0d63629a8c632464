"""All work on the thread that answers kube-scheduler, as steps: whatever is between two steps keeps a verb waiting.

A walk is a generator that pauses wherever the product does. What a watch brings is walked in the batches in which it is
delivered; a coroutine is walked from one pause to the next.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, cast

import msgspec
from gpuyard.common.cluster.changed_pods import ChangedPodsCollector
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.engine.model.settings import Settings
from gpuyard.extender.ledger.feed import TUNING
from gpuyard.extender.ledger.metrics import LedgerCollector
from gpuyard.extender.planner.decide.stepping import SLICE
from gpuyard.extender.waker import Waker

from tests import mixed_cluster as mixed
from tests.extender.builders import Json, call, meta, queue, topology, typed
from tests.extender.planner.stage import Stage, path

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

Steps = Iterator[object]
OTHER_QUEUE = "d0-t3"


class Yard:
    """A mixed cluster in the ledger, with a planner, as after a start."""

    def __init__(self, size: mixed.Size) -> None:
        self.size = size
        self.stage = Stage(tick=2 * SLICE)
        self.bench = self.stage.bench
        for thing in mixed.cluster(size):
            self.bench.put(thing)
            if thing["kind"] in {"Pod", "Queue"}:
                self.stage.api.put(path(thing), thing)
        self.pods_that_run = [Change(None, typed(thing)) for thing in mixed.running(size)]
        self.bench.translator.settle()
        self.bench.ledger.put_promises(mixed.promises(size))
        self.bench.feed.adopt(lambda _: 1.0)
        self.waker = Waker(
            cast("Client", self.stage.api),
            self.bench.ledger,
            lambda: self.bench.config.engine,
            now=self.stage.clock,
            today=lambda: self.bench.today,
        )
        self.stage.capacity.dipping(self.bench.ledger.snapshot, 0.0, 60)


def event(*things: Json) -> Callable[[Yard], Steps]:
    """The watch shows each of these, and the next verb asks for the snapshot."""
    seen = [(one["kind"], Batch([Change(None, typed(one))])) for one in things]

    def walk(yard: Yard) -> Steps:
        for kind, batch in seen:
            yard.bench.readers[kind](batch)
            yield None
            _ = yard.bench.ledger.snapshot
            yield None

    return walk


def relist(yard: Yard) -> Steps:
    """Every pod has changed while the watch was cut; the pods come in the batches of the watch."""
    changes = yard.pods_that_run
    for start in range(0, len(changes), TUNING.batch):
        yard.bench.feed.pods(Batch(changes[start : start + TUNING.batch]))
        yield None
        _ = yard.bench.ledger.snapshot
        yield None


def settings(yard: Yard) -> Steps:
    """Another default queue, and the one from before."""
    for named in ("other", Settings().default_queue):
        other = msgspec.structs.replace(Settings(), default_queue=named)
        yield from yard.bench.ledger.see_all(yard.bench.translator.set_settings(other))


def verb(yard: Yard) -> Steps:
    """Filter and prioritize for one pod of each kind that waits."""
    names = [mixed.name(n) for n in range(yard.size.nodes)]
    for n in range(12):
        waits = mixed.waits(yard.size, n)
        yard.bench.put(waits)
        asked = call(waits, *names)
        yield None
        yard.bench.verbs.filter(asked)
        yield None
        yard.bench.verbs.prioritize(asked)
        yield None


def by_hand(work: Coroutine[Any, Any, object]) -> Steps:
    """A coroutine that waits for nobody, from one pause to the next."""
    while True:
        try:
            work.send(None)
        except StopIteration:
            return
        yield None


def grants(yard: Yard) -> Steps:
    """All who waited at the start were taken to be on their way, until now."""
    return yard.bench.ledger.expire_all(100)


def line_up(yard: Yard) -> Steps:
    """The line of those who wait."""
    return yard.bench.verbs.precedence.line_up(yard.bench.ledger.snapshot, yard.bench.config.engine)


def dips(yard: Yard) -> Steps:
    """Which nodes dip, after one has changed."""
    for _ in range(2):
        yard.bench.put(mixed.one_node(3, gpus=0))
        snapshot = yard.bench.ledger.snapshot
        yield None
        yard.stage.capacity.dipping(snapshot, 1.0, 60)
        yield None


def pages(yard: Yard) -> Steps:
    """What a scrape renders, and the page of changed pods."""
    yield from LedgerCollector(yard.bench.ledger).collect()
    changed = ChangedPodsCollector(lambda: yard.bench.translator.altered)
    yield from changed.collect()
    changed.page()


def plans(yard: Yard) -> Steps:
    """A plan has ended, and its promises are kept no longer."""
    ledger = yard.bench.ledger
    ledger.put_promises(ledger.promises.all[1:])
    yield None
    _ = ledger.snapshot


def after_an_event(yard: Yard) -> Steps:
    """The planner looks again when a pod has changed."""
    yield from event(mixed.single(yard.size, 3, new="2"))(yard)
    yield from by_hand(yard.stage.look())


def priority_class(name: str) -> Json:
    """A priority class."""
    return {"kind": "PriorityClass", "metadata": meta(name), "value": 126}


def walks(size: mixed.Size) -> dict[str, Callable[[Yard], Steps]]:
    """All walks by name, in the order in which they are gone."""
    return {
        "a waker's look before anything has changed": lambda yard: by_hand(yard.waker.look()),
        "grants that end together": grants,
        "a waker's look after them": lambda yard: by_hand(yard.waker.look()),
        "a pod's event": event(mixed.single(size, 3, new="1")),
        "a node's event": event(mixed.one_node(3, gpus=7)),
        "a queue's event": event(mixed.one_queue(mixed.team(size, 3), "d0", 9_000)),
        "a queue's event that changes the tree": event(queue("new", parent="d0")),
        "a namespace's event": event(mixed.namespace("team-1", OTHER_QUEUE)),
        "a topology's event": event(topology("blocks", "zone")),
        "a budget's event": event(mixed.budget(1, allowed=2)),
        "a priority class's event": event(priority_class("unused"), priority_class("inference")),
        "a PodGroup's event": event(next(mixed.groups(size))),
        "the event of the largest gang's PodGroup": event(mixed.crowd_group(size, 1)),
        "a pod's event in the largest gang": event(next(mixed.crowd(size))),
        "a plan's end": plans,
        "filter and prioritize": verb,
        "the line": line_up,
        "the planner's first look": lambda yard: by_hand(yard.stage.look()),
        "the planner's look after an event": after_an_event,
        "dips": dips,
        "metrics": pages,
        "other settings": settings,
        "a relist of all pods": relist,
    }
