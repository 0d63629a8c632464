"""A random cluster played live: the real verbs, waker, binder and planner, with all around them in memory.

A second at a time, on a clock of its own, until nothing has changed for a while.
"""

import copy
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import msgspec
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.kube.client import Patch
from gpuyard.engine.kube.times import written
from gpuyard.extender.http.wire import BINDING
from gpuyard.extender.planner.decide.refusals import FORGET
from gpuyard.extender.planner.look.capacity import Capacity
from gpuyard.extender.planner.loop import Planner
from gpuyard.extender.planner.metrics import PlannerMetrics
from gpuyard.extender.verbs.binding import Binder
from gpuyard.extender.waker import Waker
from prometheus_client import CollectorRegistry

from tests.extender.builders import Bench, Json
from tests.extender.planner.builders import Api
from tests.extender.planner.kube_scheduler import KubeScheduler
from tests.extender.planner.random_clusters import LABEL, NOW, PRIORITIES, Cluster, placed

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client
    from gpuyard.common.kube.events import Recorder
    from gpuyard.common.kube.objects import ObjectReference
    from gpuyard.common.kube.resources import Address

PODS = "/api/v1/namespaces/ns/pods/"
QUEUES = "/apis/scheduling.run.ai/v2/queues/"
PLANS = "/apis/gpuyard.io/v1alpha1/plans/"
QUIET = 75
"""Seconds without a change after which nothing changes any more: longer than a place is kept that nobody takes."""

LONGEST = 1500


