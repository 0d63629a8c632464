"""Small clusters by chance: the same seed gives the same cluster, for tests that must hold for any of them."""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

import msgspec
from gpuyard.engine.model import (
    GPU,
    NO_BOUND,
    Gang,
    Node,
    NodeTerm,
    Pod,
    Promise,
    Queue,
    Requirement,
    Shape,
    State,
    Taint,
    Workload,
)
from gpuyard.engine.model.snapshot import Snapshot

NOW = 10_000
ZONES = ("east", "west")

LIKELIHOOD: Mapping[str, float] = MappingProxyType(
    {
        "full": 0.8,
        "limited": 0.4,
        "fixed": 0.3,
        "choosy": 0.3,
        "tainted": 0.2,
        "gang": 0.4,
        "small": 0.3,
        "protected": 0.3,
        "promised": 0.2,
        "misspelt": 0.1,
        "big": 0.7,
        "hungry": 0.5,
        "deserving": 0.2,
    }
)
"""How often something is so, of 1."""


class RandomYard:
    """A cluster with one workload more than it started with, which waits; `pod` is its first."""

    def __init__(self, seed: int, **likelihood: float) -> None:
        self._chance = Random(seed)
        self._likelihood = {**LIKELIHOOD, **likelihood}
        self._workloads: list[Workload] = []
        self._pods: list[Pod] = []
        self._nodes = [self._node(n) for n in range(self._chance.randint(1, 3))]
        self._queues = self._tree()
        self._leaves = [q for q in self._queues if q.parent]
        self._claimant = self._chance.choice(self._leaves).name
        self._fill()
        self.pod = self._submit()
        self._promises = self._promised()

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot.build(
            now=NOW,
            nodes=self._nodes,
            queues=self._queues,
            workloads=self._workloads,
            pods=self._pods,
            promises=self._promises,
        )

    def _is(self, what: str) -> bool:
        return self._chance.random() < self._likelihood[what]

    def _node(self, number: int) -> Node:
        return Node(
            name=f"node-{number}",
            gpus=self._chance.choice([2, 4, 8]),
            cpu=64_000,
            memory=256 * 10**9,
            gpu_memory=16_384,
            labels={"zone": self._chance.choice(ZONES)},
            taints=(Taint("dedicated", "x"),) if self._is("tainted") else (),
        )

    def _tree(self) -> list[Queue]:
        parents = [self._queue(f"department-{n}", "") for n in range(self._chance.randint(1, 2))]
        names = [f"team-{n}" for n in range(self._chance.randint(2, 3))]
        return parents + [self._queue(name, self._chance.choice(parents).name) for name in names]

    def _queue(self, name: str, parent: str) -> Queue:
        most = sum(n.gpus for n in self._nodes)
        limit = self._chance.randint(1, most) * GPU if self._is("limited") else -1
        return Queue(
            name=name,
            parent=parent,
            quota=NO_BOUND._replace(gpu=self._chance.randint(0, most // 2) * GPU),
            limit=NO_BOUND._replace(gpu=limit),
            reclaim_min_runtime=600 if self._is("protected") else None,
            created=self._chance.randint(0, 9),
        )

    def _fill(self) -> None:
        for node in self._nodes:
            free = node.gpus
            while free > 0 and self._is("full"):
                gpus = self._chance.randint(1, free)
                self._run(node.name, Shape(gpus=gpus, cpu=1000, memory=10**9))
                free -= gpus

    def _run(self, node: str, shape: Shape) -> None:
        others = [q for q in self._leaves if q.name != self._claimant] if self._is("deserving") else []
        key = self._enlist(self._chance.choice(others or self._leaves).name, size=1)
        started = NOW - self._chance.choice([60, 300, 900])
        self._pods.append(
            Pod(key=f"{key}-0", workload=key, shape=shape, state=State.RUNNING, node=node, started=started)
        )

    def _submit(self) -> str:
        queue = self._claimant
        size = self._chance.randint(2, 3) if self._is("gang") else 1
        key = self._enlist("taem" + queue[4:] if self._is("misspelt") else queue, size)
        shape = self._shape()
        self._pods += [Pod(key=f"{key}-{n}", workload=key, shape=shape) for n in range(size)]
        return f"{key}-0"

    def _enlist(self, queue: str, size: int) -> str:
        key = f"{queue}/job-{len(self._workloads):02}"
        fixed = self._is("fixed")
        self._workloads.append(
            Workload(
                key=key,
                queue=queue,
                priority=100 if fixed else self._chance.choice([50, 75]),
                preemptible=not fixed,
                gang=Gang(minimum=size),
                created=len(self._workloads),
            )
        )
        return key

    def _shape(self) -> Shape:
        zone = (("zone", self._chance.choice(ZONES)),) if self._is("choosy") else ()
        term = NodeTerm(labels=(Requirement("zone", "In", (self._chance.choice(ZONES),)),))
        rest = Shape(
            cpu=self._chance.choice([48_000, 80_000]) if self._is("hungry") else 1000,
            memory=10**9,
            selector=zone,
            affinity=(term,) if self._is("choosy") else (),
        )
        if not self._is("small"):
            return _with(rest, gpus=self._chance.randint(1, 8 if self._is("big") else 2))
        if self._chance.random() < 0.5:
            return _with(rest, fraction=self._chance.choice([250, 500, 900]))
        return _with(rest, gpu_memory=self._chance.choice([4096, 16_384, 20_000]))

    def _promised(self) -> list[Promise]:
        if not self._is("promised"):
            return []
        return [self._promise(node) for node in self._nodes]

    def _promise(self, node: Node) -> Promise:
        """A whole node, kept for a pod of another workload that does not exist yet."""
        return Promise(
            plan="plan-1",
            pod=f"other/expected-on-{node.name}",
            workload="other/expected",
            shape=Shape(gpus=node.gpus, cpu=1000),
            node=node.name,
            queue=self._leaves[0].name,
            priority=90,
        )


def _with(shape: Shape, **fields: int) -> Shape:
    return msgspec.structs.replace(shape, **fields)
