"""The cache against the real API server: whatever happens in between, it equals a fresh list within 5 s."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec
import pytest
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError, KubeError, api_error
from gpuyard.common.kube.forms import JSON, Form
from gpuyard.common.kube.objects import Meta
from gpuyard.common.kube.protobuf import PROTOBUF
from gpuyard.common.kube.reflector import Reflector, Tuning
from gpuyard.common.kube.resources import CONFIG_MAPS
from gpuyard.sandbox import Cluster, Spec

from tests.cluster.conftest import MakeSandbox
from tests.cluster.network import Link, background, linked
from tests.cluster.share import others_share

pytestmark = pytest.mark.ground("processes")

PROMISE = 5.0
MAPS = CONFIG_MAPS.within("default")


class ConfigMap(msgspec.Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] | None = None


@pytest.fixture
def broken(make_sandbox: MakeSandbox) -> Cluster:
    """A sandbox that the test may break."""
    return make_sandbox(Spec(nodes=0))


class Watched:
    """A cache behind a link of its own, with what it told its readers."""

    def __init__(self, link: Link, client: Client) -> None:
        self.link = link
        self.client = client
        self.gone: list[str] = []
        self.cache = Reflector(client, MAPS, msgspec.json.Decoder(ConfigMap), tuning=Tuning(page=7))
        self.cache.subscribe(
            lambda batch: self.gone.extend(c.old.metadata.name for c in batch.changes if c.old and not c.new)
        )

    def versions(self) -> dict[str, str]:
        return {key: one.metadata.resource_version for key, one in self.cache.store.items()}


@asynccontextmanager
async def watching(cluster: Cluster) -> AsyncIterator[Watched]:
    access = await find_access(str(cluster.kubeconfig))
    async with linked(cluster.record.ports["kube-apiserver"]) as link:
        behind = replace(access, server=f"https://127.0.0.1:{link.port}")
        async with Client(behind) as client:
            watched = Watched(link, client)
            async with background(watched.cache.run()):
                await watched.cache.wait_synced()
                yield watched


@asynccontextmanager
async def direct(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(await find_access(str(cluster.kubeconfig))) as client:
        yield client


async def fresh(client: Client) -> dict[str, str]:
    items = await client.items(MAPS)
    return {f"default/{item['metadata']['name']}": item["metadata"]["resourceVersion"] for item in items}


async def churn(client: Client, numbers: Iterator[int]) -> None:
    """Create three, change one, delete one."""
    names = [f"m{next(numbers)}" for _ in range(3)]
    for name in names:
        await client.create(MAPS, {"metadata": {"name": name}, "data": {"a": "1"}})
    await client.patch(CONFIG_MAPS.named(names[0], "default"), {"data": {"a": "2"}})
    await client.delete(CONFIG_MAPS.named(names[1], "default"))


async def equal_in(watched: Watched, client: Client) -> float:
    """Seconds until the cache equals a list that is read now."""
    began, expected = time.monotonic(), await fresh(client)
    async with asyncio.timeout(30):
        while watched.versions() != expected:
            await asyncio.sleep(0.02)
    return time.monotonic() - began


async def test_a_cache_follows_what_happens(broken: Cluster) -> None:
    async with watching(broken) as watched, direct(broken) as client:
        numbers = count()
        for _ in range(5):
            await churn(client, numbers)
        assert await equal_in(watched, client) < 1
        assert watched.cache.counts.lists == 1
        assert len(watched.gone) == 5


async def test_an_api_server_that_is_killed_and_started_again(broken: Cluster) -> None:
    async with watching(broken) as watched, direct(broken) as client:
        numbers = count()
        await churn(client, numbers)
        broken.kill("kube-apiserver")
        await asyncio.sleep(3)
        await asyncio.to_thread(broken.start, "kube-apiserver")
        await churn(client, numbers)
        assert await equal_in(watched, client) < PROMISE * others_share()


async def test_a_history_that_was_compacted_while_we_were_away(broken: Cluster) -> None:
    async with watching(broken) as watched, direct(broken) as client:
        numbers = count()
        await churn(client, numbers)
        await equal_in(watched, client)
        await watched.link.cut()
        old = (await client.create(MAPS, {"metadata": {"name": "last"}}))["metadata"]["resourceVersion"]
        await client.delete(CONFIG_MAPS.named("m0", "default"))
        await churn(client, numbers)
        await asyncio.to_thread(broken.compact_etcd)
        await asyncio.to_thread(broken.restart, "kube-apiserver")
        await watched.link.join()
        assert await equal_in(watched, client) < PROMISE * others_share()
        assert "m0" in watched.gone
        assert watched.cache.counts.lists == 2
        for form in (JSON, PROTOBUF):
            assert (await refused(client, old, form)).expired


async def refused(client: Client, version: str, form: Form) -> ApiError:
    """What the server says to who wants to watch from there, whether at once or in an event."""
    try:
        async with aclosing(client.watch(MAPS, {"resourceVersion": version, "timeoutSeconds": "20"}, (form,))) as watch:
            async for _, frames in watch:
                for event in map(form.event, frames):
                    return api_error(event.type, 0, bytes(event.object))
    except ApiError as error:
        return error
    raise AssertionError("it was not refused")


async def test_sixty_seconds_away_in_three_ways(broken: Cluster) -> None:
    """Refused connections, connections that say nothing, and an API server that is frozen."""
    async with watching(broken) as refused, watching(broken) as silent, direct(broken) as client:
        numbers = count()
        await churn(client, numbers)
        await equal_in(refused, client)
        await refused.link.cut()
        silent.link.hush()
        for _ in range(3):
            await churn(client, numbers)
            await asyncio.sleep(10)
        broken.pause("kube-apiserver")
        await asyncio.sleep(30)
        broken.resume("kube-apiserver")
        await refused.link.join()
        await silent.link.join()
        await answering(client)
        took = await asyncio.gather(equal_in(refused, client), equal_in(silent, client))
        assert max(took) < PROMISE * others_share(), took


async def answering(client: Client) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await client.call("GET", replace(MAPS, path="/readyz"), total=1)
            except KubeError:
                await asyncio.sleep(0.05)
            else:
                return


async def test_objects_of_a_megabyte_pass_through_list_and_watch(broken: Cluster) -> None:
    big: dict[str, Any] = {"metadata": {"name": "before"}, "data": {"a": "x" * 1_000_000}}
    async with direct(broken) as client:
        await client.create(MAPS, big)
        async with watching(broken) as watched:
            await client.create(MAPS, big | {"metadata": {"name": "after"}})
            assert await equal_in(watched, client) < PROMISE * others_share()
            sizes = {len((one.data or {}).get("a", "")) for one in watched.cache.store.values()}
            assert 1_000_000 in sizes


async def test_a_watch_that_the_server_ends_goes_on_without_a_list(broken: Cluster) -> None:
    async with direct(broken) as client:
        cache = Reflector(client, MAPS, msgspec.json.Decoder(ConfigMap), tuning=Tuning(watch=3))
        async with background(cache.run()):
            await cache.wait_synced()
            numbers = count()
            for _ in range(4):
                await asyncio.sleep(2)
                await churn(client, numbers)
            async with asyncio.timeout(5):
                while {k: o.metadata.resource_version for k, o in cache.store.items()} != await fresh(client):
                    await asyncio.sleep(0.05)
        assert (cache.counts.lists, cache.counts.failures) == (1, 0)
        assert cache.counts.watches >= 3
