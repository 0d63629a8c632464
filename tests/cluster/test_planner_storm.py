"""Random load on fifty nodes: submit, delete, edit quotas. Then nothing is left over, and nothing was done twice."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from gpuyard.sandbox import down
from gpuyard.sandbox.demo.stage import EXTENDER, manifests, set_up, start_extender

from tests.cluster.planner import evicted
from tests.cluster.yard import Yard

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(1500)]

NODES = 50
TEAMS = 4
LIMIT = 150
SEED = 48
PROMISED = 300
"""Seconds for which a plan may keep room that nobody takes: `promise.ttl`."""


class Pod(NamedTuple):
    """What was submitted under a name that is used once."""

    queue: str
    gpus: int


class Storm:
    """Does something at random, twice a second."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.chance = random.Random(SEED)
        self.queues = [yard.queue(f"q{number}", limit=LIMIT, quota=100) for number in range(TEAMS)]
        self.pods: dict[str, Pod] = {}
        self.alive: set[str] = set()

    def rage(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.chance.choices((self._submit, self._delete, self._edit), (6, 3, 1))[0]()
            time.sleep(0.3)

    def _submit(self) -> None:
        queue, gpus = self.chance.choice(self.queues), self.chance.choice((1, 1, 2, 4, 8))
        priority = self.chance.choice(("train", "train", "build-preemptible", "build"))
        names = [f"s-{len(self.pods) + number}" for number in range(self.chance.randint(1, 8))]
        self.pods |= dict.fromkeys(names, Pod(queue, gpus))
        self.alive.update(names)
        self.yard.submit(*names, queue=queue, gpus=gpus, priorityClassName=priority)

    def _delete(self) -> None:
        names = self.chance.sample(sorted(self.alive), min(len(self.alive), self.chance.randint(1, 5)))
        if names:
            self.alive.difference_update(names)
            what = ("pods", "--ignore-not-found", "--wait=false", "--namespace", self.yard.namespace)
            self.yard.cluster.kubectl("delete", *what, *names)

    def _edit(self) -> None:
        number = self.chance.randrange(TEAMS)
        self.yard.queue(f"q{number}", limit=LIMIT, quota=self.chance.choice((0, 50, 100, 150)))


@pytest.fixture(scope="module")
def fifty(sandbox_names: Iterator[str]) -> Iterator[Yard]:
    cluster = set_up(next(sandbox_names), print, nodes=NODES)
    try:
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        cluster.kubectl("apply", "-f", str(manifests() / "priority-classes" / "priority-classes.yaml"))
        yield Yard(cluster, "default")
    finally:
        down(cluster.name)


def weathered(yard: Yard, seconds: float) -> None:
    """After a storm of so many seconds everything is as it should be."""
    storm = Storm(yard)
    storm.rage(seconds)
    yard.until(lambda: running_plans(yard) == [], PROMISED + 120, "every plan has come to its end")
    yard.until(lambda: at_rest(yard), 180, "nothing changes any more")
    yard.until(lambda: not in_flight(yard), 120, "nobody is on his way")
    assert highest_use(yard, storm.pods) <= LIMIT
    made = times_made(yard)
    twice = [name for name, times in Counter(evicted(yard)).items() if times > made[name]]
    assert twice == []
    before = ledger(yard)
    yard.cluster.kill(EXTENDER)
    start_extender(yard.cluster)
    yard.until(lambda: ledger(yard) == before, 120, f"a ledger made anew is the same: {before}")


def running_plans(yard: Yard) -> list[str]:
    found = json.loads(yard.cluster.kubectl("get", "plans.gpuyard.io", "-o", "json"))["items"]
    return [one["metadata"]["name"] for one in found if one.get("status", {}).get("state", "Running") == "Running"]


def at_rest(yard: Yard) -> bool:
    before = yard.placed()
    time.sleep(5)
    return before == yard.placed() and not running_plans(yard)


def ledger(yard: Yard) -> dict[str, float]:
    """What the extender counts: pods by phase, GPUs by queue."""
    counted = ("gpuyard_ledger_pods", "gpuyard_queue_allocated_gpus", "gpuyard_queue_requested_gpus")
    return {name: value for name, value in yard.metrics().items() if name.startswith(counted)}


def in_flight(yard: Yard) -> float:
    """The pods that count although no watch has shown them on a node."""
    told = yard.metrics()
    return sum(told.get(f'gpuyard_ledger_pods{{phase="{phase}"}}', 0) for phase in ("Reserved", "Expected"))


def times_made(yard: Yard) -> Counter[str]:
    """How often each pod was made: who is made anew after a move is another pod."""
    events = (one for one in yard.audit("create", "pods") if "subresource" not in one["objectRef"])
    return Counter(one["objectRef"]["name"] for one in events if one.get("responseStatus", {}).get("code") == 201)


def highest_use(yard: Yard, pods: dict[str, Pod]) -> int:
    """The most GPUs that any queue ever held, by the API server's own record of bindings and ends."""
    held: dict[str, set[str]] = {}
    highest = 0
    for event in changes(yard):
        about = event["objectRef"]
        name = about["name"]
        if name not in pods:
            continue
        mine = held.setdefault(pods[name].queue, set())
        if about.get("subresource") == "binding":
            mine.add(name)
            highest = max(highest, sum(pods[one].gpus for one in mine))
        else:
            mine.discard(name)
    return highest


def changes(yard: Yard) -> Iterator[dict[str, dict[str, str]]]:
    """Bindings, evictions and deletions of pods that were accepted, in their order."""
    for line in yard.cluster.audit_log.read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef", {})
        if about.get("resource") != "pods" or event.get("responseStatus", {}).get("code") not in (200, 201, 202):
            continue
        if event["verb"] == "delete" or about.get("subresource") in ("binding", "eviction"):
            yield event


@pytest.mark.row("Q-48")
def test_after_a_storm_nothing_is_left_over_and_nothing_was_done_twice(fifty: Yard) -> None:
    weathered(fifty, 180)


@pytest.mark.soak
def test_after_ten_minutes_of_storm_too(fifty: Yard) -> None:
    weathered(fifty, 600)
