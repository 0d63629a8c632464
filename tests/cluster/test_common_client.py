"""The light transport against the real API server: verbs, refusals, sizes, trust."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import trustme
import yaml
from gpuyard.common.kube.access import Access, Authorization, find_access, in_cluster
from gpuyard.common.kube.client import Client, Patch, Selector
from gpuyard.common.kube.errors import ApiError, UnreachableError
from gpuyard.common.kube.events import Recorder
from gpuyard.common.kube.objects import Bare, refer
from gpuyard.common.kube.resources import CONFIG_MAPS, EVENTS, NAMESPACES, NODES, PODS, Resource
from gpuyard.common.kube.tls import client_context

from tests.cluster.network import background

pytestmark = pytest.mark.ground("processes")

Json = dict[str, Any]


def config_map(name: str, **data: str) -> Json:
    return {"metadata": {"name": name, "labels": {"made-by": "test"}}, "data": data}


def pod(name: str) -> Json:
    container = {"name": "c", "image": "none"}
    return {"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}


@pytest.fixture
async def access(kubeconfig: Path) -> Access:
    return await find_access(str(kubeconfig))


@pytest.fixture
async def client(access: Access) -> AsyncIterator[Client]:
    async with Client(access) as made:
        yield made


async def test_an_object_lives_through_all_verbs(client: Client, namespace: str) -> None:
    address = CONFIG_MAPS.named("one", namespace)
    made = await client.create(CONFIG_MAPS.within(namespace), config_map("one", a="1"))
    assert (await client.get(address))["metadata"]["uid"] == made["metadata"]["uid"]
    await client.update(address, made | {"data": {"a": "2"}})
    assert (await client.get(address))["data"] == {"a": "2"}
    await client.delete(address)
    with pytest.raises(ApiError) as caught:
        await client.get(address)
    assert caught.value.not_found


@pytest.mark.parametrize(
    ("form", "body", "expected"),
    [
        (Patch.MERGE, {"data": {"a": None, "b": "2"}}, {"b": "2"}),
        (Patch.STRATEGIC, {"data": {"b": "2"}}, {"a": "1", "b": "2"}),
        (Patch.JSON, [{"op": "replace", "path": "/data/a", "value": "3"}], {"a": "3"}),
    ],
)
async def test_each_patch_is_understood(
    client: Client, namespace: str, form: Patch, body: object, expected: Json
) -> None:
    await client.create(CONFIG_MAPS.within(namespace), config_map("one", a="1"))
    assert (await client.patch(CONFIG_MAPS.named("one", namespace), body, form))["data"] == expected


async def test_server_side_apply_owns_what_it_wrote(client: Client, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1"}}
    applied = await client.apply(CONFIG_MAPS.named("one", namespace), body, manager="gpuyard-test")
    assert [entry["manager"] for entry in applied["metadata"]["managedFields"]] == ["gpuyard-test"]


async def test_whoever_writes_on_an_old_version_is_told_of_the_conflict(client: Client, namespace: str) -> None:
    address = CONFIG_MAPS.named("one", namespace)
    made = await client.create(CONFIG_MAPS.within(namespace), config_map("one", a="1"))
    await client.patch(address, {"data": {"a": "2"}})
    with pytest.raises(ApiError) as caught:
        await client.update(address, made)
    assert caught.value.conflict
    assert "the object has been modified" in caught.value.message


async def test_a_name_that_is_taken_and_a_uid_that_is_gone_are_told_apart(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS.within(namespace), config_map("one"))
    with pytest.raises(ApiError) as taken:
        await client.create(CONFIG_MAPS.within(namespace), config_map("one"))
    with pytest.raises(ApiError) as other:
        await client.delete(CONFIG_MAPS.named("one", namespace), uid="00000000-0000-0000-0000-000000000000")
    assert (taken.value.already_exists, taken.value.conflict) == (True, False)
    assert (other.value.already_exists, other.value.conflict) == (False, True)


async def test_the_status_of_a_node_is_patched_below_it(client: Client) -> None:
    address = NODES.named("node-1")
    await client.patch(address.sub("status"), {"status": {"capacity": {"gpuyard.io/test": "3"}}}, Patch.STRATEGIC)
    assert (await client.get(address))["status"]["capacity"]["gpuyard.io/test"] == "3"
    await client.patch(address.sub("status"), {"status": {"capacity": {"gpuyard.io/test": None}}})


async def test_a_pod_is_bound_and_evicted_through_its_sub_resources(client: Client, namespace: str) -> None:
    made = pod("p")
    made["spec"]["schedulerName"] = "nobody"
    await client.create(PODS.within(namespace), made)
    address = PODS.named("p", namespace)
    binding = {"metadata": {"name": "p"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}}
    await client.create(address.sub("binding"), binding)
    assert (await client.get(address))["spec"]["nodeName"] == "node-1"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": namespace}}
    await client.create(address.sub("eviction"), eviction)
    gone = await client.items(PODS.within(namespace))
    assert not gone or gone[0]["metadata"]["deletionTimestamp"]


async def test_a_big_object_is_written_listed_and_read(client: Client, namespace: str) -> None:
    data = "x" * 1_000_000
    await client.create(CONFIG_MAPS.within(namespace), config_map("big", data=data))
    assert (await client.get(CONFIG_MAPS.named("big", namespace)))["data"]["data"] == data
    (found,) = await client.items(CONFIG_MAPS.within(namespace), Selector(labels="made-by=test"))
    assert found["data"]["data"] == data


async def test_an_object_that_is_too_big_is_refused_with_the_servers_words(client: Client, namespace: str) -> None:
    with pytest.raises(ApiError) as caught:
        await client.create(CONFIG_MAPS.within(namespace), config_map("big", data="x" * 4_000_000))
    assert caught.value.status in (413, 422)


async def test_pages_add_up_to_the_whole_collection_of_one_version(client: Client, namespace: str) -> None:
    names = {f"m{number:02}" for number in range(25)}
    for name in names:
        await client.create(CONFIG_MAPS.within(namespace), config_map(name))
    selected = Selector(labels="made-by=test")
    pages = [page async for page in client.pages(CONFIG_MAPS.within(namespace), selected, limit=10)]
    assert [len(page.items or ()) for page in pages] == [10, 10, 5]
    assert len({page.metadata.resource_version for page in pages}) == 1
    assert {item["metadata"]["name"] for item in await client.items(CONFIG_MAPS.within(namespace), selected)} == names


async def test_what_a_token_may_not_do_is_refused_by_name(access: Access) -> None:
    nobody = Access(access.server, access.tls, Authorization.fixed("Bearer nobody"))
    async with Client(nobody) as client:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await client.get(NAMESPACES.named("default"))


async def test_another_authority_is_not_trusted_and_the_error_says_so(access: Access) -> None:
    authority = trustme.CA().cert_pem.bytes().decode()
    wrong = Access(access.server, client_context(authority), access.authorization, origin="wrong.kubeconfig")
    async with Client(wrong) as client:
        with pytest.raises(UnreachableError, match=r"certificate is not accepted.*wrong\.kubeconfig"):
            await client.get(NAMESPACES.named("default"))


def authority_of(kubeconfig: Path) -> bytes:
    (cluster,) = yaml.safe_load(kubeconfig.read_text())["clusters"]
    return Path(kubeconfig.parent, cluster["cluster"]["certificate-authority"]).read_bytes()


async def test_a_kubeconfig_with_inline_data_works_too(kubeconfig: Path, tmp_path: Path) -> None:
    content = yaml.safe_load(kubeconfig.read_text())
    data = base64.b64encode(authority_of(kubeconfig)).decode()
    content["clusters"][0]["cluster"] |= {"certificate-authority": "", "certificate-authority-data": data}
    inline = tmp_path / "inline"
    inline.write_text(yaml.safe_dump(content))
    async with Client(await find_access(str(inline))) as client:
        assert (await client.get(NAMESPACES.named("default")))["metadata"]["name"] == "default"


async def test_a_pods_service_account_is_let_in_and_its_renewed_token_is_read(
    client: Client, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    account = Resource("v1", "serviceaccounts", "ServiceAccount").named("default", namespace)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await client.create(account.sub("token"), asked))["status"]["token"]
    (tmp_path / "ca.crt").write_bytes(authority_of(kubeconfig))
    (tmp_path / "token").write_text("not yet written")
    url = urlsplit(client.access.server)
    pod = {"KUBERNETES_SERVICE_HOST": url.hostname or "", "KUBERNETES_SERVICE_PORT": str(url.port)}
    async with Client(in_cluster(pod, tmp_path)) as inside:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await inside.get(NAMESPACES.named(namespace))
        (tmp_path / "token").write_text(token)
        with pytest.raises(ApiError, match=f"system:serviceaccount:{namespace}:default.*403 Forbidden"):
            await inside.get(NAMESPACES.named(namespace))


async def test_an_event_and_its_repetitions_are_visible_to_users(client: Client, namespace: str) -> None:
    made = msgspec.convert(await client.create(PODS.within(namespace), pod("p")), Bare)
    recorder = Recorder(client, "gpuyard-test", "test-1", {"RoomPlanned"})
    async with background(recorder.run()), asyncio.timeout(10):
        for _ in range(3):
            recorder.emit(refer(PODS, made.metadata), "RoomPlanned", "waits for 2 GPUs of team-a")
        while not (found := await ours(client, namespace)):
            await asyncio.sleep(0.1)
    (event,) = found
    assert event["series"]["count"] == 3
    assert event["regarding"]["uid"] == made.metadata.uid
    assert recorder.dropped == 0


async def ours(client: Client, namespace: str) -> list[Json]:
    reason = Selector(fields="reason=RoomPlanned")
    return await client.items(EVENTS.within(namespace), reason)
