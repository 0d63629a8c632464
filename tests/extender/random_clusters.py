"""Small random clusters as Kubernetes objects: the same seed gives the same cluster.

`RandomCluster.objects` are the objects in the end, `histories` what the API server tells of each object on the way
there: earlier versions, deletions and new objects of the same name, and objects that are gone in the end.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random
from typing import TypeVar

import msgspec

from tests.extender.builders import PARTS, Json, container, meta, node, queue, topology

A = TypeVar("A")

NAMESPACES = ("ns", "other")
QUEUES = ("team", "team-a", "team-b", "deep", "missing")
GROUPS = ("g", "flat", "parts", "rest", "p1", "train")
"""Names of PodGroups; some are also the names of pods and owners."""
CLASSES = {"mine": 60, "high": 130, "train": 55}
MEMORIES = ("16384", "81920", "")
DEVICES = ("one", "two")
RESERVED = "kai-resource-reservation"
OWNERS = ("train", "lws", "ray", "batch")
LWS = "leaderworkerset.sigs.k8s.io"

GPUS: tuple[tuple[int, Json], ...] = (
    (0, {}),
    (1, {}),
    (2, {}),
    (0, {"gpu-fraction": "0.5"}),
    (0, {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}),
    (0, {"gpu-memory": "4096"}),
)
"""Whole GPUs and annotations of a pod."""

WRONG_LABELS: tuple[Json, ...] = (
    {"kai.scheduler/subgroup-name": "nobody"},
    {"kai.scheduler/preemptibility": "often"},
    {"kai.scheduler/task-priority": "high"},
    {"priorityClassName": "unheard-of"},
)
WRONG_NOTES: tuple[Json, ...] = (
    {"gpu-fraction": "much"},
    {"gpu-memory": "-1"},
    {"kai.scheduler/batch-min-member": "many"},
    {"kai.scheduler/preemption-delay": "soon"},
)

WAITING = ("waiting", "gated", "nominated")
STATES = (*WAITING, "bound", "running", "terminating", "ended", "deleted-unplaced", "wish")


class RandomCluster:
    """A cluster with the histories of its objects."""

    def __init__(self, seed: int, *, kai: bool = False) -> None:
        self._chance = Random(seed)
        self._sharing = Random(seed)
        """Which pods really share GPUs; apart, so that a seed gives the cluster that it gave before."""
        self._kai = kai
        """Whether KAI places pods, too."""
        self.default_queues = [self._chance.choice(("", "", "team-a")) for _ in range(2)]
        """The setting at first and in the end."""
        self.faulty = self.happens(0.3)
        """Whether some objects say what cannot be read: a file of them is refused."""
        self._nodes = [f"n{n}" for n in range(self._chance.randint(1, 3))]
        self._places = [*self._nodes, "gone"] if self.faulty else self._nodes
        self.histories = [*map(self._history, self._identities()), *self._reservations()]
        self.objects = [found for history in self.histories if (found := history[-1]["now"]) is not None]

    def events(self) -> Iterator[Json]:
        """All histories as one: in the order of time for each object, in any order between objects."""
        left = [list(history) for history in self.histories]
        while left:
            one = self._chance.choice(left)
            yield one.pop(0)
            left = [each for each in left if each]

    def happens(self, chance: float) -> bool:
        """Whether something happens that is so likely."""
        return self._chance.random() < chance

    def chosen(self, some: Sequence[A]) -> A:
        """One of these."""
        return self._chance.choice(some)

    # --- histories ---

    def _identities(self) -> list[tuple[str, str, str]]:
        """Kind, namespace and name of all objects that ever are."""
        some: list[tuple[str, str, str]] = [("Node", "", name) for name in self._nodes]
        some += [("Namespace", "", name) for name in NAMESPACES]
        some += [("Queue", "", name) for name in QUEUES[:-1]]
        some += [("PriorityClass", "", name) for name in CLASSES if self.happens(0.7)]
        some += [("Topology", "", "zones")]
        some += [("PodGroup", "ns", name) for name in GROUPS if self.happens(0.5)]
        some += [("PyTorchJob", "ns", "train"), ("LeaderWorkerSet", "ns", "lws"), ("RayCluster", "ns", "ray")]
        some += [("Job", "ns", "batch"), ("PodDisruptionBudget", "ns", "budget")]
        return some + [("Pod", self._chance.choice(("ns", "ns", "ns", "other")), f"p{n}") for n in range(10)]

    def _history(self, of: tuple[str, str, str]) -> list[Json]:
        """The versions of one object, the last one first made; each event has the object after it (None: gone)."""
        kind = of[0]
        stays = kind not in ("Pod", "PodGroup", "PodDisruptionBudget", "PriorityClass") or self.happens(0.75)
        versions = [self._object(of, self._early_state()) for _ in range(self._chance.choice((0, 0, 1, 2, 3)))]
        if stays or not versions:
            versions += self._end_of(of)
        events: list[Json] = []
        for n, version in enumerate(versions):
            if n and kind not in ("PyTorchJob", "LeaderWorkerSet", "RayCluster", "Job") and self.happens(0.15):
                events.append({"kind": kind, "key": of, "now": None})
            renewed = version | {"metadata": version["metadata"] | {"uid": f"uid-{of[2]}-{_deaths(events)}"}}
            events += [{"kind": kind, "key": of, "now": renewed}] * self._chance.choice((1, 1, 1, 2))
        return events if stays else [*events, {"kind": kind, "key": of, "now": None}]

    def _reservations(self) -> Iterator[list[Json]]:
        """The histories of KAI's reservation pods."""
        for node_name, group in product(self._nodes if self._kai else (), DEVICES):
            name = f"{group}-{node_name}"
            labels = {"runai-gpu-group": group}
            made = {
                "kind": "Pod",
                "metadata": meta(name, RESERVED, labels=labels, creationTimestamp="2026-01-01T00:00:00Z"),
                "spec": {"containers": [container(1)], "nodeName": node_name},
            }
            status = [{"status": _status(state, self._sharing)} for state in ("bound", "running", "ended")]
            states = [made | one for one in status[: self._sharing.randint(1, 3)]] + [None] * self._sharing.randint(
                0, 1
            )
            yield [{"kind": "Pod", "key": ("Pod", RESERVED, name), "now": now} for now in states]

    def _early_state(self) -> str:
        return self._chance.choice(WAITING)

    def _end_of(self, of: tuple[str, str, str]) -> list[Json]:
        """The last versions: of a placed pod nothing changes any more but what becomes of it."""
        state = self._chance.choice(STATES)
        last = self._object(of, state)
        if of[0] != "Pod" or state not in ("running", "terminating", "ended") or self.happens(0.5):
            return [last]
        return [last | {"status": _status("bound", self._chance)}, last]

    # --- objects ---

    def _object(self, of: tuple[str, str, str], state: str) -> Json:
        kind, namespace, name = of
        if kind == "Pod":
            return self._pod(namespace, name, state)
        make: dict[str, Callable[[str], Json]] = {
            "Node": self._node,
            "Namespace": self._namespace,
            "Queue": self._queue,
            "PriorityClass": self._class,
            "Topology": self._topology,
            "PodGroup": self._group,
            "PodDisruptionBudget": self._budget,
        }
        return make[kind](name) if kind in make else self._owner(kind, name)

    def _node(self, name: str) -> Json:
        labels = {"zone": self._chance.choice("ab")}
        if memory := self._chance.choice(MEMORIES):
            labels["nvidia.com/gpu.memory"] = memory
        made = node(name, self._chance.choice((4, 8)), **labels)
        return made | ({"spec": {"unschedulable": True}} if self.happens(0.2) else {})

    def _namespace(self, name: str) -> Json:
        labels = {"kai.scheduler/queue": self._chance.choice(QUEUES)} if self.happens(0.5) else {}
        return {"kind": "Namespace", "metadata": meta(name, labels=labels)}

    def _queue(self, name: str) -> Json:
        parents = QUEUES[: QUEUES.index(name)]
        parent = self._chance.choice(("", *parents))
        made = queue(name, self._chance.choice((-1, 4)), self._chance.choice((0, 2, 8)), parent=parent)
        return _born(made, "2026-01-01T00:00:00Z")

    def _class(self, name: str) -> Json:
        value = CLASSES[name] + self._chance.choice((0, 0, 45))
        return {"kind": "PriorityClass", "metadata": meta(name), "value": value}

    def _topology(self, name: str) -> Json:
        return topology(name, "zone", *(["rack"] if self.happens(0.5) else []))

    def _budget(self, name: str) -> Json:
        wanted: Json = {"matchLabels": {"app": self._chance.choice("xy")}} if self.happens(0.7) else {}
        status = {"disruptionsAllowed": self._chance.randint(0, 2)}
        return {
            "kind": "PodDisruptionBudget",
            "metadata": meta(name, "ns"),
            "spec": {"selector": wanted},
            "status": status,
        }

    def _group(self, name: str) -> Json:
        spec: Json = {"minMember": self._chance.randint(0, 4)}
        if self.happens(0.6):
            spec["queue"] = self._chance.choice(QUEUES)
        if self.happens(0.3):
            spec["priorityClassName"] = self._chance.choice(("train", "build", "inference"))
        if self.happens(0.3):
            spec["topologyConstraint"] = {"topology": "zones", "requiredTopologyLevel": "zone"}
        if name == "parts" or self.happens(0.4):
            names = (
                ["lead"] if self.faulty and self.happens(0.3) else ["default", *(["lead"] if self.happens(0.5) else [])]
            )
            spec["subGroups"] = [{"name": one, "minMember": self._chance.randint(1, 2)} for one in names]
        if self.faulty and self.happens(0.2):
            spec |= self._chance.choice(({"minMember": -1}, {"preemptibility": "often"}, {"subGroups": [{"name": ""}]}))
        labels = {"kai.scheduler/preemptibility": "non-preemptible"} if self.happens(0.3) else {}
        notes = {"kai.scheduler/stale-podgroup-timestamp": "2026-01-02T00:00:00Z"} if self.happens(0.2) else {}
        made = {"kind": "PodGroup", "metadata": meta(name, "ns", labels=labels, annotations=notes), "spec": spec}
        return _born(made, f"2026-01-01T0{self._chance.randint(0, 9)}:00:00Z")

    def _owner(self, kind: str, name: str) -> Json:
        size = self._chance.randint(1, 3)
        specs: dict[str, Json] = {
            "PyTorchJob": {"pytorchReplicaSpecs": {"Worker": {"replicas": size}}},
            "LeaderWorkerSet": {"leaderWorkerTemplate": {"size": size}},
            "RayCluster": {"workerGroupSpecs": [{"minReplicas": size}]},
            "Job": {},
        }
        notes = {"kai.scheduler/batch-min-member": str(size)} if kind == "Job" and self.happens(0.7) else {}
        return {"kind": kind, "metadata": meta(name, "ns", annotations=notes), "spec": specs[kind]}

    def _pod(self, namespace: str, name: str, state: str) -> Json:
        gpus, notes = self._chance.choice(GPUS)
        labels = {"app": self._chance.choice("xyz")} | self._marks()
        notes = notes | self._gang_notes()
        named = meta(name, namespace, labels=labels, annotations=notes)
        if namespace == "ns" and (owner := self._owner_reference(labels)):
            named["ownerReferences"] = [owner]
        # Now and then nobody has given the pod the resource without which its annotations have no effect.
        shared = not PARTS.isdisjoint(notes) and self._sharing.random() < 0.7
        spec: Json = {"containers": [container(gpus, shared=shared)]} | self._rank()
        if self.happens(0.1):
            spec["schedulerName"] = self._chance.choice(("kai-scheduler", "other-scheduler"))
        if self._kai and not shared:
            spec["schedulerName"] = "kai-scheduler"
            labels["runai-gpu-group"] = self._sharing.choice(DEVICES)
        if state not in (*WAITING, "deleted-unplaced"):
            spec["nodeName"] = self._chance.choice(self._places)
        if state == "gated":
            spec["schedulingGates"] = [{"name": "later"}]
        if state in ("terminating", "deleted-unplaced"):
            named["deletionTimestamp"] = "2026-01-03T00:00:00Z"
        made = {"kind": "Pod", "metadata": named, "spec": spec, "status": _status(state, self._chance)}
        return _born(made, f"2026-01-01T00:0{self._chance.randint(0, 9)}:00Z")

    def _marks(self) -> Json:
        """Labels that count in a queue or a gang, now and then wrong ones."""
        some: Json = {}
        if self.happens(0.6):
            some["kai.scheduler/queue"] = self._chance.choice(QUEUES)
        if self.happens(0.1):
            some["runai/queue"] = self._chance.choice(QUEUES)
        if self.happens(0.2):
            some["kai.scheduler/preemptibility"] = self._chance.choice(("preemptible", "non-preemptible"))
        if self.happens(0.3):
            some["kai.scheduler/subgroup-name"] = self._chance.choice(("lead", "default"))
        if self.happens(0.2):
            some["kai.scheduler/task-priority"] = self._chance.choice(("1", "5"))
        if self.happens(0.2):
            some["runai-gpu-group"] = self._chance.choice(DEVICES)
        if self.happens(0.1):
            some["priorityClassName"] = self._chance.choice(("build", "inference"))
        return some | (self._chance.choice(WRONG_LABELS) if self.faulty and self.happens(0.3) else {})

    def _gang_notes(self) -> Json:
        notes: Json = {}
        if self.happens(0.4):
            notes["pod-group-name"] = self._chance.choice((*GROUPS, "never-given"))
        if self.happens(0.15):
            notes["kai.scheduler/batch-min-member"] = self._chance.choice(("1", "2", "3"))
        return notes | (self._chance.choice(WRONG_NOTES) if self.faulty and self.happens(0.3) else {})

    def _owner_reference(self, labels: Json) -> Json | None:
        kind, name, version = self._chance.choice(
            (
                ("", "", ""),
                ("", "", ""),
                ("PyTorchJob", "train", "kubeflow.org/v1"),
                ("RayCluster", "ray", "ray.io/v1"),
                ("Job", "batch", "batch/v1"),
                ("Job", "batch", "batch.example.com/v1"),
                ("LeaderWorkerSet", "lws", "leaderworkerset.x-k8s.io/v1"),
                ("StatefulSet", "lws-0", "apps/v1"),
                ("ReplicaSet", "web", "apps/v1"),
            )
        )
        if not kind:
            return None
        if kind in ("StatefulSet", "LeaderWorkerSet"):
            labels |= {f"{LWS}/name": "lws", f"{LWS}/group-index": "0"}
        return {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}

    def _rank(self) -> Json:
        if not self.happens(0.4):
            return {"priority": 0}
        name = self._chance.choice(("mine", "high", "train"))
        return {"priorityClassName": name, "priority": CLASSES[name]}


def _deaths(events: list[Json]) -> int:
    return sum(one["now"] is None for one in events)


def _born(made: Json, at: str) -> Json:
    return made | {"metadata": made["metadata"] | {"creationTimestamp": at}}


def _status(state: str, chance: Random) -> Json:
    phase = {"running": "Running", "terminating": "Running"}.get(state, "Pending")
    status: Json = {"phase": chance.choice(("Succeeded", "Failed")) if state == "ended" else phase}
    if state == "bound":
        status["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    if state == "nominated":
        status["nominatedNodeName"] = chance.choice(("n0", "n1", "gone"))
    return status


def encoded(thing: Json) -> bytes:
    """An object as the API server writes it."""
    return msgspec.json.encode(thing)
