"""Whether the API server can be reached: silence alone proves nothing."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.common.kube import contact as module
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.contact import LOST, PAUSE, QUIET, Contact, read_little
from gpuyard.common.kube.errors import UnreachableError

from tests.common.kube.wire import Wire

if TYPE_CHECKING:
    from gpuyard.common.kube.reflector import Reflector


class Cache:
    """A cache whose last word a test gives."""

    def __init__(self, cluster: "Cluster") -> None:
        self.problem = ""
        self._cluster = cluster
        self._heard = 0.0

    def hears(self) -> None:
        self._heard = self._cluster.now

    def age(self) -> float:
        return self._cluster.now - self._heard


class Cluster:
    """A clock, two caches and an API server that may be out of reach."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reachable = True
        self.reads = 0
        self.pods, self.nodes = Cache(self), Cache(self)
        caches = cast("list[Reflector[Any]]", [self.pods, self.nodes])
        self.contact = Contact(caches, caches[0], self._read, lambda: self.now)

    async def _read(self) -> None:
        self.reads += 1
        if not self.reachable:
            raise UnreachableError("out of reach")

    async def lasts(self, seconds: float) -> None:
        """Let time pass, with a look as often as in a running process."""
        end = self.now + seconds
        while self.now < end:
            self.now += PAUSE
            await self.contact.look()


@pytest.mark.row("B-34", case="small-read")
async def test_on_a_quiet_cluster_a_small_read_keeps_contact_for_as_long_as_it_is_quiet() -> None:
    cluster = Cluster()
    for _ in range(20):
        await cluster.lasts(PAUSE * 3)
        assert not cluster.contact.is_lost()
    assert cluster.reads == 300 // (QUIET + PAUSE)


@pytest.mark.row("B-34", case="any-word")
async def test_a_word_on_any_watch_keeps_contact_without_a_read() -> None:
    cluster = Cluster()
    cluster.reachable = False
    for _ in range(10):
        await cluster.lasts(QUIET)
        cluster.nodes.hears()
        assert not cluster.contact.is_lost()
    assert (cluster.reads, cluster.pods.age()) == (0, 10 * QUIET)


@pytest.mark.row("B-34", case="small-read")
async def test_contact_is_lost_75_seconds_after_the_last_word_when_small_reads_fail() -> None:
    cluster = Cluster()
    cluster.reachable = False
    await cluster.lasts(LOST)
    assert (cluster.contact.age(), cluster.contact.is_lost()) == (LOST, False)
    await cluster.lasts(PAUSE)
    assert cluster.contact.is_lost()
    assert cluster.reads > 1
    cluster.reachable = True
    await cluster.lasts(PAUSE)
    assert not cluster.contact.is_lost()


@pytest.mark.row("B-34", case="any-word")
async def test_contact_is_lost_when_the_vital_watch_cannot_be_opened_again_whatever_others_hear() -> None:
    cluster = Cluster()
    await cluster.lasts(LOST + PAUSE)
    cluster.nodes.problem = "connection refused"
    assert not cluster.contact.is_lost()
    cluster.nodes.problem, cluster.pods.problem = "", "connection refused"
    cluster.nodes.hears()
    assert cluster.contact.is_lost()


async def test_a_running_process_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0)
    cluster = Cluster()
    running = asyncio.create_task(cluster.contact.run())
    cluster.now = QUIET + 1
    async with asyncio.timeout(10):
        while not cluster.reads:
            await asyncio.sleep(0)
    running.cancel()
    assert cluster.contact.age() == 0


async def test_the_small_read_is_one_namespace(wire: Wire, client: Client) -> None:
    await read_little(client)
    (asked,) = wire.requests
    assert (asked.path, asked.query) == ("/api/v1/namespaces", {"limit": "1"})
