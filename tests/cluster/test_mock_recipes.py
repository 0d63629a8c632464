"""The recipes as a reader would follow them: every block typed, on KWOK nodes, and what they promise is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import Spec, down, up

from tests.documents.blocks import RECIPES, Block, blocks
from tests.mock.daemons import NAMESPACE, Mock, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]

GPU = "nvidia.com/gpu"
NODES = 20
"""Where the recipe has a thousand; what is shown is that the commands do it."""


class Reader:
    """Somebody with a shell, an empty folder, and a cluster with the mock."""

    def __init__(self, mock: Mock, folder: Path) -> None:
        self.mock = mock
        self.folder = folder
        kubectl = folder / "kubectl"
        kubectl.symlink_to(mock.cluster.program("kubectl"))
        places = [str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]
        more = {"PATH": ":".join(places), "KUBECONFIG": str(mock.cluster.kubeconfig), "HOME": str(folder)}
        self.environment = os.environ | more

    def follow(self, section: str) -> str:
        """Do what a recipe says, in its order; what the last shell block printed."""
        printed = ""
        for block in blocks(RECIPES):
            if block.section == section:
                printed = self._do(block)
        return printed

    def _do(self, block: Block) -> str:
        if block.language == "yaml":
            (self.folder / block.file).write_text(block.text)
            return ""
        return self.type(block.text.replace("seq 1000", f"seq {NODES}"))

    def type(self, text: str) -> str:
        """What a shell prints; it must not fail."""
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stderr}"
        return done.stdout

    def gpus(self, *nodes: str) -> list[dict[str, Any]]:
        """What `gpuyard gpu list` says."""
        found: list[dict[str, Any]] = json.loads(self.type(f"gpuyard gpu list -o json {' '.join(nodes)}"))
        return found

    def status(self, node: str) -> dict[str, str]:
        """What a node offers."""
        found: dict[str, str] = self.mock.get("node", node)["status"]["allocatable"]
        return found

    def busy(self) -> dict[str, int]:
        """How many GPUs each pod has."""
        pods = [row["pod"] for row in self.gpus() if row.get("pod")]
        return {pod: pods.count(pod) for pod in pods}


@pytest.fixture(scope="module")
def mock(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mock]:
    """A sandbox of two nodes, with the mock running."""
    cluster = up(Spec(name=next(sandbox_names), nodes=2, gpus=0))
    try:
        running = Mock(cluster, tmp_path_factory.mktemp("mock"))
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        yield running
        running.stop()
    finally:
        down(cluster.name)


@pytest.fixture
def reader(mock: Mock, tmp_path: Path) -> Iterator[Reader]:
    """A reader who cleans up afterwards."""
    yield Reader(mock, tmp_path)
    mock.cluster.kubectl("delete", "jobs", "--all")
    mock.cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    mock.cluster.kubectl("delete", "configmaps", "--all", "-n", NAMESPACE)
    mock.cluster.kubectl("delete", "nodes", "-l", "type=kwok,pool")
    mock.cluster.kubectl("label", "node", "node-1", "pool-")
    eventually(lambda: mock.gpus_of("node-1") == (None, None))


def ten(reader: Reader) -> None:
    reader.follow("Ten GPUs on a laptop")
    eventually(lambda: [reader.status(node).get(GPU) for node in ("node-1", "node-2")] == ["8", "2"])


def test_ten_gpus_on_a_laptop(reader: Reader) -> None:
    ten(reader)
    eventually(lambda: sorted(reader.busy().values()) == [2] * 4, within=60)
    assert len(reader.gpus("node-2")) == 2


def test_break_a_gpu_and_mend_it(reader: Reader) -> None:
    ten(reader)
    reader.type("gpuyard gpu fail node-1/0")
    eventually(lambda: reader.status("node-1")[GPU] == "7")
    reader.follow("Break a GPU, and mend it")
    eventually(lambda: reader.status("node-1")[GPU] == "8")
    assert {row["health"] for row in reader.gpus()} == {"healthy"}


def test_break_a_node(reader: Reader) -> None:
    ten(reader)
    reader.type("gpuyard gpu set node-1 'faults=[allocate-error]'")
    assert "allocate-error" in reader.mock.text()
    reader.follow("Break a node")
    assert "faults" not in reader.mock.text()


def test_a_days_utilisation(reader: Reader) -> None:
    ten(reader)
    reader.follow("A day's utilisation")
    eventually(
        lambda: [60 <= row["utilization"] <= 90 for row in reader.gpus() if row.get("pod") == "day"] == [True],
        within=40,
    )


def test_parts_of_a_gpu(reader: Reader) -> None:
    ten(reader)
    reader.follow("Parts of a GPU")
    eventually(
        lambda: [row["memory_used"] for row in reader.gpus() if row.get("pod") == "half"] == [81559 // 2], within=40
    )


def test_mig(reader: Reader) -> None:
    reader.follow("MIG")
    wanted = {"nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-2g.10gb": "1", GPU: "1"}
    eventually(lambda: reader.status("node-1").items() >= wanted.items())


def test_a_thousand_nodes(reader: Reader) -> None:
    reader.follow("A thousand nodes")
    eventually(lambda: len(reader.gpus()) == 8 * NODES, within=60)
    eventually(lambda: reader.status(f"kwok-{NODES}").get(GPU) == "8", within=60)


def test_under_another_scheduler(reader: Reader) -> None:
    ten(reader)
    eventually(lambda: sorted(reader.busy().values()) == [2] * 4, within=60)
    free = next(row["node"] for row in reader.gpus() if not row.get("pod"))
    reader.follow("Under another scheduler")
    assert "nodeName" not in reader.mock.get("pod", "other")["spec"]
    # Here nobody is called so: this is what a scheduler of that name would do.
    target = {"apiVersion": "v1", "kind": "Node", "name": free}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "other"}, "target": target}
    reader.mock.cluster.kubectl("create", "--raw", "/api/v1/namespaces/default/pods/other/binding", "-f", "-",
                                stdin=json.dumps(binding))  # fmt: skip
    eventually(lambda: [row["node"] for row in reader.gpus() if row.get("pod") == "other"] == [free], within=40)


THEIRS = {
    "topology": {
        "topology.yml": "nodePools:\n  default: {gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441}\n"
        "  large: {gpu: {backend: fake, profile: h100, overrides: {device_count: 4}}}\n"
        "nodePoolLabelKey: run.ai/simulated-gpu-node-pool\nmigStrategy: mixed\n"
    },
    "gpu-profile-h100": {
        "profile.yaml": 'version: "1.0"\nsystem: {driver_version: "550.163.01", cuda_version: "12.4"}\n'
        "device_defaults: {name: NVIDIA H100 80GB HBM3, memory: {total_bytes: 85899345920}}\n"
        "devices: [{index: 0, uuid: GPU-0}, {index: 1}]\n"
    },
    "topology-node-1": {
        "topology.yml": "gpuMemory: 16384\ngpuProduct: Tesla-T4\ngpus: [{id: GPU-theirs, numaNode: 0, status: "
        '{allocatedBy: {namespace: "", pod: "", container: ""}, podGpuUsageStatus: {}}}]\nmigStrategy: mixed\n'
    },
    "something-else": {"topology.yml": "no topology"},
}


def test_coming_from_fake_gpu_operator(reader: Reader) -> None:
    kubectl = reader.mock.cluster.kubectl
    kubectl("create", "namespace", "gpu-operator")
    made = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "gpu-operator"}, "data": data}
        for name, data in THEIRS.items()
    ]
    kubectl("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, made)))
    kubectl("label", "node", "node-2", "run.ai/simulated-gpu-node-pool=large")
    try:
        reader.follow("Coming from fake-gpu-operator")
        eventually(lambda: [reader.status(node).get(GPU) for node in ("node-1", "node-2")] == ["1", "4"], within=60)
        rows = {(row["id"] if row["node"] == "node-1" else row["product"]) for row in reader.gpus()}
        assert rows == {"GPU-theirs", "NVIDIA H100 80GB HBM3"}
    finally:
        kubectl("label", "node", "node-2", "run.ai/simulated-gpu-node-pool-")
        kubectl("delete", "namespace", "gpu-operator", "--wait=false")


def test_a_gpu_model_of_your_own(reader: Reader) -> None:
    reader.follow("A GPU model of your own")
    eventually(lambda: reader.status("node-1").get(GPU) == "8")
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.family": "hopper"}
    eventually(lambda: reader.mock.get("node", "node-1")["metadata"]["labels"].items() >= labels.items())
