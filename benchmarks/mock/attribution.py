"""The updater's work per pod event: attribution of one node, and the text of a map of many."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import msgspec
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.kube.objects import Meta
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.common.topology.maps import ConfigMap, Maps
from gpuyard.status_updater.desk import Desk
from gpuyard.status_updater.pods import Pod

from benchmarks.measure import Figure, at_most, in_loops

NODES = 100
PER_NODE = 8
EVENTS = 1000
_POD = msgspec.json.Decoder(Pod)


def topology() -> str:
    """A hundred nodes of eight GPUs in one map."""
    lines = ["nodes:"]
    for n in range(NODES):
        lines += [f"  node-{n}:", "    gpu-memory: 11441", "    gpu-product: Tesla-K80", "    gpus:"]
        lines += [f"      - id: GPU-{n}-{i}" for i in range(PER_NODE)]
    return "\n".join(lines) + "\n"


def pod(number: int) -> Pod:
    """A running pod with one GPU."""
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeName": f"node-{number % NODES}", "containers": [container]}
    meta = {"name": f"p{number}", "namespace": "ns", "uid": str(number), "creationTimestamp": f"{number:09}"}
    return _POD.decode(msgspec.json.encode({"metadata": meta, "spec": spec, "status": {"phase": "Running"}}))


@dataclass(slots=True)
class Stream:
    """A desk, and pods that come and go: two events for each, so that 400 of 800 GPUs are busy at any time."""

    desk: Desk
    pods: dict[int, Pod]
    numbers: "count[int]"

    def second(self) -> None:
        """A thousand events, and two rounds of the updater."""
        for _ in range(2):
            for _ in range(EVENTS // 4):
                self._one()
            due = self.desk.due()
            for name, (text, version) in due.texts.items():
                new = ConfigMap(Meta(name=name, resource_version=str(int(version) + 1)), {"topology.yml": text})
                self.desk.maps.take(Batch([Change(None, new)]))
                self.desk.touch_all()

    def _one(self) -> None:
        number = next(self.numbers)
        new = self.pods[number] = pod(number)
        self.desk.take_pod(None, new)
        if (old := self.pods.pop(number - NODES * 4, None)) is not None:
            self.desk.take_pod(old, None)


def stream() -> Callable[[], None]:
    """A stream that has run for a while."""
    maps = Maps()
    first = ConfigMap(Meta(name="topology", resource_version="1"), {"topology.yml": topology()})
    maps.take(Batch([Change(None, first)]))
    nodes = {f"node-{n}": ClusterNode(Meta(name=f"node-{n}")) for n in range(NODES)}
    made = Stream(Desk(maps, nodes), {}, count())
    made.second()
    return made.second


def figures() -> list[Figure]:
    """Calibration loops for one second of the stream."""
    return [
        Figure(
            "updater: 1,000 pod events on 100 nodes, 2 rounds", in_loops(stream(), 3), at_most(2.6), "loops",
            "attribution, text of one map of 800 GPUs, no API server; 2.6 loops are the second it has",
        )
    ]  # fmt: skip
