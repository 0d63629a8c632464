"""A cluster in memory, a second at a time: a scheduler that asks filter, pods that take a while to go, Jobs, a planner.

It knows of GPUs and nothing else. It is here to find what never comes to rest; the real kube-scheduler is asked in
`tests/cluster`.
"""

import random
from collections import Counter
from typing import TYPE_CHECKING, cast

from gpuyard.common.extender_config import Consolidation, ExtenderConfig
from gpuyard.engine.kube.times import written
from gpuyard.extender.planner.look.capacity import Capacity
from gpuyard.extender.planner.loop import Planner
from gpuyard.extender.planner.metrics import PlannerMetrics
from prometheus_client import CollectorRegistry

from tests.extender.builders import Bench, Json, node, pod, queue
from tests.extender.planner.builders import Api

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client
    from gpuyard.common.kube.events import Recorder
    from gpuyard.common.kube.resources import Address

PODS = "/api/v1/namespaces/ns/pods/"
PLANS = "/apis/gpuyard.io/v1alpha1/plans/"


class Nobody:
    """Hears no events."""

    def emit(self, *_: object, **__: object) -> None:
        """Nothing comes of it."""


class ClusterApi(Api):
    """Evicts when asked to."""

    def __init__(self, cluster: "SmallCluster") -> None:
        super().__init__()
        self._cluster = cluster

    async def create(self, address: "Address", body: object) -> Json:
        made = await super().create(address, body)
        name = address.path.removeprefix(PODS)
        if name.endswith("/eviction"):
            self._cluster.evict(name.removesuffix("/eviction"))
        elif f"{address.path}/" == PODS:
            self._cluster.back(made)
        return made


