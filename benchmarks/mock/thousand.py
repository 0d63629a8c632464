"""The updater's work for a thousand nodes of eight GPUs with maps of their own, a pod on each GPU; no API server."""

import resource
from collections.abc import Callable

import msgspec
from gpuyard.common.kube.changes import Batch, Change
from gpuyard.common.kube.objects import Meta
from gpuyard.common.topology.cluster_node import ClusterNode
from gpuyard.common.topology.maps import ConfigMap, Maps
from gpuyard.status_updater.desk import Desk
from gpuyard.status_updater.pods import Pod

from benchmarks.measure import Figure, at_least, at_most, in_loops

NODES = 1000
PER_NODE = 8
POOL = f"nodePools: {{all: {{gpuProduct: Tesla-K80, gpuMemory: 11441, gpuCount: {PER_NODE}}}}}\nnodePoolLabelKey: pool"
_POD = msgspec.json.Decoder(Pod)


class Cluster:
    """What the caches of the updater hold, and a place for what it writes."""

    def __init__(self) -> None:
        self.maps = Maps()
        labels = {"pool": "all"}
        self.desk = Desk(self.maps, {f"node-{n}": ClusterNode(Meta(f"node-{n}", labels=labels)) for n in range(NODES)})
        self.put("topology", POOL, {}, 0)

    def put(self, name: str, text: str, labels: dict[str, str], version: int) -> None:
        """A map that comes by the watch."""
        new = ConfigMap(Meta(name=name, labels=labels, resource_version=str(version)), {"topology.yml": text})
        self.maps.take(Batch([Change(None, new)]))
        self.desk.touch_map(new)

    def settle(self) -> None:
        """Rounds until nothing is due any more."""
        while self.desk.touched:
            due = self.desk.due()
            for name, body in due.create.items():
                self.put(name, body["data"]["topology.yml"], body["metadata"]["labels"], 1)
            for name, (text, version) in due.texts.items():
                labels = self.maps.sheets[name].found.metadata.labels or {}
                self.put(name, text, labels, int(version) + 1)

    def used(self) -> int:
        """How many GPUs somebody has."""
        return sum(not usage.idle for node in self.maps.nodes().values() for _, usage in node.devices())


def pod(number: int) -> Pod:
    """A running pod with one GPU."""
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeName": f"node-{number % NODES}", "containers": [container]}
    meta = {"name": f"p{number}", "namespace": "ns", "uid": str(number), "creationTimestamp": f"{number:09}"}
    return _POD.decode(msgspec.json.encode({"metadata": meta, "spec": spec, "status": {"phase": "Running"}}))


def filling(cluster: Cluster) -> Callable[[], None]:
    """All pods come; those of the run before have gone."""

    def fill() -> None:
        for pods in cluster.desk.pods.values():
            pods.clear()
        cluster.desk.touch_all()
        cluster.settle()
        for number in range(NODES * PER_NODE):
            cluster.desk.take_pod(None, pod(number))
        cluster.settle()

    return fill


def figures() -> list[Figure]:
    """Calibration loops until all is written, and the memory that it took."""
    cluster = Cluster()
    cluster.settle()
    loops = in_loops(filling(cluster), 1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    how = f"{NODES} nodes x {PER_NODE} GPUs, {NODES * PER_NODE} pods, a map each, no API server"
    return [
        Figure("updater: pods attributed", cluster.used(), at_least(NODES * PER_NODE), "pods", how),
        Figure("updater: every pod gone, every pod come", loops, None, "loops", how),
        Figure("updater: memory", memory, at_most(300), "MiB", how),
    ]
