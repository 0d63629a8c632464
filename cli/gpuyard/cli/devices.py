"""`gpuyard doctor`: do the nodes offer the GPUs that they have, and is nothing left of a mock that is gone?"""

from collections.abc import Iterator

import msgspec
from gpuyard.cli import remains
from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.patient import Patient, condition
from gpuyard.cli.removal import HALVES
from gpuyard.common.kube.client import Json, Selector
from gpuyard.common.kube.resources import NODES, PODS
from gpuyard.common.node_labels import LabelledNode, owned
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.common.topology.reading import MOCK_LABEL
from gpuyard.common.topology.resources import is_gpu

MOCKED = "the mock runs"
OFFERED = "nodes offer their GPUs"
REST = "nothing is left on nodes"

UPDATER = Selector(labels="app.kubernetes.io/component=status-updater")
_PRESENT = {MOCK_LABEL: "true", "nvidia.com/gpu.present": "true"}
"""Labels of nodes that have GPUs, whoever offers them."""


async def mocked(patient: Patient) -> list[Finding]:
    """Processes of the mock that do not run; nothing where there is no mock."""
    pods = patient.within(HALVES["mock"])
    waiting = [pod for pod in pods if condition(pod, "Ready").get("status") != "True"]
    remedy = f"`kubectl describe pods -n {HALVES['mock']}` says why; their logs say more"
    found = [Finding(MOCKED, Status.FAIL, f"pod {pod['metadata']['name']} is not ready", remedy) for pod in waiting]
    return found or ([Finding(MOCKED, Status.OK, f"{len(pods)} pods of it are ready")] if pods else [])


async def offered(patient: Patient) -> list[Finding]:
    """Nodes whose device plugin has not registered, and GPUs that are not healthy."""
    nodes = await patient.client.items(NODES.within())
    found = [finding for node in nodes for finding in _of_node(node)]
    gpus = sum(sum(_gpus(node, "allocatable").values()) for node in nodes)
    if not found and not gpus:
        remedy = "install NVIDIA's device plugin, or the mock: docs/mock.md"
        return [Finding(OFFERED, Status.WARN, "no node offers a GPU", remedy)]
    having = sum(any(_gpus(node, "allocatable").values()) for node in nodes)
    return found or [Finding(OFFERED, Status.OK, f"{gpus} GPUs on {having} nodes")]


def _of_node(node: Json) -> Iterator[Finding]:
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    have, offer = _gpus(node, "capacity"), _gpus(node, "allocatable")
    if any(labels.get(key) == value for key, value in _PRESENT.items()) and not any(have.values()):
        remedy = "look whether the device plugin's pod runs there: kubelet offers what a plugin registers"
        yield Finding(OFFERED, Status.FAIL, f"node {name}: its labels say that it has GPUs, and it offers none", remedy)
    for resource, count in have.items():
        if (left := offer.get(resource, 0)) < count:
            remedy = "the device plugin calls the others unhealthy: its log says why"
            yield Finding(OFFERED, Status.WARN, f"node {name}: offers {left} of {count} {resource}", remedy)


def _gpus(node: Json, field: str) -> dict[str, int]:
    given = (node.get("status") or {}).get(field) or {}
    return {name: int(count) for name, count in given.items() if is_gpu(name) and str(count).isdecimal()}


async def left_behind(patient: Patient) -> list[Finding]:
    """What a mock that was deleted has left on nodes."""
    found = {}
    if not await patient.items(PODS, HALVES["mock"], UPDATER):
        for item in await patient.client.items(NODES.within()):
            labels = owned(msgspec.convert(item, LabelledNode))
            found[item["metadata"]["name"]] = remains.told(msgspec.convert(item, ClusterNode), labels)
    remedy = "it is of a mock that is gone: `gpuyard uninstall mock` takes it away"
    left = [Finding(REST, Status.FAIL, f"node {name}: {what}", remedy) for name, what in found.items() if what]
    return left or [Finding(REST, Status.OK, "no labels or resources of a mock that is gone")]
