"""A planner over a ledger in memory, and an API server that does what it is told at once."""

from typing import TYPE_CHECKING, cast

from gpuyard.extender.planner.look.capacity import Capacity
from gpuyard.extender.planner.loop import Planner
from gpuyard.extender.planner.metrics import PlannerMetrics
from prometheus_client import CollectorRegistry

from tests.extender.builders import Bench, Json, pod
from tests.extender.planner.builders import Api

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client
    from gpuyard.common.kube.events import Recorder
    from gpuyard.common.kube.objects import ObjectReference

PLANS = "/apis/gpuyard.io/v1alpha1/plans/"


class Ear:
    """Hears events."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def emit(self, regarding: "ObjectReference", reason: str, note: str, **_: str) -> None:
        assert note
        self.heard.append((regarding.name, reason))


class Stage:
    """A bench with a planner, and an API server that does what it is told at once."""

    def __init__(self, *things: Json, tick: float = 0) -> None:
        self.tick = tick
        """Seconds that pass with each look at the clock."""
        self.bench = Bench(*things)
        self.capacity = Capacity()
        self.api = Api()
        self.ear = Ear()
        for thing in things:
            if thing["kind"] in ("Pod", "Queue"):
                self.api.put(path(thing), thing)
        self.precedence = self.bench.verbs.precedence
        self.planner = self.another()

    def another(self) -> Planner:
        """A planner that has just begun to lead."""
        return Planner(
            cast("Client", self.api),
            self.bench.ledger,
            self.bench.translator,
            lambda: self.bench.config,
            self.precedence,
            recorder=cast("Recorder", self.ear),
            capacity=self.capacity,
            metrics=PlannerMetrics(CollectorRegistry()),
            calls=lambda: 0,
            clock=self.clock,
            today=lambda: self.bench.today,
            plans=lambda: self.bench.feed.known_plans,
        )

    def clock(self) -> float:
        """The time by the planner's clock."""
        self.bench.now += self.tick
        return self.bench.now

    async def look(self, *, after: float = 1) -> None:
        self.bench.now += after
        self.bench.today += after
        await self.planner.look()

    def submit(self, *things: Json) -> None:
        for thing in things:
            self.api.put(path(thing), thing)
        self.bench.put(*things)

    def gone(self, thing: Json) -> None:
        """A pod that was evicted has left."""
        self.api.objects.pop(path(thing))
        self.bench.drop(thing)

    def evicted(self) -> list[str]:
        return [one.split("/")[-2] for one in self.api.wrote("create") if one.endswith("/eviction")]

    def plans(self) -> list[Json]:
        return [one for name, one in self.api.objects.items() if name.startswith(PLANS)]

    def states(self) -> list[str]:
        return [one.get("status", {}).get("state", "Running") for one in self.plans()]

    def kept(self) -> dict[str, str]:
        return {one.pod.removeprefix("ns/"): one.node for one in self.bench.ledger.promises.all}


def path(thing: Json) -> str:
    if thing["kind"] == "Queue":
        return f"/apis/scheduling.run.ai/v2/queues/{thing['metadata']['name']}"
    return f"/api/v1/namespaces/ns/pods/{thing['metadata']['name']}"


def running(name: str, queue: str, gpus: int, on: str, *, age: int = 0) -> Json:
    return pod(name, queue, gpus, on=on, created=f"2026-01-01T00:00:{age:02}Z")


def eviction(name: str) -> tuple[str, str]:
    return "create", f"/api/v1/namespaces/ns/pods/{name}/eviction"
