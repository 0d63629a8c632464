"""What the extender watches, and how each change gets into the ledger.

A node or queue that cannot be read, or a queue that would close a circle, does not replace its last good state; such a
queue is tried again whenever another one changes.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import msgspec
from gpuyard.common.cluster.objects import (
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PodOwner,
    PriorityClass,
    Queue,
    Topology,
)
from gpuyard.common.cluster.owners import KINDS
from gpuyard.common.cluster.queue_faults import LAST_GOOD, QueueFault, last_good
from gpuyard.common.cluster.reading import JsonPods, read_pod
from gpuyard.common.cluster.sighting import Sighting
from gpuyard.common.cluster.translate import Complaints, Translator
from gpuyard.common.kube import resources
from gpuyard.common.kube.changes import Batch
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.protobuf import PROTOBUF
from gpuyard.common.kube.reflector import Reflector, Tuning
from gpuyard.common.plans.plan import Plan
from gpuyard.engine import model
from gpuyard.engine.kube import nodes, objects, others, queues
from gpuyard.engine.kube.gangs import LWS
from gpuyard.engine.kube.workloads import queue_label
from gpuyard.extender.ledger import Ledger, Phase

Report = Callable[[str], None]

TUNING = Tuning(batch=8)
"""A verb may have to wait until so many changes are in the ledger."""

UNKNOWN = "Unknown"
"""Why a pod waits that was refused before this extender came."""


class Feed:
    """Keeps the ledger equal to the cluster; `report` is told what cannot be read."""

    def __init__(self, ledger: Ledger, translator: Translator, report: Report) -> None:
        self._ledger = ledger
        ledger.granted_to, ledger.grant_ended = translator.grant, self._release
        self._translator = translator
        self._report = report
        self._refused: dict[str, Queue] = {}
        self._faults: dict[str, QueueFault] = {}
        self._good: dict[str, objects.QueueSpec | None] = {}
        self._owners: dict[str, Reflector[PodOwner]] = {}
        self._caches: list[Reflector[Any]] = []
        self._doubtful: dict[str, set[str]] = {resources.NODES.plural: set(), resources.PODS.plural: set()}
        self.known_plans: dict[str, Plan] = {}
        """The Plan objects, of whoever wrote them, by name."""
        self.queue_uids: dict[str, str] = {}
        """Of the Queue objects, by name: Events name them so."""

    def reflectors(self, client: Client) -> list[Reflector[Any]]:
        """The watches that feed the ledger; run each of them."""
        kinds: list[tuple[resources.Resource, type, Callable[[Batch[Any]], None]]] = [
            (resources.PRIORITY_CLASSES, PriorityClass, self.classes),
            (resources.POD_GROUPS, PodGroup, self.groups),
            (resources.QUEUES, Queue, self.queues),
            (resources.NAMESPACES, Namespace, self.namespaces),
            (resources.DISRUPTION_BUDGETS, PodDisruptionBudget, self.budgets),
            (resources.NODES, Node, self.nodes),
        ]
        made = []
        for resource, kind, reader in kinds:
            reflector = Reflector[Any](
                client, resource.within(), msgspec.json.Decoder(kind), report=self._report, tuning=TUNING
            )
            reflector.subscribe(reader)
            made.append(reflector)
        made.append(self._follow_pods(client))
        self._owners = {kind: self._follow(client, kind) for kind in KINDS}
        self._translator.owners.followed = KINDS.keys()
        self._caches = [*self._owners.values(), self._follow_topologies(client), self._follow_plans(client), *made]
        return self._caches

    def unreadable(self) -> dict[str, int]:
        """How many objects of each kind are not read, or not used, as they are written at this moment."""
        found = {kind: set(names) for kind, names in self._doubtful.items()}
        found[resources.QUEUES.plural] = set(self._ledger.queue_faults)
        for cache in self._caches:
            found.setdefault(cache.address.about, set()).update(cache.unreadable)
        return {kind: len(names) for kind, names in found.items()}

    def _follow_pods(self, client: Client) -> Reflector[Pod]:
        """The watch for pods, of which there are many events; the API server has them in protobuf for others, too."""
        better = {PROTOBUF: read_pod}
        reflector = Reflector(
            client, resources.PODS.within(), JsonPods(), better=better, report=self._report, tuning=TUNING
        )
        reflector.subscribe(self.pods)
        return reflector

    def _follow(self, client: Client, kind: str) -> Reflector[PodOwner]:
        """The watch for owners of one kind; few clusters have all of them."""
        absent = partial(self._go_without, kind)
        decoder = msgspec.json.Decoder(PodOwner)
        reflector = Reflector(client, KINDS[kind].within(), decoder, report=self._report, tuning=TUNING, absent=absent)
        reflector.subscribe(partial(self.owners, kind))
        return reflector

    def _follow_topologies(self, client: Client) -> Reflector[Topology]:
        """The watch for topologies, which few clusters have: without them no gang asks for one."""
        decoder = msgspec.json.Decoder(Topology)
        reflector = Reflector(
            client, resources.TOPOLOGIES.within(), decoder, report=self._report, tuning=TUNING, absent=lambda: None
        )
        reflector.subscribe(self.topologies)
        return reflector

    def _follow_plans(self, client: Client) -> Reflector[Plan]:
        """The watch for plans; without their CRD there are none."""
        decoder = msgspec.json.Decoder(Plan)
        reflector = Reflector(client, resources.PLANS.within(), decoder, report=self._report, absent=lambda: None)
        reflector.subscribe(self.plans)
        return reflector

    def adopt(self, until: Callable[[Sighting], float]) -> None:
        """After a start: whom kube-scheduler may be binding at this moment counts until its next word, or `until`."""
        waiting = [entry.seen for entry in self._ledger.entries.values() if entry.phase is Phase.PENDING]
        for seen in waiting:
            if seen.workload is None or not seen.workload.governed or seen.pod.gated:
                continue
            if seen.verdict is None or seen.claims_volumes:
                self._ledger.adopt(seen, until(seen))
            else:
                self._ledger.refuse(seen, UNKNOWN)

    # --- one method per kind ---

    def pods(self, batch: Batch[Pod]) -> None:
        """Pods have changed."""
        for change in batch.changes:
            if change.new is not None:
                seen = self._translator.put_pod(change.new)
                self._see([seen, *self._translator.take_sharing()])
                if seen.awaits:
                    self._look_for(seen.awaits)
            elif change.old is not None:
                meta = change.old.metadata
                self._doubt(resources.PODS, meta.key, doubtful=False)
                self._translator.drop_pod(meta.key)
                self._ledger.end(meta.key, meta.uid)
                self._see(self._translator.take_sharing())
        if not batch.listed:
            self._ledger.keep_up()

    def owners(self, kind: str, batch: Batch[PodOwner]) -> None:
        """Owners of pods have changed."""
        for change in batch.changes:
            self._change_mind(self._translator.put_owner(kind, _key(change.old or change.new), change.new))

    def _go_without(self, kind: str) -> None:
        self._change_mind(self._translator.go_without(kind))

    async def wait_for_owners(self, clock: Callable[[], float], interval: float) -> NoReturn:
        """Look again and again whose owner does not come, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            self.look_for_owners(clock())

    def look_for_owners(self, now: float) -> None:
        """Whoever has waited long enough for an owner that only a label names is alone."""
        cache = self._owners.get(LWS)
        if cache is not None and cache.synced:
            self._change_mind(self._translator.give_up_on_owners(now, now - cache.age()))

    def _change_mind(self, sightings: list[Sighting]) -> None:
        """Of these pods it is known only now how many start together: kube-scheduler has been told to wait."""
        self._see(sightings)
        for seen in sightings:
            if seen.pod.key in self._ledger.asleep:
                self._ledger.wake(seen.pod.key)

    def groups(self, batch: Batch[PodGroup]) -> None:
        """PodGroups have changed."""
        for change in batch.changes:
            self._see(self._translator.put_group(_key(change.old or change.new), change.new))

    def classes(self, batch: Batch[PriorityClass]) -> None:
        """Priority classes have changed."""
        self._see(
            self._translator.put_classes({_key(change.old or change.new): change.new for change in batch.changes})
        )

    def plans(self, batch: Batch[Plan]) -> None:
        """Plans have changed, be they ours or not: the planner looks at them."""
        for change in batch.changes:
            if change.new is None:
                self.known_plans.pop(_key(change.old), None)
            else:
                self.known_plans[change.new.name] = change.new

    def budgets(self, batch: Batch[PodDisruptionBudget]) -> None:
        """Disruption budgets have changed."""
        for change in batch.changes:
            self._translator.put_budget(_key(change.old or change.new), change.new)

    def nodes(self, batch: Batch[Node]) -> None:
        """Nodes have changed; most changes are heartbeats that change nothing here."""
        known = self._ledger.snapshot.fleet.nodes
        changed = []
        # Of several changes of one node only the last one is still so.
        for name, seen in {_key(change.new or change.old): change.new for change in batch.changes}.items():
            if seen is None:
                self._doubt(resources.NODES, name, doubtful=False)
                self._ledger.drop_node(name)
            elif (node := self._read_node(name, seen)) and known.get(name) != node:
                changed.append(node)
        if changed:
            self._ledger.put_nodes(changed)

    def _read_node(self, name: str, seen: Node) -> model.Node | None:
        """The node; None where its last good state is better."""
        complain = Complaints()
        node = nodes.node(seen, complain)
        self._doubt(resources.NODES, name, doubtful=bool(complain))
        good = name in self._ledger.snapshot.fleet.nodes
        self._tell(f"node {name}", complain, LAST_GOOD if good else "it counts as far as it can be read")
        return None if complain and good else node

    def namespaces(self, batch: Batch[Namespace]) -> None:
        """Namespaces have changed."""
        labels = dict(self._ledger.snapshot.namespaces)
        for change in batch.changes:
            if change.new is None:
                labels.pop(_key(change.old), None)
            else:
                labels[_key(change.new)] = queue_label(change.new)
        if labels != self._ledger.snapshot.namespaces:
            self._ledger.become(msgspec.structs.replace(self._ledger.snapshot, namespaces=labels))

    def topologies(self, batch: Batch[Topology]) -> None:
        """Topologies have changed; one that cannot be read does not replace its last good state."""
        known = dict(self._ledger.snapshot.topologies)
        for change in batch.changes:
            name, complain = _key(change.old or change.new), Complaints()
            if change.new is None:
                known.pop(name, None)
                continue
            made = others.topology(change.new, complain)
            self._tell(f"topology {name}", complain, LAST_GOOD if name in known else "it is not used")
            if not complain:
                known[name] = made
        if known != self._ledger.snapshot.topologies:
            self._ledger.become(msgspec.structs.replace(self._ledger.snapshot, topologies=known))

    def queues(self, batch: Batch[Queue]) -> None:
        """Queues have changed; the refused ones get another chance."""
        earlier, self._refused = self._refused, {}
        # Those first that were good: after a restart, too, it is the refused one that closes a circle.
        for change in sorted(batch.changes, key=lambda change: change.new is not None and bool(last_good(change.new))):
            name = _key(change.old or change.new)
            earlier.pop(name, None)
            if change.new is None:
                self._good.pop(name, None)
                self.queue_uids.pop(name, None)
                self._ledger.drop_queue(name)
            else:
                self.queue_uids[name] = change.new.metadata.uid
                self._put_queue(name, change.new)
        for name, seen in sorted(earlier.items()):
            self._put_queue(name, seen)
        faults = {**self._ledger.queue_faults, **self._faults}
        self._ledger.put_queue_faults({name: fault for name, fault in faults.items() if name in self._refused})
        self._faults = {}

    def _put_queue(self, name: str, seen: Queue) -> None:
        queue, complain = self._read_queue(seen, seen.spec)
        if not complain:
            self._good[name] = seen.spec
            self._ledger.put_queue(queue)
            return
        if name not in self._good and (good := last_good(seen)):
            # Before this process began it was good.
            queue, faults = self._read_queue(seen, good)
            if not faults:
                self._good[name] = good
                self._ledger.put_queue(queue)
        self._refused[name] = seen
        fault = QueueFault(name, seen.metadata.uid, "; ".join(complain), self._good.get(name))
        self._faults[name] = fault
        if fault != self._ledger.queue_faults.get(name):
            self._report(f"queue {name}: {fault.sentence}")

    def _read_queue(self, seen: Queue, spec: objects.QueueSpec | None) -> tuple[model.Queue, Complaints]:
        """A queue with this spec, and what is wrong with that."""
        complain = Complaints()
        queue = queues.queue(msgspec.structs.replace(seen, spec=spec), 0, complain)
        if self._closes_circle(queue):
            complain("spec.parentQueue", f"{queue.parent} lies below {queue.name}: a queue cannot be its own ancestor")
        return queue, complain

    def _closes_circle(self, queue: model.Queue) -> bool:
        """Whether a queue would be its own ancestor, also one that nobody has seen before."""
        known, name = self._ledger.snapshot.queues, queue.parent
        # Those that are known form no circle, so this comes to an end.
        while name != queue.name and (above := known.get(name)) is not None:
            name = above.parent
        return name == queue.name

    def _look_for(self, owner: str) -> None:
        """Look at once whether there are owners of this kind by now."""
        kind = owner.partition(" ")[0]
        if kind in self._owners:
            self._owners[kind].hurry()

    # --- helpers ---

    def _release(self, key: str) -> None:
        self._see(self._translator.release(key))

    def _restate(self) -> None:
        """Tell the ledger of workloads that mean something else since a pod of theirs came, changed or went."""
        for now in self._translator.take_stirred():
            known = self._ledger.workload(now.key)
            if (known is not None and known.queue is not None) != (now.queue is not None):
                # Pods without GPUs count only in a queue.
                self._see(self._translator.team(now.key))
            else:
                self._ledger.put_workload(now)

    def _see(self, sightings: list[Sighting]) -> None:
        # First, as whether a workload had a queue is known only until it is seen with one.
        self._restate()
        for seen in sightings:
            self._ledger.see(seen)
            self._doubt(resources.PODS, seen.pod.key, doubtful=bool(seen.fault))
            if seen.fault:
                self._report(f"pod {seen.pod.key}: {seen.fault}")

    def _doubt(self, kind: resources.Resource, name: str, *, doubtful: bool) -> None:
        known = self._doubtful[kind.plural]
        (known.add if doubtful else known.discard)(name)

    def _tell(self, about: str, complaints: Complaints, outcome: str) -> None:
        if complaints:
            self._report(f"{about}: {'; '.join(complaints)}; {outcome}")


def _key(seen: Any) -> str:  # noqa: ANN401 - any watched object
    return str(seen.metadata.key)
