"""Pods as the real API server writes them: a list, a watch in JSON and one in protobuf read alike."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from gpuyard.common.cluster import pod_pb2 as wire
from gpuyard.common.cluster.objects import Pod
from gpuyard.common.cluster.reading import JsonPods, read_pod
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client, Patch
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.forms import JSON, Form
from gpuyard.common.kube.protobuf import PROTOBUF
from gpuyard.common.kube.reflector import Reflector, Tuning
from gpuyard.common.kube.resources import CONFIG_MAPS, PODS, Resource
from gpuyard.sandbox import Cluster
from msgspec.structs import replace

from tests.cluster.network import background

pytestmark = pytest.mark.ground("processes")

Json = dict[str, Any]

RUNTIME_CLASSES = Resource("node.k8s.io/v1", "runtimeclasses", "RuntimeClass")
SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
WHEN = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


@pytest.fixture
async def client(sandbox: Cluster) -> AsyncIterator[Client]:
    async with Client(await find_access(str(sandbox.kubeconfig))) as made:
        yield made


@pytest.fixture
async def overhead(client: Client, namespace: str) -> AsyncIterator[str]:
    """A runtime class that takes something for itself."""
    takes = {"podFixed": {"cpu": "250m", "memory": "1M"}}
    body = {"metadata": {"name": namespace}, "handler": "none", "overhead": takes}
    await client.create(RUNTIME_CLASSES.within(), body)
    yield namespace
    await client.delete(RUNTIME_CLASSES.named(namespace))


# --- what is said -----------------------------------------------------------------------------------------------------


def container(name: str, requests: Json, limits: Json, **more: object) -> Json:
    return {"name": name, "image": "none", "resources": {"requests": requests, "limits": limits}} | more


def neighbours() -> Json:
    """Everything that an affinity to pods can say."""
    rule = {"key": "app", "operator": "In", "values": ["b", "a"]}
    selector = {"matchLabels": {"z": "1", "a": ""}, "matchExpressions": [rule, {"key": "x", "operator": "Exists"}]}
    near = {"topologyKey": "zone", "labelSelector": selector, "namespaces": ["b", "a"], "namespaceSelector": {}}
    keys = {"matchLabelKeys": ["app"], "mismatchLabelKeys": ["tier"]}
    far = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"q": "r"}}} | keys
    return dict(zip(WHEN, ([near, far], [{"weight": 7, "podAffinityTerm": near}]), strict=True))


def affinity() -> Json:
    fields = {"key": "metadata.name", "operator": "NotIn", "values": ["node-9"]}
    term = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["5"]}], "matchFields": [fields]}
    nodes = ({"nodeSelectorTerms": [term, {"matchFields": [fields]}]}, [{"weight": 1, "preference": term}])
    of_nodes = dict(zip(WHEN, nodes, strict=True))
    return {"nodeAffinity": of_nodes, "podAffinity": neighbours(), "podAntiAffinity": neighbours()}


def waiting(owners: list[Json], runtime_class: str) -> Json:
    """A pod that says all that can be said before it is placed."""
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    return {
        "metadata": {
            "name": "waiting",
            "labels": {"kai.scheduler/queue": "team-a", "empty": ""},
            "annotations": {"gpu-fraction": "0.5", "note": 'ü — "<&>" ✓\n', "kai.scheduler/preemption-delay": "5m"},
            "ownerReferences": owners,
        },
        "spec": {
            "containers": [
                container(
                    "a",
                    {"cpu": "0.1", "memory": "1.5Gi"},
                    {"nvidia.com/gpu": "1", "gpuyard.io/shared-gpu": "1", "memory": "129e8"},
                ),
                container("b", {"cpu": "1500m", "ephemeral-storage": "1e3"}, {}),
                {"name": "c", "image": "none"},
            ],
            "initContainers": [
                container("sidecar", {"memory": "128974848"}, {"cpu": "12500m"}, restartPolicy="Always"),
                container("once", {}, {"memory": "123Mi"}),
            ],
            "volumes": [
                {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "made", "ephemeral": {"volumeClaimTemplate": claim}},
                {"name": "empty", "emptyDir": {}},
            ],
            "affinity": affinity(),
            "tolerations": [
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
                {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
                {"key": "k", "operator": "Exists"},
            ],
            "nodeSelector": {"zone": "a", "arch": "amd64"},
            "schedulingGates": [{"name": "example.com/later"}, {"name": "example.com/still"}],
            "priorityClassName": "system-cluster-critical",
            "schedulerName": "kai-scheduler",
            "runtimeClassName": runtime_class,
        },
    }


def status() -> Json:
    """What kube-scheduler and others say of it."""
    verdict = {"type": "PodScheduled", "status": "False", "message": "0/4 <nodes> & ü", "reason": "Unschedulable"}
    conditions = [verdict | {"lastTransitionTime": "2026-03-01T00:00:00Z"}, {"type": "Told", "status": "True"}]
    return {"status": {"nominatedNodeName": "node-2", "startTime": "2026-02-28T23:59:59Z", "conditions": conditions}}


def placed(name: str) -> Json:
    """A pod that KWOK runs, and that takes its time when it is told to go."""
    spec = {"nodeName": "node-1", "containers": [container("a", {}, {"nvidia.com/gpu": "2"})]}
    return {"metadata": {"name": name}, "spec": spec | {"terminationGracePeriodSeconds": 600}}


def no_text() -> bytes:
    """A pod in protobuf, with bytes that are part of no text wherever the API server takes them."""
    mark = "~~~~~~"
    spec = wire.PodSpec(scheduler_name=mark)
    container = b"\x12\x09\x0a\x01a\x12\x04none"
    meta = wire.Meta(name="odd", annotations={"gpu-fraction": mark, "note": mark})
    pod = wire.Wrapped(pod=wire.Pod(metadata=meta, spec=spec.SerializeToString() + container))
    return b"k8s\0" + pod.SerializeToString().replace(mark.encode(), b"a\xff\xe2\x9c\xed\xa0")


DEBUGGER = {"spec": {"ephemeralContainers": [{"name": "debugger", "image": "none"}]}}


# --- what is read -----------------------------------------------------------------------------------------------------


class Watched:
    """The pods of a namespace by two watches, in JSON and in protobuf."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._address = client, PODS.within(namespace)
        self.caches = self.plain, self.better = self._cache({}), self._cache({PROTOBUF: read_pod})

    def _cache(self, better: dict[Form, Callable[[bytes | msgspec.Raw], Pod]]) -> Reflector[Pod]:
        # Short watches: a bookmark ends each, and the next one goes on from there.
        return Reflector(self._client, self._address, JsonPods(), better=better, tuning=Tuning(watch=2))

    async def listed(self) -> dict[str, Pod]:
        """By a list, which says only once of what kind they are."""
        pages = [page async for page in self._client.pages(self._address)]
        pods = [JsonPods().decode(item) for page in pages for item in page.items or ()]
        return {pod.metadata.key: replace(pod, api_version="v1", kind="Pod") for pod in pods}

    async def alike(self, name: str, holds: Callable[[Pod], bool]) -> Pod:
        """The pod, when that holds and all three have it, and all others, alike."""
        async with asyncio.timeout(60):
            while True:
                listed = await self.listed()
                found = next((pod for pod in listed.values() if pod.metadata.name == name), None)
                if found and holds(found) and all(versions(listed) == versions(one.store) for one in self.caches):
                    break
                await asyncio.sleep(0.1)
        assert self.better.store == listed
        assert self.better.store == self.plain.store
        return found


