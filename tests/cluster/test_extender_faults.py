"""The extender away, killed, asked too early, left idle: nothing is granted twice, nobody waits longer than needed."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox.demo.stage import EXTENDER, extender_port, launch_extender, start_extender

from tests.cluster.test_extender_filter import waiting_for_its_volume
from tests.cluster.yard import headers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuyard.sandbox import Cluster

    from tests.cluster.yard import Yard

pytestmark = pytest.mark.ground("processes")


@pytest.fixture(autouse=True)
def extender_is_back(yard: Yard) -> Iterator[None]:
    """Whatever a test did to the extender, the next one finds it running."""
    yield
    start_extender(yard.cluster)


def asked_until_it_listens(yard: Yard, pod: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """The first answer of an extender that is starting."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            return yard.filter(pod)
        time.sleep(0.02)
    raise AssertionError("the extender does not listen")


@pytest.mark.row("E-20", case="stopped")
def test_with_the_extender_away_gpu_pods_wait_and_others_run(yard: Yard) -> None:
    queue = yard.queue("team")
    yard.cluster.stop(EXTENDER)
    yard.submit("gpu", queue=queue)
    yard.submit("plain", gpus=0)
    yard.until(lambda: yard.placed() == {"plain"}, 15, "the pod without GPU runs")
    yard.until(lambda: "gpu" in yard.verdicts(), 15, "kube-scheduler has said why the other one waits")
    condition = next(c for c in yard.pods()["gpu"]["status"]["conditions"] if c["type"] == "PodScheduled")
    assert condition["reason"] == "SchedulerError"


@pytest.mark.row("E-20", case="clean-restart")
def test_after_a_clean_restart_what_waited_goes(yard: Yard) -> None:
    queue = yard.queue("team")
    yard.cluster.stop(EXTENDER)
    yard.submit("gpu", queue=queue)
    yard.until(lambda: "gpu" in yard.verdicts(), 15, "it waits")
    start_extender(yard.cluster)
    yard.until(lambda: "gpu" in yard.placed(), 15, "it runs")


@pytest.mark.row("E-10", case="before-sync")
def test_before_it_knows_the_cluster_it_answers_with_an_error(yard: Yard) -> None:
    queue = yard.queue("team")
    yard.cluster.kill(EXTENDER)
    launch_extender(yard.cluster)
    answer = asked_until_it_listens(yard, yard.pod("p", queue))
    assert answer["Error"] == "gpuyard is starting: it does not know the cluster yet"
    assert not answer["NodeNames"]


@pytest.mark.row("E-10", case="while-binding")
def test_killed_while_a_pod_is_bound_it_does_not_grant_that_unit_again(yard: Yard) -> None:
    queue = yard.queue("team", limit=7)
    yard.submit(*(f"run-{number}" for number in range(6)), queue=queue)
    yard.until(lambda: len(yard.placed()) == 6, 15, "six run")
    waiting_for_its_volume(yard, "binding", queue)
    yard.cluster.kill(EXTENDER)
    start_extender(yard.cluster)
    yard.submit("second", queue=queue)
    yard.until(lambda: "limit of 7 GPUs" in yard.verdicts().get("second", ""), 30, "the second one is refused")
    yard.rests(lambda: "second" not in yard.placed(), 3, "the second one waits")


@pytest.mark.row("E-10", case="never-bound")
def test_killed_before_a_pod_that_is_never_bound_it_grants_the_unit_when_that_pod_is_gone(yard: Yard) -> None:
    queue = yard.queue("team", limit=1)
    waiting_for_its_volume(yard, "never", queue)
    yard.cluster.kill(EXTENDER)
    start_extender(yard.cluster)
    yard.submit("second", queue=queue)
    yard.until(lambda: "limit of 1 GPU" in yard.verdicts().get("second", ""), 30, "the second one is refused")
    yard.delete("never")
    yard.until(lambda: "second" in yard.placed(), 60, "the second one runs")


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(60, marks=pytest.mark.row("E-22", case="60s")),
        pytest.param(89, marks=pytest.mark.row("E-22", case="89s")),
    ],
)
def test_a_connection_that_idled_is_still_answered(idled: dict[int, int], seconds: int) -> None:
    assert idled[seconds] == 200


@pytest.fixture(scope="module")
def idled(extended: Any) -> dict[int, int]:  # noqa: ANN401 - the shared cluster
    """The status of a second call on one connection after so many idle seconds, both waited for at once."""
    found: dict[int, int] = {}

    def idle(seconds: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", extender_port(extended), timeout=5)
        connection.connect()
        socket = connection.sock
        _call(connection, extended)
        time.sleep(seconds)
        found[seconds] = _call(connection, extended)
        assert connection.sock is socket, "it is one and the same connection"
        connection.close()

    threads = [threading.Thread(target=idle, args=[seconds]) for seconds in (60, 89)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _call(connection: http.client.HTTPConnection, cluster: Cluster) -> int:
    body = json.dumps({"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["node-1"]})
    connection.request("POST", "/scheduler/filter", body, headers(cluster))
    response = connection.getresponse()
    response.read()
    return response.status
