"""The plugin against a stand-in kubelet: registration, the list, allocation, faults, restarts."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest
from gpuyard.common.topology.model import Node
from gpuyard.common.topology.reading import read
from gpuyard.device_plugin import api_pb2
from gpuyard.device_plugin.kubelet import endpoint, in_use
from gpuyard.device_plugin.plugin import CrashError, Plugin
from gpuyard.device_plugin.server import ResourceServer
from structlog.testing import capture_logs

from tests.mock.kubelet import Kubelet, kubelet_in

GPU = "nvidia.com/gpu"
TWO = {"a": "Healthy", "b": "Healthy"}


def node(gpus: str = "[{id: a}, {id: b}]", extra: str = "") -> Node:
    body = f"{{gpu-product: NVIDIA-A100-SXM4-40GB, gpu-memory: 40960, gpus: {gpus}{extra}}}"
    return read(f"mig-strategy: mixed\nnodes: {{n: {body}}}").nodes["n"]


@pytest.fixture
def folder() -> Iterator[Path]:
    # The path of a socket has at most 108 characters: pytest's own folders can be longer.
    with TemporaryDirectory(prefix="gpuyard-") as made:
        yield Path(made)


@pytest.fixture
async def kubelet(folder: Path) -> AsyncIterator[Kubelet]:
    async with kubelet_in(folder) as running:
        yield running


class Running:
    """A plugin with its servers as tasks."""

    def __init__(self, folder: Path, *, visible_devices: bool = False) -> None:
        self.tasks: list[asyncio.Task[object]] = []
        self.plugin = Plugin(
            folder, lambda: in_use(folder / "kubelet.sock"), self._spawn, visible_devices=visible_devices
        )
        self.main: asyncio.Task[object] = asyncio.create_task(self.plugin.run())

    def _spawn(self, _name: str, server: ResourceServer) -> None:
        self.tasks.append(asyncio.create_task(server.run()))

    async def stop(self) -> None:
        for task in [self.main, *self.tasks]:
            task.cancel()
        await asyncio.gather(self.main, *self.tasks, return_exceptions=True)


@pytest.fixture
async def running(folder: Path, kubelet: Kubelet) -> AsyncIterator[Running]:  # noqa: ARG001
    made = Running(folder)
    yield made
    await made.stop()


async def allocate(kubelet: Kubelet, *devices: str) -> api_pb2.AllocateResponse:
    request = api_pb2.AllocateRequest(container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=devices)])
    answer = await kubelet.call(GPU, "Allocate", request, api_pb2.AllocateResponse)
    assert isinstance(answer, api_pb2.AllocateResponse)
    return answer


async def test_kubelet_is_told_exactly_the_topologys_ids(running: Running, kubelet: Kubelet) -> None:
    assert running.plugin.problem == "the topology has not been read yet"
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    assert kubelet.registrations == [GPU]
    while running.plugin.problem:
        await asyncio.sleep(0.01)


async def test_allocate_answers_once_per_container_and_gives_nothing(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    answer = await allocate(kubelet, "a")
    assert [container.ByteSize() for container in answer.container_responses] == [0]


async def test_on_request_a_container_is_told_its_devices(folder: Path, kubelet: Kubelet) -> None:
    running = Running(folder, visible_devices=True)
    running.plugin.follow(node(extra=", sharing: {strategy: time-slicing, replicas: 2}"))
    await kubelet.until(GPU, {"a::0": "Healthy", "a::1": "Healthy", "b::0": "Healthy", "b::1": "Healthy"})
    answer = await allocate(kubelet, "a::0", "a::1", "b::0")
    assert dict(answer.container_responses[0].envs) == {"NVIDIA_VISIBLE_DEVICES": "a,b"}
    await running.stop()


@pytest.mark.row("M-04", case="unknown")
async def test_an_unknown_device_is_refused_by_name(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    with pytest.raises(grpc.aio.AioRpcError, match="no device 'X' on this node"):
        await allocate(kubelet, "X")


async def test_preferences_are_answered_over_the_wire(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)

    async def ask(size: int) -> list[str]:
        asked = api_pb2.ContainerPreferredAllocationRequest(
            available_deviceIDs=["a", "b"], must_include_deviceIDs=["b"], allocation_size=size
        )
        request = api_pb2.PreferredAllocationRequest(container_requests=[asked])
        answer = await kubelet.call(GPU, "GetPreferredAllocation", request, api_pb2.PreferredAllocationResponse)
        assert isinstance(answer, api_pb2.PreferredAllocationResponse)
        return list(answer.container_responses[0].deviceIDs)

    assert await ask(1) == ["b"]
    assert await ask(2) == ["b", "a"]
    with pytest.raises(grpc.aio.AioRpcError, match="3 devices are asked for"):
        await ask(3)


async def test_health_follows_the_topology_both_ways(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    running.plugin.follow(node("[{id: a, health: unhealthy}, {id: b}]"))
    await kubelet.until(GPU, {"a": "Unhealthy", "b": "Healthy"})
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    assert kubelet.registrations == [GPU]


async def test_kubelet_is_told_the_numa_zone_of_each_gpu_where_there_are_zones(
    running: Running, kubelet: Kubelet
) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    assert kubelet.zones[GPU] == [[], []]
    running.plugin.follow(node("[{id: a}, {id: b}, {id: c}]", ", numa: {zones: 2}"))
    await kubelet.until(GPU, TWO | {"c": "Healthy"})
    assert kubelet.zones[GPU] == [[0], [0], [1]]


async def test_a_removed_gpu_goes_only_when_no_pod_has_it(running: Running, kubelet: Kubelet) -> None:
    kubelet.used = {GPU: ["b"]}
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    running.plugin.follow(node("[{id: a}]"))
    await kubelet.until(GPU, {"a": "Healthy", "b": "Unhealthy"})
    kubelet.used = {}
    await kubelet.until(GPU, {"a": "Healthy"})


async def test_an_added_gpu_is_told_at_once(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node("[{id: a}]"))
    await kubelet.until(GPU, {"a": "Healthy"})
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)


async def test_after_our_restart_a_device_that_a_pod_has_is_still_known(running: Running, kubelet: Kubelet) -> None:
    kubelet.used = {GPU: ["gone"]}
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO | {"gone": "Unhealthy"})


async def test_each_resource_has_a_socket_of_its_own(running: Running, kubelet: Kubelet, folder: Path) -> None:
    running.plugin.follow(
        node("[{id: a, mig: [{profile: 1g.5gb}]}]", ", otherDevices: [{name: example.com/x, count: 2}]")
    )
    await kubelet.until("example.com/x", {"example.com-x-0": "Healthy", "example.com-x-1": "Healthy"})
    await kubelet.until(GPU, {})
    names = {path.name for path in folder.iterdir()} - {"kubelet.sock"}
    assert names == {"nvidia-gpu.sock", "nvidia-mig-1g.5gb.sock", "example.com-x.sock"}


async def test_a_restarted_kubelet_is_registered_with_again(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    for restart in range(2, 5):
        await kubelet.stop()
        await kubelet.start()
        await kubelet.until(GPU, TWO)
        assert kubelet.registrations == [GPU] * restart


async def test_a_kubelet_that_comes_late_is_waited_for(folder: Path) -> None:
    running = Running(folder)
    running.plugin.follow(node())
    await asyncio.sleep(0.2)
    assert running.plugin.problem == "nvidia.com/gpu is not registered"
    async with kubelet_in(folder) as kubelet:
        await kubelet.until(GPU, TWO)
    await running.stop()


async def test_a_refused_registration_is_tried_again(running: Running, kubelet: Kubelet) -> None:
    kubelet.refuse = True
    running.plugin.follow(node())
    await asyncio.sleep(0.5)
    kubelet.refuse = False
    await kubelet.until(GPU, TWO)


@pytest.mark.parametrize("fault", ["refuse-register", "drop-stream"])
async def test_a_dropped_stream_comes_back_when_the_fault_is_out(
    fault: str, running: Running, kubelet: Kubelet
) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    running.plugin.follow(node(extra=f", faults: [{fault}]"))
    async with asyncio.timeout(8):
        while GPU in kubelet.devices:
            await asyncio.sleep(0.05)
    assert running.plugin.problem == ""
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)


async def test_a_failing_allocation_names_the_fault(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node(extra=", faults: [allocate-error]"))
    await kubelet.until(GPU, TWO)
    with pytest.raises(grpc.aio.AioRpcError, match="the fault allocate-error is on"):
        await allocate(kubelet, "a")


async def test_a_slow_allocation_takes_its_time(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node(extra=", faults: [slow-allocate=0.3s]"))
    await kubelet.until(GPU, TWO)
    before = asyncio.get_running_loop().time()
    await allocate(kubelet, "a")
    assert asyncio.get_running_loop().time() - before >= 0.3


async def test_a_crash_happens_once_when_the_fault_is_switched_on(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    running.plugin.follow(node(extra=", faults: [crash]"))
    with pytest.raises(CrashError):
        await asyncio.wait_for(running.main, 5)


async def test_a_process_that_starts_under_the_fault_lives(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node(extra=", faults: [crash]"))
    await kubelet.until(GPU, TWO)
    assert not running.main.done()


async def test_a_node_that_the_topology_does_not_name_has_no_resource(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(None)
    await asyncio.sleep(0.3)
    assert (running.plugin.servers, kubelet.registrations, running.plugin.problem) == ({}, [], "")


async def test_a_node_that_is_no_longer_named_has_no_devices(running: Running, kubelet: Kubelet) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    running.plugin.follow(None)
    await kubelet.until(GPU, {})


async def test_that_the_node_is_not_named_is_logged_once_however_long_devices_take_to_go(
    running: Running, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.device_plugin.plugin.POLL", 0.02)
    kubelet.used = {GPU: ["b"]}
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    with capture_logs() as logs:
        running.plugin.follow(None)
        await kubelet.until(GPU, {"b": "Unhealthy"})
        await asyncio.sleep(0.3)  # some looks at the device that leaves
        kubelet.used = {}
        await kubelet.until(GPU, {})
    assert [each["event"] for each in logs].count("node-not-in-topology") == 1


async def test_a_stopped_plugin_leaves_no_socket(running: Running, kubelet: Kubelet, folder: Path) -> None:
    running.plugin.follow(node())
    await kubelet.until(GPU, TWO)
    await running.stop()
    assert [path.name for path in folder.iterdir()] == ["kubelet.sock"]


def test_sockets_are_named_after_their_resource() -> None:
    names = [endpoint(name) for name in (GPU, "nvidia.com/mig-1g.5gb", "example.com/x")]
    assert names == ["nvidia-gpu.sock", "nvidia-mig-1g.5gb.sock", "example.com-x.sock"]
