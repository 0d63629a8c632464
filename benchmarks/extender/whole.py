"""A real cluster of 500 KWOK nodes from empty to full, one GPU taken back, small pods moved together for 41 gangs.

Seconds from the first pod submitted until the last one is bound, by the default kube-scheduler: beside them what KAI
Scheduler publishes of the same three, on machines of its own. They say how far apart the two are, not who is faster.
"""

import time
from collections.abc import Callable, Iterable

from gpuyard.sandbox import Cluster, down
from gpuyard.sandbox.demo.stage import set_up

from benchmarks.measure import Figure
from tests.cluster.crowd import creating, deleting, send
from tests.cluster.planner import with_settings
from tests.cluster.yard import Json, Yard

NODES = 500
GPUS = 8
QUEUES = 20
SPARSE = 410
"""Nodes on which one pod is left, so that each has to move for one member of a gang."""

LEFT = 3
"""Pods that are left on each of the other nodes: beside them is room for all that move."""

GANGS, SIZE = 41, 10
PUBLISHED = {"fill": 398, "reclaim": 13.9, "consolidate": 456}
WITHIN = 1800
NAME = "bench-whole"

UNBOUNDED = "consolidation: {maxMoved: -1}"
"""Who is to be moved for ten whole nodes are ten pods or thirty: as they happen to stand."""


class Whole:
    """The cluster, and what is submitted to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.yard = Yard(cluster, "default")
        self.queues = [self.yard.queue(f"q{number}", quota=0) for number in range(QUEUES)]
        self.own = self.yard.queue("own", quota=GPUS)
        self.many = self.yard.queue("many")

    def send(self, things: Iterable[Json], how: Callable[[Json], object] = creating) -> None:
        """Create or delete pods, as fast as the API server takes them."""
        send(self.yard.cluster.kubeconfig, map(how, things))  # type: ignore[arg-type]

    def bound(self) -> float:
        """The pods that stand on nodes, by the extender's own count."""
        return self.yard.metrics().get('gpuyard_ledger_pods{phase="Bound"}', 0)

    def waits(self) -> float:
        """The pods that wait, let through or not."""
        told = self.yard.metrics()
        return sum(told.get(f'gpuyard_ledger_pods{{phase="{phase}"}}', 0) for phase in ("Pending", "Reserved"))

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait, looking seldom: to look takes time from those that are measured."""

        def looked() -> bool:
            time.sleep(0.4)
            return holds()

        self.yard.until(looked, WITHIN, what)

    # --- the three ---

    def fill(self) -> float:
        """4,000 pods of one GPU each onto an empty cluster."""
        pods = [self.yard.pod(f"fill-{n}", self.queues[n % QUEUES]) for n in range(NODES * GPUS)]
        begin = time.monotonic()
        self.send(pods)
        self.until(lambda: self.bound() >= len(pods), "the cluster is full")
        return time.monotonic() - begin

    def reclaim(self) -> float:
        """One GPU back for a queue within its quota."""
        begin = time.monotonic()
        self.yard.submit("own", queue=self.own)
        self.yard.until(lambda: bool(self.yard.one("own")["spec"].get("nodeName")), WITHIN, "it has its GPU")
        return time.monotonic() - begin

    def thin_out(self) -> None:
        """Leave a single pod on most nodes, and room for all of these on the others."""
        by_node: dict[str, list[Json]] = {}
        for pod in self.yard.pods().values():
            # The one that had to go may still be going.
            if "deletionTimestamp" not in pod["metadata"] and "nodeName" in pod["spec"]:
                by_node.setdefault(pod["spec"]["nodeName"], []).append(pod)
        kept = [1] * SPARSE + [LEFT] * (NODES - SPARSE)
        gone = [pod for pods, keep in zip(by_node.values(), kept, strict=True) for pod in pods[keep:]]
        left = sum(map(len, by_node.values())) - len(gone)
        self.send(gone, deleting)
        self.until(lambda: self.bound() == left, "the cluster is nearly empty")

    def consolidate(self) -> float:
        """41 gangs of ten pods that need whole nodes: for each member somebody has to move."""
        for number in range(GANGS):
            meta = {"name": f"gang-{number}", "namespace": "default"}
            spec = {"minMember": SIZE, "queue": self.many}
            self.yard.apply(
                {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}
            )
        names = [(f"gang-{number}", member) for number in range(GANGS) for member in range(SIZE)]
        pods = [
            self.yard.pod(f"{gang}-{n}", self.many, GPUS, annotations={"pod-group-name": gang}) for gang, n in names
        ]
        before = self.bound()
        begin = time.monotonic()
        self.send(pods)
        self.until(lambda: self.bound() >= before + len(pods) and not self.waits(), "all gangs run")
        return time.monotonic() - begin


def measured(cluster: Cluster) -> dict[str, float]:
    """The seconds of the three, one after the other."""
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    whole = Whole(cluster)
    found = {"fill": whole.fill(), "reclaim": whole.reclaim()}
    whole.thin_out()
    return found | {"consolidate": whole.consolidate()}


def figures() -> list[Figure]:
    """Measure the three."""
    try:
        cluster = set_up(NAME, print, nodes=NODES)
        with with_settings(cluster, UNBOUNDED):
            found = measured(cluster)
    finally:
        down(NAME)
    what = {
        "fill": f"{NODES * GPUS} pods of one GPU on {NODES} nodes",
        "reclaim": "one GPU taken back there",
        "consolidate": f"{GANGS} gangs of {SIZE} there, {GANGS * SIZE} pods moved for them",
    }
    return [
        Figure(what[name], seconds, None, "s", f"KAI publishes {PUBLISHED[name]:g}, of other machines")
        for name, seconds in found.items()
    ]