class Ear:
    """Hears why pods wait, by UID: the last word counts."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def emit(self, regarding: "ObjectReference", reason: str, note: str, *, action: str, **_: str) -> None:
        assert note
        if action == "Wait" and regarding.kind == "Pod":
            self.reasons[regarding.uid] = reason


class PlayedApi(Api):
    """Does at once what it is told: it evicts, binds and creates pods."""

    def __init__(self, live: "LiveCluster") -> None:
        super().__init__()
        self._live = live

    async def create(self, address: "Address", body: Any) -> Json:  # noqa: ANN401 - any object
        name, _, sub = address.path.removeprefix(PODS).partition("/")
        if sub == "binding":
            self._live.bound(name, body)
            return {}
        made = await super().create(address, body)
        if sub == "eviction":
            self._live.delete(name)
        elif f"{address.path}/" == PODS:
            self._live.back(made)
        return made

    async def patch(self, address: "Address", body: Any, form: Patch = Patch.MERGE) -> Json:  # noqa: ANN401
        if not address.path.startswith(PODS):
            return await super().patch(address, body, form)
        self._live.poked(address.path.removeprefix(PODS), body["metadata"]["annotations"])
        return {}


class LiveCluster:
    """The cluster while it is played."""

    def __init__(self, cluster: Cluster, config: ExtenderConfig, seed: int) -> None:
        self.chance = random.Random(seed)
        objects = copy.deepcopy(cluster.objects)
        self.pods = {_name(one): one for one in objects if one["kind"] == "Pod"}
        self.nodes = {_name(one): one for one in objects if one["kind"] == "Node"}
        self.others = [one for one in objects if one["kind"] != "Pod"]
        self.bench = Bench(*objects, config=config)
        self.bench.today = float(NOW)
        self.api = PlayedApi(self)
        for one in objects:
            if one["kind"] in ("Pod", "Queue"):
                self.api.put(f"{PODS if one['kind'] == 'Pod' else QUEUES}{_name(one)}", one)
        self.ear = Ear()
        self.evictions = 0
        self._going: dict[str, int] = {}
        self._numbers = 1_000_000
        self._successor_at_once = self.chance.random() < 0.5
        self._start(cast("Client", self.api))

    def _start(self, client: "Client") -> None:
        bench = self.bench
        self.scheduler = KubeScheduler(self, bench.verbs, self.chance)
        self.binder = Binder(
            bench.ledger, bench.verbs.may_bind, bench.verbs.strategy, unavailable=lambda: None, clock=lambda: bench.now
        )
        self.binder.client = client
        self.waker = Waker(
            client, bench.ledger, lambda: bench.config.engine, now=lambda: bench.now, today=lambda: bench.today
        )
        self.planner = Planner(
            client,
            bench.ledger,
            bench.translator,
            lambda: bench.config,
            bench.verbs.precedence,
            recorder=cast("Recorder", self.ear),
            capacity=Capacity(),
            metrics=PlannerMetrics(CollectorRegistry()),
            calls=lambda: 0,
            clock=lambda: bench.now,
            today=lambda: bench.today,
        )

    # --- time

    async def play(self) -> None:
        """Until it rests; fails if it does not."""
        quiet, before = 0, self._state()
        for _ in range(LONGEST):
            await self._second()
            now = self._state()
            quiet = 0 if now != before or self._going else quiet + 1
            before = now
            if quiet >= self._patience() and not self.running_plans():
                return
        raise AssertionError(f"no rest within {LONGEST} s; plans: {self.running_plans()}")

    async def seconds(self, count: int) -> None:
        """So much time passes."""
        for _ in range(count):
            await self._second()

    async def _second(self) -> None:
        self.bench.now += 1
        self.bench.today += 1
        self.api.created = self._time()
        for name in [name for name, left in self._going.items() if left <= 0]:
            self._gone(name)
        self._going = {name: left - 1 for name, left in self._going.items()}
        await self.waker.look()
        await self.scheduler.run(self.bench.now)
        await self.planner.look()

    def _patience(self) -> float:
        """A place that kube-scheduler did not offer is not tried again for some minutes."""
        plans = (one for path, one in self.api.objects.items() if path.startswith(PLANS))
        return QUIET + FORGET if any(one["status"].get("refused") for one in plans) else QUIET

    def plans(self) -> list[Json]:
        """The Plan objects."""
        return [one for path, one in self.api.objects.items() if path.startswith(PLANS)]

    def running_plans(self) -> list[str]:
        plans = [(path, one) for path, one in self.api.objects.items() if path.startswith(PLANS)]
        return [path for path, one in plans if one.get("status", {}).get("state", "Running") == "Running"]

    def _state(self) -> object:
        return sorted((name, one["spec"]["nodeName"]) for name, one in self.pods.items()), dict(self.ear.reasons)

    def objects(self) -> list[Json]:
        """All there is now."""
        return [*self.others, *self.pods.values()]

    # --- what happens to pods

    async def bind(self, one: Json, node: str) -> str:
        """kube-scheduler leaves the binding to the extender; why it is not bound, or nothing."""
        about = one["metadata"]
        body = {"PodName": about["name"], "PodNamespace": "ns", "PodUID": about["uid"], "Node": node}
        return (await self.binder.bind(BINDING.read(msgspec.json.encode(body)))).error

    def bound(self, name: str, binding: Json) -> None:
        """The API server has a binding."""
        groups = tuple(binding["metadata"]["labels"].values())
        self._put(placed(self.pods[name], binding["target"]["name"], groups, int(self.bench.today)))

    def submit(self, one: Json) -> None:
        """Somebody creates a pod."""
        self._submit(one, _name(one))

    def delete(self, name: str) -> None:
        """Somebody evicts a pod: it takes a few seconds to go."""
        if name in self._going:
            return
        self.evictions += 1
        self._going[name] = self.chance.randint(0, 3)
        one = self.pods[name]
        reason = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": self._time()}
        status = one["status"] | {"conditions": [reason]}
        self._put(one | {"metadata": one["metadata"] | {"deletionTimestamp": self._time()}, "status": status})
        if self._successor_at_once:
            self._succeed(one)

    def back(self, made: Json) -> None:
        """The planner creates a bare pod again that it has moved; the API server sets its priority."""
        value = PRIORITIES[made["spec"]["priorityClassName"]]
        self._submit(made | {"kind": "Pod", "spec": made["spec"] | {"priority": value}}, _name(made))

    def poked(self, name: str, annotations: Json) -> None:
        """A pod gets an annotation."""
        one = self.pods[name]
        notes = one["metadata"]["annotations"] | annotations
        self._put(one | {"metadata": one["metadata"] | {"annotations": notes}})
        self.scheduler.wake(name)

    def set_status(self, name: str, nominated: str, message: str) -> None:
        """kube-scheduler says that it has found no place."""
        one = self.pods[name]
        said = {"type": "PodScheduled", "status": "False", "message": message}
        status = {"phase": "Pending", "conditions": [said], "nominatedNodeName": nominated}
        if status != one["status"]:
            self._put(one | {"status": status})

    def _gone(self, name: str) -> None:
        one = self.pods.pop(name)
        self._going.pop(name)
        self.api.objects.pop(f"{PODS}{name}")
        self.bench.drop(one)
        self.scheduler.wake_all()
        if not self._successor_at_once:
            self._succeed(one)

    def _succeed(self, one: Json) -> None:
        """A controller creates the next pod."""
        if one["metadata"].get("ownerReferences"):
            fresh = copy.deepcopy(one)
            fresh["metadata"]["labels"].pop("runai-gpu-group", None)
            self._submit(fresh, f"{one['metadata']['labels'][LABEL]}-{self._numbers}")

    def _submit(self, one: Json, name: str) -> None:
        self._numbers += 1
        about = one["metadata"] | {"name": name, "uid": f"uid-{self._numbers}", "creationTimestamp": self._time()}
        about.pop("deletionTimestamp", None)
        self._put(one | {"metadata": about, "spec": one["spec"] | {"nodeName": ""}, "status": {"phase": "Pending"}})

    def _put(self, one: Json) -> None:
        self._numbers += 1
        one = one | {"metadata": one["metadata"] | {"resourceVersion": str(self._numbers)}}
        self.pods[_name(one)] = one
        self.api.put(f"{PODS}{_name(one)}", one)
        self.bench.put(one)

    def _time(self) -> str:
        return written(int(self.bench.today))

    def running(self) -> Counter[str]:
        """How many pods of each workload run."""
        return Counter(one["metadata"]["labels"][LABEL] for one in self.pods.values() if one["spec"]["nodeName"])

    def reasons(self) -> dict[str, str]:
        """Why each of the others waits, as was last told of it."""
        waiting = (one for one in self.pods.values() if not one["spec"]["nodeName"])
        return {f"ns/{_name(one)}": self.ear.reasons.get(one["metadata"]["uid"], "untold") for one in waiting}


def _name(one: Json) -> str:
    return str(one["metadata"]["name"])
