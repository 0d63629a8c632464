"""Two extenders and one Lease: one answers, the other sends its callers away, and takes over when the first is gone.

A Service would route kube-scheduler's connections to the pod with the leader's label. On this ground there are no
Services, so a small proxy does that on the port that kube-scheduler asks.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import files, ports, processes
from gpuyard.sandbox.demo.stage import EXTENDER, extender_port, start_extender

from tests.cluster.yard import headers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuyard.sandbox import Cluster
    from gpuyard.sandbox.processes import Process

    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")


class Contender:
    """An extender that takes part in the election of a namespace; it ends with the sandbox at the latest."""

    def __init__(self, cluster: Cluster, name: str, namespace: str) -> None:
        self.port, ops = ports.free(ports.candidates()), ports.free(ports.candidates())
        self.name = name
        addresses = ["--host=127.0.0.1", f"--port={self.port}", f"--ops-port={ops}"]
        election = [f"--lease-namespace={namespace}", f"--pod={name}"]
        token = f"--token={cluster.folder / files.EXTENDER_TOKEN}"
        command = [sys.executable, "-m", "gpuyard.extender", f"--kubeconfig={cluster.kubeconfig}", token]
        self._headers = headers(cluster)
        log = cluster.log(f"{namespace}-{name}")
        self.process: Process = processes.start(
            [*command, *addresses, *election], cluster.folder, f"{namespace}-{name}", "", log
        )

    def ask(self) -> tuple[Any, bool]:
        """The answer to a filter call for a pod without GPU, and whether the connection was closed with it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        body = json.dumps({"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["node-1"]})
        connection.request("POST", "/scheduler/filter", body, self._headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return answer, response.headers.get("Connection") == "close"

    def serves(self) -> bool:
        """Whether it decides at this moment."""
        try:
            return not self.ask()[0]["Error"]
        except OSError:
            return False


@pytest.fixture
def pair(yard: Yard) -> Iterator[tuple[Contender, Contender]]:
    """The leader and the one that stands by."""
    yard.submit("a", "b", gpus=0)
    both = [Contender(yard.cluster, name, yard.namespace) for name in ("a", "b")]
    yard.until(lambda: any(one.serves() for one in both), 60, "one of them leads")
    leader = next(one for one in both if one.serves())
    yield leader, next(one for one in both if one is not leader)
    for one in both:
        processes.end(one.process, grace=0)


def labelled(yard: Yard) -> set[str]:
    """The pods that carry the leader's label."""
    return {name for name, pod in yard.pods().items() if "gpuyard.io/leader" in pod["metadata"].get("labels", {})}


class Route:
    """Takes connections on one port and leads each to whoever of the contenders serves at that moment."""

    def __init__(self, port: int, contenders: tuple[Contender, ...]) -> None:
        self._contenders = contenders
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._lead, args=[caller], daemon=True).start()

    def _lead(self, caller: socket.socket) -> None:
        leader = next((one for one in self._contenders if one.serves()), None)
        with caller, contextlib.suppress(OSError):
            if leader is None:
                return
            with socket.create_connection(("127.0.0.1", leader.port)) as extender:
                back = threading.Thread(target=_pump, args=[extender, caller], daemon=True)
                back.start()
                _pump(caller, extender)
                back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def routed(yard: Yard, pair: tuple[Contender, Contender]) -> Iterator[tuple[Contender, Contender]]:
    """The pair, and kube-scheduler's calls led to the one of them that leads."""
    yard.cluster.stop(EXTENDER)
    route = Route(extender_port(yard.cluster), pair)
    yield pair
    route.close()
    yard.until(lambda: not ports.taken(extender_port(yard.cluster)), 10, "the port is free again")
    start_extender(yard.cluster)


@pytest.mark.row("E-20", case="leader-killed")
def test_after_the_leader_was_killed_gpu_pods_go_on(yard: Yard, routed: tuple[Contender, Contender]) -> None:
    queue = yard.queue("team", limit=2)
    yard.submit("before", queue=queue)
    yard.until(lambda: "before" in yard.placed(), 30, "the leader lets it run")
    leader, other = routed
    processes.end(leader.process, grace=0)
    yard.submit("after", "over", queue=queue)
    yard.until(lambda: len(yard.placed() & {"after", "over"}) == 1, 30, "one of them runs")
    assert other.serves()
    yard.rests(lambda: len(yard.placed() & {"before", "after", "over"}) == 2, 3, "the limit holds")


def test_only_the_leader_decides_and_carries_the_label(yard: Yard, pair: tuple[Contender, Contender]) -> None:
    leader, other = pair
    yard.until(lambda: other.ask()[0]["Error"] == "not leader", 60, "the other one stands by")
    assert other.ask()[1], "its caller shall look for the leader"
    assert not leader.ask()[1]
    assert labelled(yard) == {leader.name}


def test_a_leader_that_stops_hands_over_at_once(yard: Yard, pair: tuple[Contender, Contender]) -> None:
    leader, other = pair
    processes.end(leader.process, grace=20)
    assert yard.until(other.serves, 30, "the other one leads") < 15
    assert labelled(yard) == {other.name}


def test_a_leader_that_was_paused_knows_that_it_leads_no_longer(yard: Yard, pair: tuple[Contender, Contender]) -> None:
    leader, other = pair
    processes.send(leader.process, signal.SIGSTOP)
    yard.until(other.serves, 60, "the other one leads")
    processes.send(leader.process, signal.SIGCONT)
    assert leader.ask()[0]["Error"] == "not leader"
    assert other.serves()
