"""The mock's processes, run as users run them, against a real API server."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.share import others_share
from tests.mock.pages import samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuyard.sandbox import Cluster

NAMESPACE = "gpuyard-mock"
RIGHTS = Path(__file__).parents[2] / "manifests" / "base" / "mock" / "rbac.yaml"


def eventually(
    check: Callable[[], object],
    within: float = 60,
    pause: float = 0.1,
    tolerate: type[Exception] | tuple[type[Exception], ...] = (),
) -> None:
    """Wait until the check holds, as long as it may take on this machine; what it last was is in the failure.

    A check that raises one of `tolerate` does not hold yet.
    """
    begin = time.monotonic()
    while True:
        try:
            if last := check():
                return
        except tolerate as error:
            last = error
        assert time.monotonic() - begin < within * others_share(), f"still {last!r} after {within} s and more"
        time.sleep(pause)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Daemon:
    """One process."""

    def __init__(self, module: str, kubeconfig: Path, log: Path, *arguments: str) -> None:
        self.ops_port = free_port()
        self.log = log
        command = [sys.executable, "-m", f"gpuyard.{module}", "--kubeconfig", str(kubeconfig)]
        command += ["--ops-host", "127.0.0.1", "--ops-port", str(self.ops_port), *arguments]
        with log.open("ab") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=stream)

    def ready(self) -> bool:
        """Whether it says so."""
        return self.problem() == ""

    def problem(self) -> str:
        """Why it is not ready; empty when it is."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.ops_port}/readyz", timeout=5).close()
        except urllib.error.HTTPError as refusal:
            return refusal.read().decode() or refusal.reason
        except OSError as error:
            return f"does not answer yet: {error}"
        return ""

    def memory(self) -> float:
        """MiB that it has in memory."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found
        return int(found[1]) / 1024

    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def stop(self) -> int:
        """End it politely; its exit code."""
        self.process.terminate()
        return self.process.wait(20)


class Mock:
    """The updater, gfd and the exporter for nodes without kubelet, on one cluster, with the rights that users get."""

    def __init__(self, cluster: Cluster, folder: Path, overlay: Path | None = None) -> None:
        self.cluster = cluster
        self.port = free_port()
        self.folder = folder
        if overlay is None:
            cluster.kubectl("create", "namespace", NAMESPACE)
            cluster.kubectl("apply", "-n", NAMESPACE, "-f", str(RIGHTS))
        else:
            cluster.kubectl("apply", "--validate=strict", "-k", str(overlay))
        self.arguments: dict[str, list[str]] = {
            "status_updater": [],
            "gfd": [],
            "dcgm_exporter": ["--node", "", "--host", "127.0.0.1", "--port", str(self.port)],
        }
        self.daemons = {module: self.start(module) for module in self.arguments}
        eventually(lambda: all(daemon.ready() for daemon in self.daemons.values()), within=60)

    def start(self, module: str) -> Daemon:
        """Start a process of the mock under its own account."""
        access = self.access(f"gpuyard-{module.replace('_', '-')}")
        return Daemon(module, access, self.folder / f"{module}.log", *self.arguments[module])

    def begin_anew(self, module: str) -> None:
        """End a process of the mock politely and start it again."""
        assert self.daemons[module].stop() == 0
        self.daemons[module] = self.start(module)

    def access(self, account: str) -> Path:
        """A kubeconfig of a service account."""
        path = self.folder / f"{account}.kubeconfig"
        if not path.exists():
            config = yaml.safe_load(self.cluster.kubeconfig.read_text())
            token = self.cluster.kubectl("create", "token", account, "-n", NAMESPACE, "--duration=6h").strip()
            config["users"][0]["user"] = {"token": token}
            path.write_text(yaml.safe_dump(config))
        return path

    def stop(self) -> None:
        """End them all."""
        for daemon in self.daemons.values():
            daemon.stop()

    def put(self, text: str, name: str = "topology") -> None:
        """Write a topology as a user would."""
        meta = {"name": name, "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"topology.yml": text}}
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body))

    def text(self, name: str = "topology") -> str:
        """The topology's text as it stands."""
        text: str = self.get("configmap", name, "-n", NAMESPACE)["data"]["topology.yml"]
        return text

    def get(self, *what: str) -> Any:  # noqa: ANN401 - whatever kubectl prints
        """What kubectl get says, decoded."""
        return json.loads(self.cluster.kubectl("get", *what, "-o", "json"))

    def usage(self) -> dict[str, dict[str, Any]]:
        """The metrics of each GPU that has some, by `node/index`."""
        nodes = yaml.load(self.text(), Loader=yaml.CSafeLoader)["nodes"]
        return {
            f"{name}/{index}": gpu["metrics"]
            for name, node in nodes.items()
            for index, gpu in enumerate(node["gpus"])
            if "metrics" in gpu
        }

    def scrape(self) -> str:
        """What Prometheus would read."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    def series(self, name: str = "DCGM_FI_DEV_GPU_UTIL") -> dict[tuple[str, str], dict[str, str]]:
        """The labels of each series of a family, by node and GPU."""
        return {(labels["Hostname"], labels["gpu"]): labels for labels, _ in samples(self.scrape()).get(name, [])}

    def gpus_of(self, node: str) -> tuple[str | None, str | None]:
        """Capacity and allocatable of a node."""
        status = self.get("node", node)["status"]
        return status["capacity"].get("nvidia.com/gpu"), status["allocatable"].get("nvidia.com/gpu")

    def events(self, reason: str) -> list[str]:
        """The notes of all events with a reason."""
        return [event["message"] for event in self.get("events", "-A")["items"] if event["reason"] == reason]

    def writes(self) -> Iterator[dict[str, Any]]:
        """Everything that the audit log says was written by the updater or gfd to maps and nodes."""
        for line in self.cluster.audit_log.read_text().splitlines():
            entry = json.loads(line)
            agent = entry.get("userAgent", "")
            ours = agent.startswith(("gpuyard-status-updater", "gpuyard-gfd"))
            resource = entry.get("objectRef", {}).get("resource")
            if (
                ours
                and resource in {"configmaps", "nodes"}
                and entry["verb"] in {"patch", "update", "create", "delete"}
            ):
                yield entry


def a_pod(name: str, gpus: int = 1, *, node: str = "", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod that asks for GPUs and ends within a second of being told."""
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
    }
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": spec,
    }


def topology(nodes: dict[str, int], product: str = "Tesla-K80", memory: int = 11441) -> str:
    """A topology of some nodes with so many GPUs each."""
    lines = ["mig-strategy: mixed", "nodes:"]
    for name, count in nodes.items():
        lines += [f"  {name}:", f"    gpu-memory: {memory}", f"    gpu-product: {product}", "    gpus:"]
        lines += [f"      - id: GPU-{name}-{index}  # number {index}" for index in range(count)]
    return "\n".join(lines) + "\n"
