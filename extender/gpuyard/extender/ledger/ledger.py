"""The extender's one mutable truth: what the watches said, plus what was granted and is not yet seen.

Only the watch brings a pod into the ledger, changes what is known of it and takes it out; a call about a pod can do
no more than reserve for it. How a pod goes from phase to phase is drawn in `phases`. A pod that is Reserved or Bound
counts as allocated in its queue. A reservation belongs to a pod's UID: it is made when filter says yes, made again as
often as filter is asked again, confirmed by the watch, and lapses when kube-scheduler says later that it did not
place the pod, when filter refuses the pod after all, when binding fails, or when its time is over. A reservation that
names its node (a promise) keeps the room there from everybody else; any other one is in flight to one of the nodes
that filter returned, and may land on each of them.

A key is a pod's name: a later pod of that name takes its place. A pod that was deleted is remembered for a while:
kube-scheduler may learn of that a moment after us, and ask for a pod that nobody will ever bind.

Decided in docs/decisions.md: "A refusal by kube-scheduler ends a reservation after a second, not at once".
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from gpuyard.common.cluster.sighting import Sighting
from gpuyard.engine.kube.workloads import PREEMPTIBLE_BELOW
from gpuyard.engine.model import Node, Pod, Promise, Queue, State, Workload
from gpuyard.engine.model.counting import Occupancy, claim
from gpuyard.engine.model.snapshot import Draft, Snapshot
from gpuyard.extender.ledger.arrivals import Arrivals
from gpuyard.extender.ledger.in_flight import InFlight
from gpuyard.extender.ledger.kept_room import Promises, Share
from gpuyard.extender.ledger.offers import Offers, among
from gpuyard.extender.ledger.phases import (
    COUNTED_NOWHERE,
    TRANSITIONS,
    UNASKED,
    Entry,
    Event,
    Grant,
    Phase,
    Reservation,
)
from msgspec.structs import replace

if TYPE_CHECKING:
    from gpuyard.common.cluster.queue_faults import QueueFault

IN_FLIGHT = 1.0
"""Seconds after a yes in which a refusal by kube-scheduler may still be that of the cycle before."""


NOT_SEEN_YET = "NotSeenYet"
"""The reason why a pod was refused that no watch had shown yet."""

NOT_SEEN_SENTENCE = "gpuyard has not seen this pod yet"
"""What kube-scheduler is told then; once the watch shows the pod with it, the pod is woken."""

TOUCHED = 100_000
"""Pods that are remembered to have changed, for who follows it; of more it would be no less work to begin anew."""

AT_ONCE = 2
"""Reservations that lapse, and grants that are reported as ended, in one step: a verb may wait for its end."""

MANY_CHANGES = 16
"""Pods that have changed since the last snapshot; more make the next one take long."""

BURIED = 4096
"""Deleted pods that are remembered: more than go in the time in which kube-scheduler may still ask about one."""

_NOBODY: tuple[Workload | None, frozenset[str]] = (None, frozenset())
"""The pods of a workload of which nothing is known."""


class Ledger:
    """The pods with their reservations, and the snapshot that counts them. Times are seconds of one monotonic clock."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._snapshot = snapshot or Snapshot.build()
        self._draft: Draft | None = None
        self._entries: dict[str, Entry] = {}
        self._teams: dict[str, tuple[Workload, frozenset[str]]] = {}
        self._until: dict[str, float] = {}
        self._earliest = float("inf")
        """No reservation lapses before."""
        self._asleep: dict[str, str] = {}
        self._overtaken: dict[str, int] = {}
        """Our versions of the pods of which kube-scheduler knew a later one when it last asked, by key."""
        self._called: set[str] = set()
        self._offers = Offers()
        self._buried: dict[str, None] = {}
        self._touched: set[str] | None = set()
        self._news = False
        self.granted_to: Callable[[str], None] = lambda _: None
        """Told of each pod that is let through, before anything else happens."""
        self.grant_ended: Callable[[str], None] = lambda _: None
        """Told of each pod whose grant has ended: it is bound, was refused, or got no node in time."""
        self._released: set[str] = set()
        self.arrivals = Arrivals()
        """The calls that wait for the watch."""
        self.callers_are_known = True
        """Whether only kube-scheduler is answered. Else the nodes of a call are no ground to evict, strike or rank."""
        self.in_flight = InFlight()
        """Where those may land who were let through."""
        self.promises = Promises(self._entries, lambda key: self._teams.get(key, _NOBODY)[1])
        """Room that unfinished plans keep."""
        self.queue_faults: Mapping[str, QueueFault] = {}
        """The queues that are not used as they are written, by name."""

    # --- reading ---

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it counts now: with all reservations."""
        if self._draft is not None:
            self._snapshot, self._draft = self._draft.done(), None
        return self._snapshot

    def keep_up(self) -> None:
        """Bring the snapshot up to date before so much has changed that the next verb would wait long for it."""
        if self._draft is not None and self._draft.pods_changed >= MANY_CHANGES:
            self._snapshot, self._draft = self._draft.done(), None

    def room(self, nodes: Iterable[str]) -> Mapping[str, Occupancy | None]:
        """What is left of these nodes as the cluster counts now, for less than a snapshot; None: no such node."""
        if self._draft is not None:
            return self._draft.room(nodes)
        known = self._snapshot.room
        return {name: known.get(name) for name in nodes}

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The pods by key."""
        return self._entries

    @property
    def granted(self) -> AbstractSet[str]:
        """The pods that count although no watch has shown them on a node, by key."""
        return self._until.keys()

    def seen(self, key: str, uid: str) -> Sighting | None:
        """What the watch last showed of this pod; None: it shows no such pod."""
        entry = self._entries.get(key)
        return entry.seen if entry is not None and entry.seen.pod.uid == uid else None

    @property
    def asleep(self) -> Mapping[str, str]:
        """Why the last answer was no, of the pods whom nobody has woken since, by key."""
        return self._asleep

    @property
    def doomed(self) -> frozenset[str]:
        """The UIDs of the pods that kube-scheduler was allowed to evict a moment ago."""
        granted = (self._entries[key].reservation for key in self._until)
        return frozenset(uid for one in granted if one for uid in one.grant.victims)

    @property
    def kept(self) -> Mapping[str, str]:
        """The nodes that have room reserved for one pod and for nobody else, by that pod's key."""
        return self.in_flight.kept

    def place_kept(self, pod: Pod) -> Grant | None:
        """The place that is reserved for this pod alone; None: there is none."""
        entry = self._entries.get(pod.key)
        if pod.key not in self.kept or entry is None or entry.seen.pod.uid != pod.uid:
            return None
        return entry.reservation.grant if entry.reservation else None

    def offered(self, pod: Pod, since: float) -> frozenset[str] | None:
        """The nodes that kube-scheduler has offered this pod since then; None: it has not."""
        return self._offers.since(pod, since)

    def heeded(self, pod: Pod, since: float) -> frozenset[str] | None:
        """As `offered`, but None where anybody may call: for what evicts, strikes out a place or ranks."""
        return self.offered(pod, since) if self.callers_are_known else None

    def is_deleted(self, uid: str) -> bool:
        """Whether the watch has shown not long ago that this pod was deleted."""
        return uid in self._buried

    def has_ended(self, seen: Sighting) -> bool:
        """Whether this pod has ended, or is on its way out without ever having had a node."""
        return _news(seen.pod) is Event.ENDED

    def last_offer(self, pod: Pod) -> float | None:
        """When kube-scheduler last offered this pod nodes; None: it has not, or anybody may call."""
        return self._offers.last(pod) if self.callers_are_known else None

    def spoken_for(self, nodes: Collection[str] | None, but: str) -> int:
        """The whole GPUs on these nodes (None: on all) that plans keep, or that others than this pod may take."""
        promised = self.promises.gpus
        kept = sum(promised.values() if nodes is None else (promised[node] for node in promised if node in nodes))
        return kept + self.in_flight.gpus_to(nodes, but)

    def waiting(self, seen: Sighting) -> Snapshot:
        """The cluster in which nothing was granted to this pod: what its gates are asked on."""
        snapshot, pod = self.snapshot, seen.pod
        if snapshot.pods.get(pod.key, pod) == pod:
            return snapshot
        return snapshot.with_pod(pod)

    def stir(self) -> None:
        """Something has changed outside that may let those go who wait."""
        self._news = True

    def take_news(self) -> bool:
        """Whether since the last call something has changed that may let those go who wait."""
        news, self._news = self._news, False
        return news

    # --- what the watches say ---

    def see(self, seen: Sighting) -> None:
        """The watch shows this pod."""
        key, before = seen.pod.key, self._entries.get(seen.pod.key)
        self._buried.pop(seen.pod.uid, None)
        self._move(seen, _news(seen.pod))
        if _says_not_seen(seen) and not (before and _says_not_seen(before.seen)):
            self._asleep[key] = NOT_SEEN_YET
            self._news = True
        if self._overtaken.get(key, seen.version) < seen.version:
            del self._overtaken[key]
            self.wake(key)
        self.arrivals.show(seen.pod.uid, seen.version)

    def see_all(self, sightings: Iterable[Sighting]) -> Iterator[None]:
        """The watch has shown these pods; what they mean has changed since. In steps."""
        for seen in sightings:
            self.see(seen)
            self.keep_up()
            yield

    def adopt(self, seen: Sighting, until: float) -> None:
        """At start: kube-scheduler may be binding this pod, so it counts until kube-scheduler's next word on it."""
        self._move(seen, Event.ADOPTED, Reservation(float("-inf"), until, seen.version, seen.verdict))

    def end(self, key: str, uid: str) -> None:
        """The pod is deleted for good."""
        self._bury(uid)
        self._end(key, uid)

    def workload(self, key: str) -> Workload | None:
        """A workload of which pods are known; None: of this one none is."""
        return self._teams[key][0] if key in self._teams else None

    def put_workload(self, workload: Workload) -> None:
        """A workload has changed apart from its pods; one that nobody belongs to yet comes with its first pod."""
        known, team = self._teams.get(workload.key, (workload, frozenset()))
        if known != workload:
            self._news = True
            self._teams[workload.key] = (workload, team)
            self._changes.put_workload(workload)
            self._restate(workload, team)

    def _restate(self, workload: Workload, team: Iterable[str]) -> None:
        """Let all pods of a workload say the same of it: a reservation that lapses must not bring back an old one."""
        for key in team:
            entry = self._entries[key]
            self._entries[key] = replace(entry, seen=replace(entry.seen, workload=workload))
            if _matters(entry.seen.pod):
                self._touch(key)

    def put_nodes(self, nodes: Iterable[Node]) -> None:
        """These nodes are new or changed; kube-scheduler may have asked about them before we knew."""
        self._news = True
        self._changes.put_nodes(nodes)

    def drop_node(self, name: str) -> None:
        """This node is gone."""
        self._changes.drop_node(name)

    def put_queue(self, queue: Queue) -> None:
        """This queue is new or changed; what only its status says is no change."""
        if self.snapshot.queues.get(queue.name) != queue:
            self._news = True
            self._changes.put_queue(queue)

    def drop_queue(self, name: str) -> None:
        """This queue is gone."""
        self._news = True
        self._changes.drop_queue(name)

    def put_queue_faults(self, faults: Mapping[str, "QueueFault"]) -> None:
        """These queues, and no others, are not used as they are written."""
        if faults != self.queue_faults:
            self.queue_faults = faults
            # Their status says so: whoever writes that looks for another snapshot.
            self.become(replace(self.snapshot))

    def become(self, snapshot: Snapshot) -> None:
        """Go on from `snapshot`: `self.snapshot` with other changes than of pods, nodes and queues."""
        self._news = True
        self._snapshot, self._draft = snapshot, None

    # --- what was answered ---

    def reserve(self, seen: Sighting, grant: Grant, *, now: float, until: float) -> None:
        """Filter says yes to a pod that the watch shows: from now on it counts, on its only node if there is one."""
        if self.seen(seen.pod.key, seen.pod.uid) is not None and not self.has_ended(seen):
            self._move(seen, Event.GRANTED, Reservation(now, until, seen.version, seen.verdict, grant))
            self.promises.assign(seen.pod, grant.node)

    def promise(self, key: str, place: Grant, *, now: float, until: float) -> None:
        """A place is kept for a known pod that kube-scheduler shall ask for once more: it counts there from now on."""
        seen = self._entries[key].seen
        self._move(seen, Event.GRANTED, Reservation(now, until, UNASKED, seen.verdict, place))
        self.wake(key)

    def give_up(self, key: str) -> None:
        """Keep no longer the place that a pod was promised and has not been asked about since."""
        entry = self._entries.get(key)
        if entry and entry.reservation and entry.reservation.version == UNASKED:
            self._move(entry.seen, Event.LAPSED)

    def offer(self, pod: Pod, nodes: Collection[str], now: float) -> None:
        """kube-scheduler offers these nodes to a pod that waits: its verdict, whatever ours is."""
        self._offers.put(pod, among(self.snapshot.fleet.names, nodes), now)
        self._touch(pod.key)

    def refuse(self, seen: Sighting, why: str) -> None:
        """Filter says no: what was granted earlier, if anything was, no longer holds."""
        self.lapse(seen.pod.key, seen.pod.uid)
        self._asleep[seen.pod.key] = why

    def overtaken(self, key: str) -> None:
        """kube-scheduler knows a later version of this pod than the watch has shown: wake it when that comes."""
        self._overtaken[key] = self._entries[key].seen.version

    def put_promises(self, promises: Iterable[Promise]) -> None:
        """These are the promises of all unfinished plans."""
        changed = self.snapshot.with_promises(promises)
        if changed.promises != self._snapshot.promises:
            self.become(changed)
            self.promises.put(changed.promises, self._share)

    def _share(self, promise: Promise) -> Share:
        """What a promise takes up in its queue, like the pod that it is for."""
        snapshot = self.snapshot
        node, workload = snapshot.fleet.nodes.get(promise.node), snapshot.workloads.get(promise.workload)
        preemptible = workload.preemptible if workload else promise.priority < PREEMPTIBLE_BELOW
        amounts = claim(promise.shape, node.gpu_memory if node else snapshot.fleet.smallest_gpu)
        queue = promise.queue or (workload.queue if promise.elastic and workload else None) or ""
        return Share(queue, not preemptible, amounts)

    def take_touched(self) -> AbstractSet[str] | None:
        """The pods to which something has happened since the last time, by key; None: too many to tell."""
        touched, self._touched = self._touched, set()
        return touched

    def take_called(self) -> AbstractSet[str]:
        """The pods that were called since the last time, by key: they are to be woken whatever they were told."""
        called, self._called = self._called, set()
        return called

    def woken(self, key: str) -> str | None:
        """This pod is being poked: kube-scheduler will ask again. Why it slept, if it did."""
        return self._asleep.pop(key, None)

    def not_woken(self, key: str, why: str | None) -> None:
        """The poke has failed: it sleeps on, and is to be woken with the next ones."""
        if key in self._entries and why is not None:
            self._asleep.setdefault(key, why)
        self.wake(key)

    def wake(self, key: str) -> None:
        """Wake this pod with the next ones, whatever it was told."""
        if key in self._entries:
            self._called.add(key)
            self._news = True

    def lapse(self, key: str, uid: str) -> None:
        """What was granted to this pod, if anything was, no longer holds."""
        entry = self._entries.get(key)
        if entry is not None and entry.seen.pod.uid == uid:
            self._move(entry.seen, Event.LAPSED)

    def expire(self, now: float, asked: str = "") -> bool:
        """Let reservations lapse whose time is over, and report grants that have ended; False: some are left to do.

        The pod that is asked about, by key, comes first.

        After a start the time of all who waited is over at once. What is not done yet counts a moment longer.
        """
        over = [key for key, until in self._until.items() if until <= now] if now >= self._earliest else []
        some = self._with_their_teams(sorted(over, key=lambda key: key != asked))
        for key in some:
            self._move(self._entries[key].seen, Event.LAPSED)
        if len(some) == len(over) and now >= self._earliest:
            self._earliest = min(self._until.values(), default=float("inf"))
        released = sorted(self._released, key=lambda key: (key != asked, key))[:AT_ONCE]
        self._released.difference_update(released)
        for key in released:
            self.grant_ended(key)
        self.keep_up()
        return len(some) == len(over) and not self._released

    def _with_their_teams(self, keys: Sequence[str]) -> Sequence[str]:
        """The first few of these pods, with all others of their workloads: a gang must not lose half of its places."""
        if len(keys) <= AT_ONCE:
            return keys
        teams = {self._entries[key].seen.pod.workload for key in keys[:AT_ONCE]} - {""}
        return [*keys[:AT_ONCE], *(key for key in keys[AT_ONCE:] if self._entries[key].seen.pod.workload in teams)]

    def expire_all(self, now: float) -> Generator[None]:
        """As `expire`, until nothing is left, in steps."""
        while not self.expire(now):
            yield

    def _end(self, key: str, uid: str) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry.seen.pod.uid == uid:
            self._move(entry.seen, Event.ENDED)
            self._remove(entry.seen.pod)

    def _bury(self, uid: str) -> None:
        """Remember a pod that is gone for good; the oldest of too many is forgotten."""
        if not uid:
            return
        self._buried[uid] = None
        if len(self._buried) > BURIED:
            del self._buried[next(iter(self._buried))]

    def _touch(self, key: str) -> None:
        if self._touched is not None:
            self._touched.add(key)
            if len(self._touched) > TOUCHED:
                self._touched = None

    # --- the one place where a phase changes ---

    def _move(self, seen: Sighting, event: Event, granted: Reservation | None = None) -> None:
        old = self._entries.get(seen.pod.key)
        if _matters(seen.pod) or (old is not None and _matters(old.seen.pod)):
            self._touch(seen.pod.key)
        if old is not None and old.seen.pod.uid != seen.pod.uid:
            self._end(seen.pod.key, old.seen.pod.uid)
            old = None
        before = old.phase if old else Phase.GONE
        after = TRANSITIONS[before][event]
        # Also when a placed pod ends: kube-scheduler may know it first, ask at once, and be refused for the last time.
        # And when one in flight lands: then it is known which nodes it did not take.
        landed = before is Phase.RESERVED and after is Phase.BOUND and bool(self._asleep)
        if landed or (before not in COUNTED_NOWHERE and after in COUNTED_NOWHERE):
            self._news = True
        reservation = granted or _kept(old, seen) if after is Phase.RESERVED else None
        self._put(Entry(after, seen, reservation), old)

    def _put(self, entry: Entry, old: Entry | None) -> None:
        pod, workload = entry.seen.pod, entry.seen.workload
        self._note_grant(entry, old)
        self._entries[pod.key] = entry
        self._until.pop(pod.key, None)
        if entry.phase is not Phase.PENDING:
            self._asleep.pop(pod.key, None)
        if entry.phase is Phase.BOUND:
            self._offers.drop(pod.key)
        self.in_flight.end(pod.key)
        if entry.reservation is not None:
            self._until[pod.key] = entry.reservation.until
            self._earliest = min(self._earliest, entry.reservation.until)
            self._set_out(pod, entry.reservation.grant)
        if workload is not None:
            self._join(workload, pod.key)
        if old is None or old.counted != entry.counted:
            self._changes.put_pods((entry.counted,))
        if old is not None and old.seen.pod.workload != pod.workload:
            self._leave(old.seen.pod)
        before = old.counted if old else entry.counted
        self.promises.look(pod.key, (before.workload, pod.workload), (before.node, entry.counted.node))

    def _note_grant(self, entry: Entry, old: Entry | None) -> None:
        """Tell of a pod that is let through, and remember one that is no longer on its way."""
        key, was_granted = entry.seen.pod.key, old is not None and old.phase is Phase.RESERVED
        if was_granted and entry.phase is not Phase.RESERVED:
            self._released.add(key)
        elif entry.phase is Phase.RESERVED and not was_granted:
            self._released.discard(key)
            self.granted_to(key)

    def _set_out(self, pod: Pod, grant: Grant) -> None:
        if grant.node:
            self.in_flight.keep(pod, grant.node)
        elif grant.nodes:
            self.in_flight.start(pod, grant.nodes)

    def _join(self, workload: Workload, pod: str) -> None:
        known, team = self._teams.get(workload.key, (None, frozenset()))
        if known != workload:
            self._changes.put_workload(workload)
            self._restate(workload, team - {pod})
        if known != workload or pod not in team:
            self._teams[workload.key] = (workload, team | {pod})
            # A gang that has become whole: kube-scheduler wakes nobody for a pod that is only created.
            self._news |= bool(team)

    def _remove(self, pod: Pod) -> None:
        for known in (self._entries, self._until, self._asleep):
            known.pop(pod.key, None)
        self._overtaken.pop(pod.key, None)
        self._offers.drop(pod.key)
        self.in_flight.end(pod.key)
        self._changes.drop_pods((pod.key,))
        self._leave(pod)
        self.promises.look(pod.key, (pod.workload,), (pod.node,))

    def _leave(self, pod: Pod) -> None:
        if pod.workload not in self._teams:
            return
        workload, team = self._teams[pod.workload]
        self._teams[pod.workload] = (workload, team - {pod.key})
        if team <= {pod.key}:
            del self._teams[pod.workload]
            self._changes.drop_workload(pod.workload)

    @property
    def _changes(self) -> Draft:
        if self._draft is None:
            self._draft = self._snapshot.draft()
        return self._draft


def _news(pod: Pod) -> Event:
    if pod.state is State.PENDING:
        return Event.SEEN_WAITING
    ended = pod.state in (State.SUCCEEDED, State.FAILED) or not pod.node
    return Event.ENDED if ended else Event.SEEN_PLACED


def _says_not_seen(seen: Sighting) -> bool:
    """Whether the last word of kube-scheduler on a waiting pod is that we had not seen it."""
    return seen.pod.state is State.PENDING and seen.verdict is not None and NOT_SEEN_SENTENCE in seen.verdict


def _matters(pod: Pod) -> bool:
    """Whether others may be let go, or not, by what happens to this pod."""
    return bool(pod.workload) or pod.shape.wants_gpu


def _kept(old: Entry | None, seen: Sighting) -> Reservation | None:
    """The reservation after news of the pod: a later refusal leaves it the time that a binding in flight needs."""
    reservation = old.reservation if old else None
    if reservation is None or seen.verdict in (None, reservation.verdict) or seen.version <= reservation.version:
        return reservation
    return replace(reservation, until=min(reservation.until, reservation.since + IN_FLIGHT))
