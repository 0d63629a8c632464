"""What the extender costs where little happens: 5,000 nodes that KWOK plays, 20,000 pods, a real API server.

At rest; and what one event of a pod costs, with the planner's cycle that follows it. Meanwhile one pod waits over its
limit, so that there is something to decide.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuyard.sandbox import down
from gpuyard.sandbox.demo.stage import EXTENDER, set_up

from benchmarks.measure import Figure, at_most
from tests.cluster.crowd import creating, deleting, send
from tests.cluster.yard import Yard

NODES = 5000
PODS = 20_000
QUEUES = 20
REST = 60
"""Seconds."""

EVENTS = 10
APART = 4
"""Seconds between two events: a cycle comes at most a second after each."""

PATIENCE = 900
NAME = "bench-rest"
TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """The extender as the system sees it."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    def cpu(self) -> float:
        """The processor seconds that it has used."""
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> float:
        """MiB."""
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def cpu_over(self, seconds: float) -> float:
        """The processor seconds that it uses meanwhile."""
        before = self.cpu()
        time.sleep(seconds)
        return self.cpu() - before


@contextmanager
def crowded() -> Iterator[tuple[Yard, list[dict[str, object]]]]:
    """A sandbox full of pods, of which the extender knows all, and the pods."""
    try:
        yard = Yard(set_up(NAME, print, nodes=NODES), "default")
        queues = [yard.queue(f"q{number}") for number in range(QUEUES)]
        pods = [
            yard.pod(f"p{number}", queues[number % QUEUES], nodeName=f"node-{number % NODES + 1}")
            for number in range(PODS)
        ]
        yard.cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        send(yard.cluster.kubeconfig, map(creating, pods))
        yard.until(lambda: known(yard) >= PODS, PATIENCE, "the extender knows all pods")
        yard.submit("waits", queue=yard.queue("shut", limit=0))
        yield yard, pods
    finally:
        down(NAME)


def known(yard: Yard) -> float:
    """How many placed pods the extender knows."""
    return yard.metrics().get('gpuyard_ledger_pods{phase="Bound"}', 0)


def figures() -> list[Figure]:
    """Wait until it rests, measure, then let single pods go."""
    with crowded() as (yard, pods):
        extender = Process(yard.cluster.processes[EXTENDER].pid)
        time.sleep(REST / 2)
        quiet = extender.cpu_over(REST) / REST
        before = extender.cpu()
        for pod in pods[:EVENTS]:
            send(yard.cluster.kubeconfig, [deleting(pod)])
            time.sleep(APART)
        event = (extender.cpu() - before - quiet * EVENTS * APART) / EVENTS
        memory = extender.memory()
    how = f"{NODES} KWOK nodes, {PODS} pods, {QUEUES} queues"
    return [
        Figure("extender at rest: processor", 100 * quiet, at_most(2), "% of a core", f"{how}, {REST} s"),
        Figure("one pod's event with its cycle", 1000 * event, at_most(100), "ms CPU", f"{how}, {EVENTS} events"),
        Figure("extender: memory", memory, at_most(300), "MiB", how),
    ]
