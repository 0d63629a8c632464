"""Kubernetes objects in one line each, and a bench that has them in a ledger as the watches would put them there."""

import itertools
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec
from gpuyard.common.cluster.objects import (
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    Topology,
)
from gpuyard.common.cluster.translate import Translator
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.plans.plan import Plan
from gpuyard.extender.http.authentication import Gate
from gpuyard.extender.http.server import Unavailable
from gpuyard.extender.http.wire import CANDIDATES, PREEMPTION, Candidates, FilterAnswer, PreemptAnswer
from gpuyard.extender.ledger import Ledger
from gpuyard.extender.ledger.feed import Feed
from gpuyard.extender.verbs.verbs import Verbs

Json = dict[str, Any]
A = TypeVar("A")

_versions = itertools.count(1)

KINDS: dict[str, type] = {
    "Namespace": Namespace,
    "Node": Node,
    "Plan": Plan,
    "Pod": Pod,
    "PodDisruptionBudget": PodDisruptionBudget,
    "PodGroup": PodGroup,
    "PriorityClass": PriorityClass,
    "Queue": Queue,
    "Topology": Topology,
}


def meta(name: str, namespace: str = "", **more: object) -> Json:
    made = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(next(_versions))}
    return made | ({"namespace": namespace} if namespace else {}) | more


def node(name: str, gpus: int = 8, **labels: str) -> Json:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {"kind": "Node", "metadata": meta(name, labels=labels), "status": {"allocatable": room}}


def topology(name: str, *levels: str) -> Json:
    return {"kind": "Topology", "metadata": meta(name), "spec": {"levels": [{"nodeLabel": one} for one in levels]}}


def queue(name: str, limit: float = -1, quota: float = -1, *, parent: str = "") -> Json:
    spec = {"parentQueue": parent, "resources": {"gpu": {"limit": limit, "quota": quota}}}
    return {"kind": "Queue", "metadata": meta(name), "spec": spec}


def group(name: str, minimum: int, queue: str) -> Json:
    return {"kind": "PodGroup", "metadata": meta(name, "ns"), "spec": {"minMember": minimum, "queue": queue}}


PARTS = frozenset({"gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"})


def container(gpus: int, *, shared: bool = False) -> Json:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    limits |= {"gpuyard.io/shared-gpu": "1"} if shared else {}
    return {"resources": {"limits": limits} if limits else {}}


def pod(
    name: str,
    queue: str = "",
    gpus: int = 1,
    on: str = "",
    *,
    phase: str = "",
    fixed: bool = False,
    shared: bool = True,
    init: int = 0,
    verdict: str | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    status: Json | None = None,
    created: str = "2026-01-01T00:00:00Z",
    **spec: object,
) -> Json:
    """A pod; `on` a node it runs there, `fixed` is not preemptible, `init` GPUs are asked for by an init container.

    With annotations for a part of a GPU it requests the `shared` GPU, as the overlay shared-gpus has it.
    """
    by_annotation = not PARTS.isdisjoint(annotations or {})
    marks = {"kai.scheduler/queue": queue} if queue else {}
    if fixed:
        marks["kai.scheduler/preemptibility"] = "non-preemptible"
    said = {"type": "PodScheduled", "status": "False", "message": verdict}
    return {
        "kind": "Pod",
        "metadata": meta(
            name,
            "ns",
            labels=marks | (labels or {}),
            annotations=annotations or {},
            creationTimestamp=created,
        ),
        "spec": {
            "containers": [container(gpus, shared=shared and by_annotation)],
            "initContainers": [container(init)] if init else [],
            "nodeName": on,
            **spec,
        },
        "status": status
        or {
            "phase": phase or ("Running" if on else "Pending"),
            "conditions": [said] if verdict is not None else [],
        },
    }


def typed(thing: Json) -> Any:  # noqa: ANN401 - an object of one of KINDS
    return msgspec.json.decode(msgspec.json.encode(thing), type=KINDS[thing["kind"]])


def anybody() -> Gate:
    """A port that answers whoever asks."""
    return Gate(lambda: "none")