def versions(pods: dict[str, Pod]) -> dict[str, str]:
    return {key: pod.metadata.resource_version for key, pod in pods.items()}


def unsaid(part: msgspec.Struct | None) -> set[str]:
    """The fields that have nothing but their default."""
    assert part is not None
    return {field.name for field in msgspec.structs.fields(part) if getattr(part, field.name) == field.default}


def running(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase == "Running"


async def test_a_pod_reads_alike_by_a_list_and_by_watches_in_both_forms(
    client: Client, namespace: str, overhead: str
) -> None:
    waits, runs = (PODS.named(name, namespace) for name in ("waiting", "placed"))
    watched = Watched(client, namespace)
    async with background(watched.plain.run()), background(watched.better.run()):
        await client.create(PODS.within(namespace), waiting(await owners(client, namespace), overhead))
        await client.patch(waits.sub("status"), status(), Patch.STRATEGIC)
        pod = await watched.alike("waiting", lambda pod: pod.verdict is not None)
        assert unsaid(pod.metadata) == {"deletion_timestamp"}
        assert unsaid(pod.spec) == {"node_name", "topology_spread_constraints"}
        assert unsaid(pod.status) == {"container_statuses", "init_container_statuses"}

        await client.create(PODS.within(namespace), placed("placed"))
        await client.patch(runs.sub("ephemeralcontainers"), DEBUGGER, Patch.STRATEGIC)
        await watched.alike("placed", running)
        await client.delete(runs)
        pod = await watched.alike("placed", lambda pod: pod.metadata.deletion_timestamp is not None)
        assert "node_name" not in unsaid(pod.spec)


async def test_bytes_that_are_no_text_read_alike_and_do_not_end_the_watch(client: Client, namespace: str) -> None:
    watched = Watched(client, namespace)
    async with background(watched.plain.run()), background(watched.better.run()):
        await watched.better.wait_synced()
        await client.call("POST", PODS.within(namespace), body=msgspec.Raw(no_text()), content_type=PROTOBUF.media)
        pod = await watched.alike("odd", lambda _: True)
        assert pod.spec is not None
        assert pod.spec.scheduler_name == "a" + 5 * "\ufffd"
        assert (watched.better.counts.lists, watched.better.counts.failures) == (1, 0)


async def test_a_watch_in_protobuf_that_the_server_ends_goes_on_without_a_list(client: Client, namespace: str) -> None:
    cache = Watched(client, namespace).better
    async with background(cache.run()):
        for number in range(2):
            await client.create(PODS.within(namespace), placed(f"p{number}"))
            async with asyncio.timeout(60):
                while len(cache.store) <= number or cache.counts.watches <= number:
                    await asyncio.sleep(0.05)
        assert (cache.counts.lists, cache.counts.failures) == (1, 0)


async def owners(client: Client, namespace: str) -> list[Json]:
    """References to things that are there: otherwise the pod would be collected."""
    found = []
    for resource, name, more in (
        (CONFIG_MAPS, "kube-root-ca.crt", {"controller": True}),
        (SERVICE_ACCOUNTS, "default", {"controller": False}),
        (SERVICE_ACCOUNTS, "default", {}),
    ):
        uid = (await client.get(resource.named(name, namespace)))["metadata"]["uid"]
        found.append({"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid} | more)
    return found


async def test_the_api_server_writes_in_the_form_that_is_wished_for(client: Client) -> None:
    async with aclosing(client.watch(PODS.within(), {}, (PROTOBUF, JSON))) as watch:
        assert await anext(watch) == (PROTOBUF, [])


@pytest.mark.parametrize("forms", [(JSON,), (PROTOBUF, JSON)])
async def test_a_refusal_says_the_same_in_both_forms(client: Client, forms: tuple[Form, ...]) -> None:
    with pytest.raises(ApiError, match=r'Invalid value: "soon".* \(500 Unknown\)'):
        await anext(client.watch(PODS.within(), {"resourceVersion": "soon"}, forms))
