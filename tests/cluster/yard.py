"""A sandbox whose kube-scheduler asks the extender, and how tests speak with it."""

from __future__ import annotations

import json
import time
import urllib.request
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpuyard.common import tokens
from gpuyard.sandbox.demo.stage import extender_port, extender_token

from tests.cluster.share import others_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuyard.sandbox import Cluster

Json = dict[str, Any]

FEW = 10
"""So many of the waiting pods are told of when a test fails."""


def headers(cluster: Cluster) -> dict[str, str]:
    """What kube-scheduler sends with each call, the token included."""
    shown = tokens.authorization(extender_token(cluster)).decode()
    return {"Content-Type": "application/json", "Authorization": shown}


class Yard:
    """The extender's sandbox seen from one namespace; `prefix` keeps the queues of tests apart."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._kubectl = cluster.kubectl

    # --- objects ---

    def apply(self, *things: Json) -> None:
        """Create or change objects, as somebody with kubectl would."""
        self._kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))

    def queue(self, name: str, limit: float = -1, quota: float = -1, **spec: object) -> str:
        """A queue of this test; its full name."""
        full = f"{self.namespace}-{name}"
        gpu = {"limit": limit, "quota": quota}
        self.apply(
            {
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": {"name": full},
                "spec": {"resources": {"gpu": gpu}, **spec},
            }
        )
        return full

    def pod(self, name: str, queue: str = "", gpus: int = 1, **more: Any) -> Json:  # noqa: ANN401 - parts of a Pod
        """A pod of this test, as it would be submitted."""
        limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
        spec = {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "pause", "resources": limits}],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {"kai.scheduler/queue": queue} if queue else {},
                "annotations": more.pop("annotations", {}),
            },
            "spec": spec | more,
        }

    def submit(self, *names: str, queue: str = "", gpus: int = 1, **more: Any) -> None:  # noqa: ANN401
        """Create pods."""
        self.apply(*(self.pod(name, queue, gpus, **more) for name in names))

    def delete(self, *pods: str) -> None:
        """Delete pods; returns when they are gone."""
        self._kubectl("delete", "pods", "--namespace", self.namespace, *pods)

    # --- looking ---

    def pods(self) -> dict[str, Json]:
        """The pods of this test by name."""
        found = json.loads(self._kubectl("get", "pods", "--namespace", self.namespace, "-o", "json"))
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

    def one(self, name: str) -> Json:
        """A pod of this test."""
        found: Json = json.loads(self._kubectl("get", "pod", name, "--namespace", self.namespace, "-o", "json"))
        return found

    def placed(self) -> set[str]:
        """The pods that have a node."""
        return {name for name, pod in self.pods().items() if pod["spec"].get("nodeName")}

    def verdicts(self) -> dict[str, str]:
        """kube-scheduler's message for each pod that it could not place."""
        return {name: said["message"] for name, pod in self.pods().items() if (said := _refused(pod))}

    def until(self, holds: Callable[[], bool], within: float, what: str) -> float:
        """Wait until something holds, as long as it may take on this machine; the seconds it took, or a sentence."""
        begin = time.monotonic()
        while not holds():
            waited, may_take = time.monotonic() - begin, within * others_share()
            assert waited < may_take, (
                f"not within {may_take:.0f} s: {what}; {dict(islice(self.verdicts().items(), FEW))}"
            )
            time.sleep(0.1)
        return time.monotonic() - begin

    def rests(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Something holds, and goes on to hold for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert holds(), f"no longer so: {what}"
            time.sleep(0.2)

    def audit(self, verb: str, resource: str, **fields: str) -> Iterator[Json]:
        """What the API server was asked with this verb about objects of this test's namespace."""
        for line in self.cluster.audit_log.read_text().splitlines():
            event = json.loads(line)
            about = event.get("objectRef", {})
            if (event["verb"], about.get("resource"), about.get("namespace")) != (verb, resource, self.namespace):
                continue
            if all(about.get(name) == value for name, value in fields.items()):
                yield event

    # --- the extender ---

    def ask(self, verb: str, body: Json | bytes) -> Any:  # noqa: ANN401 - JSON
        """Call a verb as kube-scheduler does."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = f"http://127.0.0.1:{extender_port(self.cluster)}/scheduler/{verb}"
        request = urllib.request.Request(url, content, headers(self.cluster))
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - ours
            assert response.status == 200
            return json.loads(response.read())

    def page(self) -> str:
        """The extender's page for Prometheus."""
        url = f"http://127.0.0.1:{extender_port(self.cluster) + 1}/metrics"
        with urllib.request.urlopen(url, timeout=5) as response:
            text: str = response.read().decode()
        return text

    def metrics(self) -> dict[str, float]:
        """What the extender tells Prometheus, by series."""
        lines = (line for line in self.page().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def filter(self, pod: Json, *nodes: str) -> Any:  # noqa: ANN401 - JSON
        """Ask `filter` about a pod by node names; without any, about all four."""
        names = list(nodes or (f"node-{number}" for number in range(1, 5)))
        return self.ask("filter", {"Pod": pod, "Nodes": None, "NodeNames": names})


def _refused(pod: Json) -> Json | None:
    conditions: list[Json] = pod["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), None)