class SmallCluster:
    """Nodes of eight GPUs, queues, and pods that somebody submits and deletes."""

    def __init__(self, seed: int, *, nodes: int = 4, keep_nodes_empty: bool = False) -> None:
        self.chance = random.Random(seed)
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.bench = Bench(*map(node, self.nodes))
        consolidation = Consolidation(keep_nodes_empty=keep_nodes_empty)
        self.bench.config = ExtenderConfig(consolidation=consolidation, move_bare_pods=True)
        self.api = ClusterApi(self)
        self.pods: dict[str, Json] = {}
        self.going: dict[str, int] = {}
        self.evicted: list[str] = []
        self.limits: dict[str, float] = {}
        self.hopeless: set[str] = set()
        """Pods that the scheduler finds no node for, whatever is free."""
        self._uids = 0
        self.planner = Planner(
            cast("Client", self.api),
            self.bench.ledger,
            self.bench.translator,
            lambda: self.bench.config,
            self.bench.verbs.precedence,
            recorder=cast("Recorder", Nobody()),
            capacity=Capacity(),
            metrics=PlannerMetrics(CollectorRegistry()),
            calls=lambda: 0,
            clock=lambda: self.bench.now,
            today=lambda: self.bench.today,
        )

    # --- what people do ---

    def queue(self, name: str, quota: float, limit: float = -1) -> None:
        self.limits[name] = limit
        self.api.put(f"/apis/scheduling.run.ai/v2/queues/{name}", {"metadata": {"name": name}})
        self.bench.put(queue(name, limit=limit, quota=quota))

    def submit(self, name: str, queue: str, gpus: int, *, job: str = "", **more: object) -> None:
        self._uids += 1
        made = pod(name, queue, gpus, **more)  # type: ignore[arg-type]
        made["metadata"] |= {"uid": f"uid-{self._uids}", "creationTimestamp": self._time()}
        if job:
            made["metadata"]["ownerReferences"] = [{"uid": job, "kind": "Job", "name": job, "controller": True}]
        self._put(made)

    def delete(self, name: str) -> None:
        if self.pods[name]["spec"]["nodeName"]:
            self._leave(name)
        else:
            self._gone(name)

    # --- what happens ---

    def evict(self, name: str) -> None:
        self.evicted.append(self.pods[name]["metadata"]["uid"])
        self._leave(name)

    def back(self, made: Json) -> None:
        """A moved pod has been made anew."""
        self._uids += 1
        made["kind"] = "Pod"
        made["metadata"] |= {"uid": f"uid-{self._uids}", "creationTimestamp": self._time()}
        made["spec"]["nodeName"] = ""
        made["status"] = {"phase": "Pending"}
        self._put(made)

    async def second(self) -> None:
        """One second passes."""
        self.bench.now += 1
        self.bench.today += 1
        for name in [name for name, left in self.going.items() if left <= 0]:
            self._gone(name)
        self.going = {name: left - 1 for name, left in self.going.items()}
        self._schedule()
        await self.planner.look()
        self._schedule()

    async def until_it_rests(self, within: int) -> None:
        """Fails if it does not."""
        quiet = 0
        for _ in range(within):
            before = self._state()
            await self.second()
            quiet = quiet + 1 if self._state() == before and not self.running_plans() else 0
            if quiet >= 15:
                return
        raise AssertionError(f"no rest within {within} s: {self.running_plans()}")

    def running_plans(self) -> list[str]:
        plans = [(path, one) for path, one in self.api.objects.items() if path.startswith(PLANS)]
        return [path for path, one in plans if one.get("status", {}).get("state", "Running") == "Running"]

    def held(self) -> Counter[str]:
        """The GPUs of each queue, by what stands and stays."""
        held: Counter[str] = Counter()
        for name, one in self.pods.items():
            if one["spec"]["nodeName"] and name not in self.going:
                held[one["metadata"]["labels"]["kai.scheduler/queue"]] += _gpus(one)
        return held

    # --- the scheduler ---

    def _schedule(self) -> None:
        free = Counter(dict.fromkeys(self.nodes, 8))
        for one in self.pods.values():
            free[one["spec"]["nodeName"]] -= _gpus(one)
        waiting = [name for name, one in self.pods.items() if not one["spec"]["nodeName"]]
        for name in self.chance.sample(waiting, len(waiting)):
            one = self.pods[name]
            offered = [at for at in self.nodes if free[at] >= _gpus(one) and name not in self.hopeless]
            names = (self.bench.filter(one, *offered).node_names or []) if offered else []
            if names:
                free[names[0]] -= _gpus(one)
                one["spec"]["nodeName"], one["status"] = names[0], {"phase": "Running", "startTime": self._time()}
                self._put(one)

    def _leave(self, name: str) -> None:
        if name not in self.going:
            self.going[name] = self.chance.randint(0, 3)
            self.pods[name]["metadata"]["deletionTimestamp"] = self._time()
            self._put(self.pods[name])

    def _gone(self, name: str) -> None:
        one = self.pods.pop(name)
        self.going.pop(name, None)
        self.api.objects.pop(f"{PODS}{name}")
        self.bench.drop(one)
        owners = one["metadata"].get("ownerReferences")
        if owners and "deletionTimestamp" in one["metadata"]:
            labels = one["metadata"]["labels"]
            spec = {key: one["spec"][key] for key in ("priorityClassName",) if key in one["spec"]}
            fresh = f"{owners[0]['name']}-{self._uids}"
            self.submit(fresh, labels["kai.scheduler/queue"], _gpus(one), job=owners[0]["uid"], **spec)

    def _put(self, one: Json) -> None:
        name = one["metadata"]["name"]
        self._uids += 1
        one["metadata"]["resourceVersion"] = str(1_000_000 + self._uids)
        self.pods[name] = one
        self.api.put(f"{PODS}{name}", one)
        self.bench.put(one)

    def _time(self) -> str:
        return written(int(self.bench.today))

    def _state(self) -> list[tuple[str, str]]:
        return sorted((name, one["spec"]["nodeName"]) for name, one in self.pods.items())


def _gpus(one: Json) -> int:
    return int(one["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
