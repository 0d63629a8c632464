"""A kind cluster with the mock on its worker: what users see of it, and what kubelet itself says."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import yaml

from tests.mock.daemons import NAMESPACE, eventually
from tests.mock.pages import samples

if TYPE_CHECKING:
    from gpuyard.sandbox import kind

GPU = "nvidia.com/gpu"
G1, G2 = "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1", "GPU-kdiue726-57ef-91f0-837f-qjk49djklsk8"
PLUGINS = "/var/lib/kubelet/device-plugins"
UNHEALTHY = "\n        health: unhealthy"
IDLE = """\
mig-strategy: mixed
nodes:
  {node}:  # the worker
    gpu-memory: 11441
    gpu-product: Tesla-K80{extra}
    gpus:
      - id: {g1}{first}
      - id: {g2}{second}
"""
HELD = """\
import asyncio, json, grpc
from gpuyard.device_plugin import rpc
from gpuyard.device_plugin.kubelet import POD_RESOURCES

async def held():
    async with grpc.aio.insecure_channel(f"unix:{POD_RESOURCES}") as channel:
        listed = await rpc.pod_resources(channel, 5)
    return {
        device: f"{pod.name}/{container.name}"
        for pod in listed.pod_resources
        for container in pod.containers
        for given in container.devices
        for device in given.device_ids
    }
