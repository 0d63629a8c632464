"""Clusters in a line: `yard().nodes(2).queue("a", quota=4).running("b", 8).pending("a", 4).plan()`.

Nodes are `node-1`, `node-2`, … of 8 GPUs. Queues have no limit and bind nothing but GPUs unless said. Each workload is
one pod of one GPU unless said, preemptible, and newer than the one before; those of a queue are named `a-1`, `a-2`, …
Running pods stand on the first node with room, or where they are told.
"""

# ruff: noqa: ANN401 - what is said beside the usual are fields of the engine's own types, which check them

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Self

import msgspec
from gpuyard.engine.explain.sentences import told
from gpuyard.engine.model import (
    GPU,
    NO_BOUND,
    SCALE,
    UNLIMITED,
    Amounts,
    Budget,
    Gang,
    Node,
    Offer,
    Pod,
    Promise,
    Queue,
    Shape,
    State,
    Topology,
    TopologyConstraint,
    Workload,
)
from gpuyard.engine.model.reporter import Recorder
from gpuyard.engine.model.results import Bind, Evict, Facts, FinalState, Nominate, Outcome, Reason
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.search.settle import settle

NOW = 1_000_000
MINUTE = 60
Number = int | str | Decimal

PLACED = {FinalState.RUNNING, FinalState.BOUND, FinalState.NOMINATED}


def with_offer(snapshot: Snapshot, pod: str, offer: Offer) -> Snapshot:
    """The cluster of which kube-scheduler has said this of one pod."""
    return msgspec.structs.replace(snapshot, offers={pod: offer})


def yard(*, now: int = NOW) -> "Yard":
    """An empty cluster."""
    return Yard(now)


def milli(gpus: Number) -> int:
    """GPUs as milli-GPUs."""
    return UNLIMITED if Decimal(gpus) == UNLIMITED else int(Decimal(gpus) * GPU)


class Yard:
    """A cluster being put together; every method adds something and gives the yard back."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._nodes: dict[str, Node] = {}
        self._queues: dict[str, Queue] = {}
        self._workloads: dict[str, Workload] = {}
        self._pods: dict[str, Pod] = {}
        self._free: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._age = 0
        self._more: dict[str, Any] = {"topologies": [], "budgets": [], "promises": [], "history": {}, "namespaces": {}}

    # --- nodes and queues

    def nodes(self, count: int, *, gpus: int = 8, **also: Any) -> Self:
        """Nodes that are alike."""
        for _ in range(count):
            self.node(f"node-{len(self._nodes) + 1}", gpus=gpus, **also)
        return self

    def node(self, name: str, *, gpus: int = 8, **also: Any) -> Self:
        """One node."""
        amounts = {"cpu": 10**6, "memory": 10**13, "gpu_memory": 80_000} | also
        self._nodes[name] = Node(name=name, gpus=gpus, **amounts)
        self._free[name] = gpus * GPU
        return self

    def queue(
        self, name: str, *, quota: Number = 0, limit: Number = UNLIMITED, weight: Number = 1, **also: Any
    ) -> Self:
        """A queue; `also` are fields of `Queue`. Queues are older the earlier they are added."""
        self._queues[name] = Queue(
            name=name,
            quota=NO_BOUND._replace(gpu=milli(quota)),
            limit=NO_BOUND._replace(gpu=milli(limit)),
            weight=Amounts(int(Decimal(weight) * SCALE), SCALE, SCALE),
            **({"created": len(self._queues)} | also),
        )
        return self

    # --- workloads

    def pending(self, queue: str | None, count: int = 1, **also: Any) -> Self:
        """Workloads of one pod that wait."""
        for _ in range(count):
            self.gang(queue, 1, **also)
        return self

    def running(self, queue: str | None, count: int = 1, *, on: str = "", **also: Any) -> Self:
        """Workloads of one pod that run."""
        for _ in range(count):
            self.gang(queue, 1, running=1, on=(on,), **also)
        return self

    def gang(
        self,
        queue: str | None,
        size: int,
        *,
        minimum: int | None = None,
        running: int = 0,
        on: Iterable[str] = (),
        name: str = "",
        gpus: Number = 1,
        shape: Shape | None = None,
        parts: dict[str, tuple[int, int]] | None = None,
        needs: int | None = None,
        topology: TopologyConstraint | None = None,
        state: State = State.RUNNING,
        pod: dict[str, Any] | None = None,
        **also: Any,
    ) -> Self:
        """One workload of `size` pods, the first `running` of which run; `also` are fields of `Workload`.

        `parts` are sub-groups: name to (size, minimum), of which `needs` must stand (all unless said).
        """
        self._age += 1
        name = name or self._name(queue)
        created = also.pop("created", self.now - 1000 + self._age)
        if parts is None:
            tree, groups = Gang(minimum=size if minimum is None else minimum, topology=topology), [""] * size
        else:
            leaves = tuple(Gang(name=part, minimum=least) for part, (_, least) in parts.items())
            tree = Gang(parts=leaves, minimum=len(leaves) if needs is None else needs, topology=topology)
            groups = [part for part, (many, _) in parts.items() for _ in range(many)]
        workload = Workload(key=f"ns/{name}", queue=queue, gang=tree, created=created, **also)
        self._workloads[workload.key] = workload
        places = list(on)
        for number, group in enumerate(groups):
            key = workload.key if len(groups) == 1 else f"{workload.key}-{number}"
            runs = number < running
            asked = shape or _shape(gpus)
            place = (places[number % len(places)] if places else "") if runs else ""
            self._pods[key] = Pod(
                key=key,
                uid=key,
                workload=workload.key,
                group=group,
                shape=asked,
                state=state if runs else State.PENDING,
                node=self._place(place, asked) if runs else "",
                **({"created": created, "started": created if runs else None} | (pod or {})),
            )
        return self

    def pod(self, key: str, **changes: Any) -> Self:
        """Change fields of a pod."""
        self._pods[f"ns/{key}"] = msgspec.structs.replace(self._pods[f"ns/{key}"], **changes)
        return self

    def foreign(self, on: str, *, gpus: Number = 1) -> Self:
        """A pod that nobody here governs."""
        key = f"ns/foreign-{len(self._pods)}"
        self._pods[key] = Pod(key=key, shape=_shape(gpus), state=State.RUNNING, node=self._place(on, _shape(gpus)))
        return self

    def _name(self, queue: str | None) -> str:
        prefix = queue or "stray"
        self._numbers[prefix] = self._numbers.get(prefix, 0) + 1
        return f"{prefix}-{self._numbers[prefix]}"

    def _place(self, wanted: str, shape: Shape) -> str:
        asked = shape.gpus * GPU + shape.fraction
        node = wanted or next(name for name, free in self._free.items() if free >= asked)
        self._free[node] -= asked
        return node

    # --- the rest

    def budget(self, name: str, *, allowed: int, pods: Iterable[str]) -> Self:
        """A disruption budget over pods by name."""
        self._more["budgets"].append(Budget(f"ns/{name}", frozenset(f"ns/{pod}" for pod in pods), allowed))
        return self

    def promise(self, node: str, *, to: str, queue: str, **also: Any) -> Self:
        """Room that a plan keeps for a pod by name."""
        shape = also.pop("shape", _shape(also.pop("gpus", 1)))
        self._more["promises"].append(
            Promise(plan="plan-1", pod=f"ns/{to}", shape=shape, node=node, queue=queue, **also)
        )
        return self

    def topology(self, name: str, *levels: str) -> Self:
        """A topology of nodes."""
        self._more["topologies"].append(Topology(name, levels))
        return self

    def usage(self, queue: str, share: Number) -> Self:
        """Past use of a queue's GPUs as a share of the cluster."""
        self._more["history"][queue] = Amounts(gpu=int(Decimal(share) * SCALE))
        return self

    def namespace(self, name: str, queue: str) -> Self:
        """The queue label of a namespace."""
        self._more["namespaces"][name] = queue
        return self

    def snapshot(self, *, backwards: bool = False) -> Snapshot:
        """What has been put together, in this order or the other way round."""
        objects: dict[str, Any] = {
            "nodes": list(self._nodes.values()),
            "queues": list(self._queues.values()),
            "workloads": list(self._workloads.values()),
            "pods": list(self._pods.values()),
        }
        if backwards:
            objects = {kind: some[::-1] for kind, some in objects.items()}
        return Snapshot.build(now=self.now, **objects, **self._more)

    def plan(self, **settings: Any) -> "Told":
        """Run the engine until it settles."""
        return Told(settle(self.snapshot(), Settings(**settings)))

    def cycle(self, **settings: Any) -> Cycle:
        """One cycle, run."""
        cycle = Cycle(self.snapshot(), Settings(**settings), Recorder())
        cycle.run()
        return cycle


