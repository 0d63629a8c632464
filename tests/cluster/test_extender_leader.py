"""Two extenders and one Lease: one answers, the other sends its callers away, and takes over when the first is gone."""

from __future__ import annotations

import http.client
import json
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import ports, processes

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
        command = [sys.executable, "-m", "gpuyard.extender", f"--kubeconfig={cluster.kubeconfig}"]
        log = cluster.log(f"{namespace}-{name}")
        self.process: Process = processes.start(
            [*command, *addresses, *election], cluster.folder, f"{namespace}-{name}", "", log
        )

    def ask(self) -> tuple[Any, bool]:
        """The answer to a filter call for a pod without GPU, and whether the connection was closed with it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        body = json.dumps({"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["node-1"]})
        connection.request("POST", "/scheduler/filter", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return answer, response.headers.get("Connection") == "close"

    def serves(self) -> bool:
        """Whether it decides at this moment."""
        try:
            return bool(self.ask()[0]["NodeNames"] == ["node-1"])
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