"""
Owners = dict[str, str]
"""`pod/container` by device."""


class Yard:
    """The cluster. Pods go to the worker, which the topology gives two GPUs."""

    def __init__(self, cluster: kind.Cluster) -> None:
        self.cluster = cluster
        self.kubectl = cluster.kubectl
        self.node = next(node for node in cluster.nodes if node.endswith("worker"))
        self.other = next(node for node in cluster.nodes if node.endswith("control-plane"))

    # ---- the topology

    def text(self, first: str = "", second: str = "", extra: str = "") -> str:
        """Two GPUs on the worker."""
        return IDLE.format(node=self.node, g1=G1, g2=G2, first=first, second=second, extra=extra)

    def put(self, text: str) -> None:
        """Write a topology as a user would."""
        meta = {"name": "topology", "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"topology.yml": text}}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body))

    def break_down(self, fault: str) -> None:
        """Switch a fault on; an unhealthy second GPU, which comes with it, shows when the plugin knows."""
        self.put(self.text(second=UNHEALTHY, extra=f"\n    faults: [{fault}]"))
        eventually(lambda: self.gpus() == ("2", "1"))

    def mend(self) -> None:
        """Two healthy GPUs and no fault."""
        self.put(self.text())
        eventually(lambda: self.gpus() == ("2", "2"), within=15)

    def written(self) -> str:
        """The topology's text as it stands."""
        text: str = self.get("configmap", "topology", "-n", NAMESPACE)["data"]["topology.yml"]
        return text

    def usage(self) -> dict[str, Any]:
        """What stands in the topology about each GPU that is used."""
        nodes = yaml.load(self.written(), Loader=yaml.CSafeLoader)["nodes"]
        return {
            gpu.get("id", ""): gpu["metrics"] for node in nodes.values() for gpu in node["gpus"] if "metrics" in gpu
        }

    # ---- who has which GPU, by each that says so

    def told(self) -> Owners:
        """The topology's word."""
        owners = {device: usage["metadata"] for device, usage in self.usage().items()}
        return {device: f"{owner['pod']}/{owner['container']}" for device, owner in owners.items()}

    def given(self, name: str) -> dict[str, list[str]]:
        """A pod's status: its devices by container."""
        return _given(self.get("pod", name))

    def stated(self) -> Owners:
        """All pods' status, of those that have not ended."""
        pods = [pod for pod in self.get("pods")["items"] if pod["status"]["phase"] in {"Pending", "Running"}]
        return {
            device: f"{pod['metadata']['name']}/{container}"
            for pod in pods
            for container, devices in _given(pod).items()
            for device in devices
        }

    def held(self) -> Owners:
        """Kubelet's word, by its pod resources socket."""
        found: Owners = json.loads(self.inside("device-plugin", f"{HELD}print(json.dumps(asyncio.run(held())))"))
        return found

    def shown(self) -> Owners:
        """The metrics' word."""
        return owners_of(self.scrape())

    # ---- the cluster

    def get(self, *what: str) -> Any:  # noqa: ANN401 - whatever kubectl prints
        """What kubectl get says, decoded."""
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def gpus(self, resource: str = GPU, node: str = "") -> tuple[str, str]:
        """Capacity and allocatable, of the worker if no node is named; empty where there is no such resource."""
        status = self.get("node", node or self.node)["status"]
        return status["capacity"].get(resource, ""), status["allocatable"].get(resource, "")

    def labels(self, node: str = "") -> dict[str, str]:
        """A node's labels."""
        found: dict[str, str] = self.get("node", node or self.node)["metadata"]["labels"]
        return found

    def of(self, component: str, node: str = "") -> dict[str, Any]:
        """The pod of a DaemonSet on a node, the worker if none is named."""
        where = f"--field-selector=spec.nodeName={node or self.node}"
        chosen = ("-l", f"app.kubernetes.io/component={component}", where)
        [found] = self.get("pods", "-n", NAMESPACE, *chosen)["items"]
        return dict(found)

    def lives(self, *components: str) -> list[tuple[str, int]]:
        """What changes when a component's pod or process on the worker begins anew."""
        pods = [self.of(component) for component in components]
        return [(pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in pods]

    def scrape(self, node: str = "") -> dict[str, list[tuple[dict[str, str], float]]]:
        """What a node's exporter serves, asked from inside: pod addresses are not reachable from here."""
        code = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9400/metrics').read().decode())"
        return samples(self.inside("dcgm-exporter", code, node))

    def inside(self, component: str, code: str, node: str = "") -> str:
        """What some Python prints in a component's pod."""
        name = self.of(component, node)["metadata"]["name"]
        return self.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", code)

    def pod(self, name: str, gpus: int = 1, **spec: object) -> None:
        """A pod on the worker that asks for GPUs."""
        container = {
            "name": "c",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"limits": {GPU: str(gpus)}},
        }
        wanted = {
            "nodeName": self.node,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "automountServiceAccountToken": False,
            **spec,
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": wanted}
        self.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def phase(self, name: str) -> str:
        """A pod's phase."""
        return str(self.get("pod", name)["status"]["phase"])

    # ---- the worker's machine

    def on_node(self, *command: str) -> str:
        """Run a command on the worker's machine."""
        return self.cluster.docker.ask("exec", self.node, *command)

    def kubelets_socket(self) -> float:
        """When kubelet's socket was made; zero while there is none."""
        return float(self.on_node("sh", "-c", f"stat -c %.9Z {PLUGINS}/kubelet.sock || echo 0"))

    def registrations(self) -> list[float]:
        """When a plugin was registered with kubelet, by its log; read from the disk, as kubelet may be away."""
        files = f"/var/log/pods/{NAMESPACE}_gpuyard-device-plugin-*/device-plugin/*.log"
        lines = self.on_node("sh", "-c", f'grep -h \'"event":"registered"\' {files} || true').splitlines()
        told = [json.loads(line[line.index("{") :]) for line in lines]
        times = [datetime.fromisoformat(each["timestamp"]) for each in told if each["resource"] == GPU]
        return sorted(time.timestamp() for time in times)


def owners_of(scraped: dict[str, list[tuple[dict[str, str], float]]]) -> Owners:
    """Who is named in a scrape."""
    found = [labels for labels, _ in scraped["DCGM_FI_DEV_GPU_UTIL"]]
    return {labels["UUID"]: f"{labels['pod']}/{labels['container']}" for labels in found if "pod" in labels}


def _given(pod: dict[str, Any]) -> dict[str, list[str]]:
    return {
        status["name"]: [d["resourceID"] for r in status.get("allocatedResourcesStatus", ()) for d in r["resources"]]
        for status in pod["status"].get("containerStatuses", ())
    }