def _shape(gpus: Number) -> Shape:
    whole = Decimal(gpus)
    return Shape(gpus=int(whole)) if whole == int(whole) else Shape(fraction=milli(gpus))


class Told:
    """What a run said, asked by the names of the yard."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.settled = outcome.settled
        self._actions = [action for cycle in outcome.cycles for action in cycle.actions]

    def fair(self, *queues: str) -> list[int]:
        """Fair shares of these queues in whole GPUs."""
        return [self.outcome.queues[queue].fair_share.gpu // GPU for queue in queues]

    @property
    def evicted(self) -> list[str]:
        """The pods evicted, moved ones too, by name."""
        return [_short(a.pod) for a in self._actions if isinstance(a, Evict)]

    @property
    def moved(self) -> dict[str, str]:
        """The pods that were given another place, and where."""
        gone = {a.pod for a in self._actions if isinstance(a, Evict)}
        return {_short(a.pod): a.node for a in self._actions if isinstance(a, Nominate) and a.pod in gone}

    @property
    def started(self) -> dict[str, str]:
        """The pods that started at once, and where."""
        return {_short(a.pod): a.node for a in self._actions if isinstance(a, Bind)}

    @property
    def nominated(self) -> dict[str, str]:
        """The pods that were promised a place, and where."""
        return {_short(a.pod): a.node for a in self._actions if isinstance(a, Nominate)}

    def placed(self, prefix: str = "") -> list[str]:
        """The pods that have a place at the end, by name."""
        final = self.outcome.final.items()
        return [_short(key) for key, f in final if f.state in PLACED and _short(key).startswith(prefix)]

    def waits(self, prefix: str = "") -> list[str]:
        """The pods that wait at the end, by name."""
        final = self.outcome.final.items()
        return [_short(k) for k, f in final if f.state is FinalState.PENDING and _short(k).startswith(prefix)]

    def node(self, pod: str) -> str:
        """Where a pod is at the end."""
        return self.outcome.final[f"ns/{pod}"].node

    def reason(self, pod: str) -> Reason:
        """Why a pod waits."""
        return self.outcome.pending[f"ns/{pod}"].reason

    def facts(self, pod: str) -> Facts | None:
        """What there is to know about it."""
        return self.outcome.pending[f"ns/{pod}"].facts

    def sentence(self, pod: str) -> str:
        """Why a pod waits, in words and numbers."""
        return told(self.outcome.pending[f"ns/{pod}"])


def _short(key: str) -> str:
    return key.removeprefix("ns/")
