"""The loop: at most two rounds a second, failures tried again, each problem told once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.kube.errors import ApiError, UnreachableError
from gpuyard.common.kube.objects import Meta
from gpuyard.common.kube.resources import Address
from gpuyard.common.topology.maps import ConfigMap, Maps
from gpuyard.status_updater.desk import Desk
from gpuyard.status_updater.updater import Updater

from tests.mock.cluster import cluster_node, container, pod

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client
    from gpuyard.common.kube.events import Recorder

TOPOLOGY = "nodes: {n: {gpu-product: x, gpu-memory: 5, gpus: [{id: a}]}}"


class Yard:
    """An API server's answers and an updater before them."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.events: list[str] = []
        self.failures: list[Exception] = []
        self.version = 1
        self.maps = Maps()
        self.maps.take(Batch([Change(None, self.found(TOPOLOGY))], listed=True))
        self.desk = Desk(self.maps, {"n": cluster_node("n")})
        self.updater = Updater(cast("Client", self), self.desk, "gpuyard-mock", cast("Recorder", self))

    def found(self, text: str) -> ConfigMap:
        return ConfigMap(Meta(name="topology", uid="u", resource_version=str(self.version)), {"topology.yml": text})

    def emit(self, _regarding: object, reason: str, note: str, **_more: str) -> None:
        """Of the recorder."""
        self.events.append(f"{reason}: {note}")

    async def patch(self, address: Address, body: Any, *_form: object) -> dict[str, object]:  # noqa: ANN401
        """Of the client; a map that is written comes back by the watch."""
        self.calls.append(address.about)
        if self.failures:
            raise self.failures.pop(0)
        if "data" in body:
            assert body["metadata"]["resourceVersion"] == str(self.version)
            self.version += 1
            self.maps.take(Batch([Change(None, self.found(body["data"]["topology.yml"]))]))
            self.desk.touch_all()
            self.updater.news.set()
        return {}

    async def create(self, address: Address, body: Any) -> dict[str, object]:  # noqa: ANN401
        """Of the client: the copy of the topology's last good state."""
        self.calls.append(f"create {address.about}")
        meta = Meta(name=body["metadata"]["name"], uid="copy", resource_version="1")
        self.maps.take(Batch([Change(None, ConfigMap(meta, body["data"]))]))
        return {}

    def add(self, name: str, **more: Any) -> None:  # noqa: ANN401
        """A pod that the watch delivers."""
        self.desk.take_pod(None, pod(name, **more))
        self.updater.news.set()

    def written(self) -> int:
        return sum("configmaps" in call and not call.startswith("create") for call in self.calls)


@pytest.fixture
def yard() -> Yard:
    return Yard()


@asynccontextmanager
async def working(yard: Yard) -> AsyncIterator[None]:
    task = asyncio.create_task(yard.updater.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not check():
            await asyncio.sleep(0.02)


async def test_what_happens_within_half_a_second_is_one_write(yard: Yard) -> None:
    async with working(yard):
        await asyncio.sleep(0.1)
        for age in range(5):
            yard.add(f"p{age}", age=age)
        await until(lambda: yard.written() == 1)
        await asyncio.sleep(1.2)
        assert yard.written() == 1


@pytest.mark.parametrize("failure", [UnreachableError("away"), ApiError("configmaps", 409, "Conflict", "changed")])
async def test_a_write_that_failed_is_tried_again(yard: Yard, failure: Exception) -> None:
    yard.add("p")
    yard.failures = [failure] * 3
    async with working(yard):
        await until(lambda: "metrics" in yard.maps.sheets["topology"].found.text)


@pytest.mark.parametrize("tries", [0, 1])
async def test_a_nodes_status_is_written_only_once_its_marks_are_there(yard: Yard, tries: int) -> None:
    yard.failures = [ApiError("nodes n", 403, "Forbidden", "not yours")] * tries
    async with working(yard):
        await until(lambda: "nodes n/status" in yard.calls)
    of_node = [call for call in yard.calls if call.startswith("nodes n")]
    assert of_node[: tries + 2] == ["nodes n"] * (tries + 1) + ["nodes n/status"]


async def test_a_problem_is_told_once(yard: Yard) -> None:
    yard.add("p", containers=[container(gpus=3)])
    async with working(yard):
        await until(lambda: len(yard.events) == 1)
        yard.desk.touch_all()
        yard.updater.news.set()
        await asyncio.sleep(1.2)
    assert yard.events == ["GpusMissing: asks for 3 nvidia.com/gpu, 1 are free on n; none is shown for it"]


async def test_a_map_that_was_broken_before_we_led_is_told_when_we_lead(yard: Yard) -> None:
    yard.maps.take(Batch([Change(None, yard.found("nodes: ["))]))
    yard.updater.refuse("topology", "as follower")
    assert yard.events == []
    async with working(yard):
        await until(lambda: bool(yard.events))
    assert yard.events[0].startswith("TopologyRefused: topology.yml: line")
    assert yard.events[0].endswith("The last good state stays in force.")


async def test_a_mistake_that_somebody_makes_again_is_told_again(yard: Yard) -> None:
    async with working(yard):
        for text in ("nodes: [", TOPOLOGY, "nodes: ["):
            yard.maps.take(Batch([Change(None, yard.found(text))]))
            if problem := yard.maps.sheets["topology"].problem:
                yard.updater.refuse("topology", problem)
            await asyncio.sleep(0)
    assert len(yard.events) == 2
    assert len(set(yard.events)) == 1