class Bench:
    """A ledger, its feed and its verbs, without HTTP and without a cluster."""

    def __init__(self, *things: Json, config: ExtenderConfig | None = None) -> None:
        self.config = config or ExtenderConfig()
        self.now = 0.0
        self.today = 1_800_000_000.0
        self.unavailable = ""
        self.refusals: list[str] = []
        self.reports: list[str] = []
        self.ledger = Ledger()
        self.translator = Translator(self.config.engine)
        self.feed = Feed(self.ledger, self.translator, self.reports.append)
        self.verbs = Verbs(
            self.ledger,
            self.translator,
            lambda: self.config,
            unavailable=lambda: Unavailable(self.unavailable) if self.unavailable else None,
            clock=lambda: self.now,
            today=lambda: self.today,
            count=self.refusals.append,
        )
        self.readers: dict[str, Any] = {
            "Namespace": self.feed.namespaces,
            "Node": self.feed.nodes,
            "Plan": self.feed.plans,
            "Pod": self.feed.pods,
            "PodDisruptionBudget": self.feed.budgets,
            "PodGroup": self.feed.groups,
            "PriorityClass": self.feed.classes,
            "Queue": self.feed.queues,
            "Topology": self.feed.topologies,
        }
        self.put(*things)

    def put(self, *things: Json) -> None:
        """The watches show these objects, new or changed."""
        for thing in things:
            self.readers[thing["kind"]](Batch([Change(None, typed(thing))]))

    def drop(self, *things: Json) -> None:
        """The watches show that these are gone."""
        for thing in things:
            self.readers[thing["kind"]](Batch([Change(typed(thing), None)]))

    def show(self, thing: Json) -> None:
        """Let the watch show a pod, unless it has shown this version, a later one, or its deletion."""
        of = typed(thing).metadata
        seen = self.ledger.seen(of.key, of.uid)
        if not (seen and seen.version >= of.version) and not self.ledger.is_deleted(of.uid):
            self.put(thing)

    def filter(self, thing: Json, *nodes: str) -> FilterAnswer:
        """Ask `filter` about a pod that the watch shows, by node names; without any, about the nodes of the bench."""
        self.show(thing)
        return at_once(self.verbs.filter(call(thing, *(nodes or sorted(self.ledger.snapshot.fleet.nodes)))))

    def filter_at_once(self, thing: Json, *nodes: str) -> FilterAnswer:
        """Ask `filter` about a pod as kube-scheduler knows it, in a call that does not wait."""
        return at_once(self.verbs.filter(call(thing, *(nodes or sorted(self.ledger.snapshot.fleet.nodes)))))

    async def filter_unseen(self, thing: Json, *nodes: str) -> FilterAnswer:
        """Ask `filter` about a pod as kube-scheduler knows it, whatever the watch has shown."""
        found = self.verbs.filter(call(thing, *(nodes or sorted(self.ledger.snapshot.fleet.nodes))))
        return await found if isinstance(found, Awaitable) else found

    def preempt(self, thing: Json, victims: Json) -> PreemptAnswer:
        """Ask `preempt` about a pod that the watch shows, with these victims by node."""
        self.show(thing)
        return at_once(self._preempt(thing, victims))

    async def preempt_unseen(self, thing: Json, victims: Json) -> PreemptAnswer:
        """Ask `preempt` about a pod as kube-scheduler knows it, whatever the watch has shown."""
        found = self._preempt(thing, victims)
        return await found if isinstance(found, Awaitable) else found

    def _preempt(self, thing: Json, victims: Json) -> PreemptAnswer | Awaitable[PreemptAnswer]:
        body = {"Pod": thing, "NodeNameToMetaVictims": victims}
        return self.verbs.preempt(PREEMPTION.read(msgspec.json.encode(body)))

    def passes(self, thing: Json, *nodes: str) -> bool:
        """Whether `filter` lets the pod through."""
        return bool(self.filter(thing, *nodes).node_names)

    def used(self, queue: str) -> float:
        """The GPUs that count in a queue."""
        use = self.ledger.snapshot.use.get(queue)
        return use.allocated.gpu / 1000 if use else 0


def at_once(found: A | Awaitable[A]) -> A:
    """An answer for which nothing had to be waited for."""
    assert not isinstance(found, Awaitable)
    return found


def call(thing: Json, *nodes: object) -> Candidates:
    """A call of `filter` or `prioritize` by node names."""
    return CANDIDATES.read(msgspec.json.encode({"Pod": thing, "Nodes": None, "NodeNames": list(nodes)}))


def broken_call(thing: Json) -> Candidates:
    """A call with hundreds of names of nodes that nobody knows, so that the first ones are read alone, and no name."""
    return call(thing, *(f"unknown-{number}" for number in range(600)), 5)
