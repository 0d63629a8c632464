"""Two real processes and one real Lease: killed, paused, cut off or told to stop, they never act side by side."""

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.changes import Batch
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.objects import Meta
from gpuyard.common.kube.reflector import Reflector
from gpuyard.common.kube.resources import CONFIG_MAPS, LEASES
from gpuyard.sandbox import Cluster, Spec

from tests.cluster.conftest import MakeSandbox
from tests.cluster.elector import TIMING
from tests.cluster.network import background

pytestmark = pytest.mark.ground("processes")

Contend = Callable[[str], "Contender"]


class Contender:
    """A process that wants to lead; `said` holds what it printed, with the time."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self.name = name
        self.said: list[tuple[str, float]] = []
        self._words: queue.Queue[tuple[str, float]] = queue.Queue()
        command = [sys.executable, "-m", "tests.cluster.elector", str(cluster.kubeconfig), namespace, name]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._words.put((line.strip(), time.monotonic()))

    async def until(self, word: str, within: float = 20) -> float:
        """Wait until it says this; returns when that was."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            try:
                self.said.append(self._words.get_nowait())
            except queue.Empty:
                await asyncio.sleep(0.01)
            else:
                if self.said[-1][0] == word:
                    return self.said[-1][1]
        pytest.fail(f"{self.name} did not say {word!r} within {within} s, but {[word for word, _ in self.said]}")

    async def until_again(self, word: str) -> float:
        """Wait until it says this from now on."""
        while not self._words.empty():
            self.said.append(self._words.get_nowait())
        return await self.until(word)

    def send(self, what: signal.Signals) -> None:
        self.process.send_signal(what)


class ConfigMap(msgspec.Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] | None = None


class Writes:
    """Who wrote, in the order in which the API server took it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.names: list[str] = []
        self.cache = Reflector(client, CONFIG_MAPS.within(namespace), msgspec.json.Decoder(ConfigMap))
        self.cache.subscribe(self.note)

    def note(self, batch: Batch[ConfigMap]) -> None:
        maps = [change.new for change in batch.changes if change.new]
        self.names += [one.data["by"] for one in maps if one.data and "by" in one.data]

    def turns(self) -> list[str]:
        """The names without repetitions."""
        return [name for before, name in zip(["", *self.names], self.names, strict=False) if name != before]


@contextmanager
def contending(cluster: Cluster, namespace: str) -> Iterator[Contend]:
    started: list[Contender] = []

    def start(name: str) -> Contender:
        started.append(Contender(cluster, namespace, name))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.fixture
async def client(sandbox: Cluster) -> AsyncIterator[Client]:
    async with Client(await find_access(str(sandbox.kubeconfig))) as made:
        yield made


@pytest.fixture
async def writes(client: Client, namespace: str) -> AsyncIterator[Writes]:
    await client.create(CONFIG_MAPS.within(namespace), {"metadata": {"name": "work"}})
    made = Writes(client, namespace)
    async with background(made.cache.run()):
        await made.cache.wait_synced()
        yield made


@pytest.fixture
def contend(sandbox: Cluster, namespace: str) -> Iterator[Contend]:
    with contending(sandbox, namespace) as start:
        yield start


async def two(contend: Contend) -> tuple[Contender, Contender]:
    """One that leads and one that stands by."""
    first = contend("first")
    await first.until("wrote")
    second = contend("second")
    await second.until("up")
    await asyncio.sleep(1)
    return first, second


async def lease_spec(client: Client, namespace: str) -> Json:
    spec: Json = (await client.get(LEASES.named("gpuyard-test", namespace)))["spec"]
    return spec


async def test_who_is_told_to_stop_hands_over_at_once(
    contend: Contend, client: Client, namespace: str, writes: Writes
) -> None:
    first, second = await two(contend)
    first.send(signal.SIGTERM)
    ended = await first.until("ended")
    assert await second.until("wrote") - ended < TIMING.duration / 2
    assert first.process.wait(10) == 0
    spec = await lease_spec(client, namespace)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)
    assert writes.turns() == ["first", "second"]


async def test_who_is_killed_is_followed_when_the_lease_has_expired(
    contend: Contend, client: Client, namespace: str, writes: Writes
) -> None:
    first, second = await two(contend)
    first.send(signal.SIGKILL)
    killed = time.monotonic()
    took = await second.until("wrote") - killed
    assert TIMING.duration - 2 * TIMING.retry < took < TIMING.duration + 5
    assert (await lease_spec(client, namespace))["leaseTransitions"] == 1
    assert writes.turns() == ["first", "second"]


async def test_who_was_paused_does_nothing_more_when_it_wakes(contend: Contend, writes: Writes) -> None:
    first, second = await two(contend)
    # Right after a write it sleeps: no call is on its way when it is paused.
    await first.until_again("wrote")
    first.send(signal.SIGSTOP)
    await second.until("wrote")
    first.send(signal.SIGCONT)
    await first.until("ended")
    await second.until_again("wrote")
    await asyncio.sleep(1)
    assert writes.turns() == ["first", "second"]


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_who_cannot_reach_the_api_stops_before_its_lease_can_expire(make_sandbox: MakeSandbox, how: str) -> None:
    cluster = make_sandbox(Spec(nodes=0))
    async with Client(await find_access(str(cluster.kubeconfig))) as client:
        await client.create(CONFIG_MAPS.within("default"), {"metadata": {"name": "work"}})
        with contending(cluster, "default") as contend:
            first = contend("first")
            await first.until("wrote")
            await asyncio.sleep(1)
            getattr(cluster, how)("kube-apiserver")
            cut = time.monotonic()
            assert await first.until("ended") - cut < TIMING.duration
            await asyncio.to_thread(cluster.start if how == "kill" else cluster.resume, "kube-apiserver")
            await first.until_again("wrote")
            assert (await lease_spec(client, "default"))["leaseTransitions"] == 0
