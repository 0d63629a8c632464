"""The mock on nodes without kubelet: a real API server and KWOK; updater, gfd and exporter as processes."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import SandboxError, Spec, down, up

from tests.mock.daemons import NAMESPACE, Mock, a_pod, eventually, topology

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]

NODES = 4
GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def mock(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mock]:
    """A sandbox whose nodes have no GPU of their own, with the mock running."""
    cluster = up(Spec(name=next(sandbox_names), nodes=NODES, gpus=0))
    try:
        running = Mock(cluster, tmp_path_factory.mktemp("mock"))
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        yield running
        running.stop()
    finally:
        down(cluster.name)


@pytest.fixture(autouse=True)
def clean(mock: Mock) -> Iterator[None]:
    """Each test leaves no pod and no topology."""
    yield
    mock.cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    mock.cluster.kubectl("delete", "configmaps", "--all", "-n", NAMESPACE)


def create(mock: Mock, *pods: dict[str, Any]) -> None:
    mock.cluster.kubectl("apply", "-f", "-", stdin="\n---\n".join(json.dumps(each) for each in pods))


def labels_of(mock: Mock, node: str) -> dict[str, str]:
    found: dict[str, str] = mock.get("node", node)["metadata"]["labels"]
    return found


def two(mock: Mock) -> None:
    mock.put(topology({"node-1": 2}))
    eventually(lambda: mock.gpus_of("node-1") == ("2", "2"))


@pytest.mark.row("M-35")
def test_a_kwok_node_has_capacity_labels_and_metrics(mock: Mock) -> None:
    two(mock)
    eventually(lambda: mock.get("node", "node-1")["metadata"]["labels"].get("nvidia.com/gpu.count") == "2")
    labels = mock.get("node", "node-1")["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "Tesla-K80"
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert labels["gpuyard.io/mock"] == "true"
    eventually(lambda: set(mock.series()) == {("node-1", "0"), ("node-1", "1")})
    assert not [name for name in mock.get("node", "node-2")["metadata"]["labels"] if name.startswith("nvidia.com/")]


def test_a_running_pod_is_written_onto_its_gpu_and_shows_in_the_metrics(mock: Mock) -> None:
    two(mock)
    create(mock, a_pod("p"))
    eventually(lambda: mock.usage().get("node-1/0", {}).get("utilization") == 100, within=30)
    assert mock.usage() == {
        "node-1/0": {
            "metadata": {"namespace": "default", "pod": "p", "container": "c"},
            "utilization": 100,
            "fb-used": 11441,
        }
    }
    assert "  # number 0\n" in mock.text()
    eventually(lambda: mock.series()["node-1", "0"].get("pod") == "p", within=30)
    mock.cluster.kubectl("delete", "pod", "p", "--wait=false")
    eventually(lambda: mock.text() == topology({"node-1": 2}), within=30)


@pytest.mark.row("M-36", case="count-changed")
def test_a_changed_count_is_the_nodes_capacity_within_ten_seconds(mock: Mock) -> None:
    two(mock)
    mock.put(topology({"node-1": 4}))
    eventually(lambda: mock.gpus_of("node-1") == ("4", "4"), within=10)


@pytest.mark.row("M-36", case="re-created")
def test_a_node_that_is_made_anew_has_its_capacity_within_ten_seconds(mock: Mock) -> None:
    two(mock)
    node = mock.get("node", "node-1")
    mock.cluster.kubectl("delete", "node", "node-1")
    labels = {
        name: value for name, value in node["metadata"]["labels"].items() if "/" not in name or "kubernetes" in name
    }
    meta = {"name": "node-1", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    fresh = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
    mock.cluster.kubectl("create", "-f", "-", stdin=json.dumps(fresh))
    eventually(lambda: mock.gpus_of("node-1") == ("2", "2"), within=10)
    assert int(mock.get("node", "node-1")["status"]["capacity"]["pods"]) > 0


def test_what_is_taken_out_of_the_topology_is_taken_off_the_node(mock: Mock) -> None:
    two(mock)
    eventually(lambda: mock.get("node", "node-1")["metadata"]["labels"].get("nvidia.com/gpu.count") == "2")
    mock.put(topology({"node-2": 1}))
    eventually(lambda: mock.gpus_of("node-1") == (None, None))
    eventually(
        lambda: not [n for n in mock.get("node", "node-1")["metadata"]["labels"] if "nvidia" in n or "mock" in n]
    )


def test_a_broken_topology_is_reported_on_the_map_and_the_last_good_one_stays(mock: Mock) -> None:
    two(mock)
    eventually(lambda: len(mock.series()) == 2)
    mock.put("nodes:\n  node-1: {colour: red}\n")
    eventually(lambda: [note for note in mock.events("TopologyRefused") if "line 2, nodes.node-1.colour" in note])
    assert mock.gpus_of("node-1") == ("2", "2")
    assert len(mock.series()) == 2
    mock.put(topology({"node-1": 3}))
    eventually(lambda: mock.gpus_of("node-1") == ("3", "3"))


@pytest.mark.parametrize(
    "text",
    [pytest.param(text, marks=pytest.mark.row("M-43", case=text)) for text in ("80-20", "200", "-1", "10.5", "abc")],
)
def test_a_bad_utilization_is_refused_by_an_event_and_the_default_stands_in(mock: Mock, text: str) -> None:
    two(mock)
    create(mock, a_pod("p", annotations={"run.ai/simulated-gpu-utilization": text}))
    eventually(lambda: mock.usage().get("node-1/0", {}).get("utilization") == 100)
    eventually(lambda: [note for note in mock.events("UtilizationRefused") if repr(text) in note])
    assert mock.daemons["status_updater"].ready()


def test_a_pool_makes_a_map_for_each_of_its_nodes(mock: Mock) -> None:
    mock.cluster.kubectl("label", "node", "node-3", "pool=a")
    mock.put("nodePools: {a: {gpu: {profile: t4}}}\nnodePoolLabelKey: pool\n")
    eventually(lambda: mock.gpus_of("node-3") == ("4", "4"))
    create(mock, a_pod("p"))
    eventually(lambda: "allocatedBy" in mock.text("topology-node-3"))
    eventually(lambda: mock.series()["node-3", "0"].get("pod") == "p")
    mock.cluster.kubectl("label", "node", "node-3", "pool-")
    eventually(lambda: mock.gpus_of("node-3") == (None, None))


def mark(mock: Mock, round_: int) -> bool:
    """Write a comment into the topology as it stands; False when the updater was faster."""
    found = mock.get("configmap", "topology", "-n", NAMESPACE)
    line = f"  node-{round_ % NODES + 1}:"
    text = found["data"]["topology.yml"].replace(line, f"{line}  # round {round_}")
    body = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}, "data": {"topology.yml": text}}
    try:
        mock.cluster.kubectl("patch", "configmap", "topology", "-n", NAMESPACE, "--type=merge", "-p", json.dumps(body))
    except SandboxError as error:
        if "Conflict" not in str(error):
            raise
        return False
    return True


@pytest.mark.row("M-48")
def test_two_writers_lose_no_update(mock: Mock) -> None:
    """The user changes the topology again and again while pods come and go: both hands' work is there at the end."""
    mock.put(topology({f"node-{n}": 2 for n in range(1, NODES + 1)}))
    for round_ in range(12):
        create(mock, a_pod(f"p{round_}"))
        # Refused when the updater was faster: a user looks again.
        eventually(lambda round_=round_: mark(mock, round_))  # type: ignore[misc]
    running = {pod["metadata"]["name"] for pod in mock.get("pods")["items"] if "nodeName" in pod["spec"]}
    eventually(lambda: {each["metadata"]["pod"] for each in mock.usage().values()} == running)
    assert len(running) == 2 * NODES
    assert {int(found) for found in re.findall(r"# round (\d+)", mock.text())} == set(range(12))
    assert "# number 1" in mock.text()


@pytest.mark.row("M-40")
def test_a_thousand_scrapes_while_pods_come_and_go_miss_no_gpu(mock: Mock) -> None:
    mock.put(topology({f"node-{n}": 8 for n in range(1, NODES + 1)}, "NVIDIA-A100-SXM4-40GB", 40960))
    eventually(lambda: len(mock.series()) == 8 * NODES)
    lines = mock.scrape().count("\n")

    def whole() -> str:
        page = mock.scrape()
        assert page.count("\n") == lines
        return page

    def shown(names: list[str]) -> bool:
        page = whole()
        return all(f'pod="{name}"' in page for name in names)

    for wave in range(10):
        names = [f"p{wave}-{n}" for n in range(4)]
        create(mock, *map(a_pod, names))
        eventually(lambda names=names: shown(names))  # type: ignore[misc]
        for _ in range(50):
            whole()
        mock.cluster.kubectl("delete", "pod", "--wait=false", *names)
        for _ in range(50):
            whole()
    eventually(lambda: not [labels for labels in mock.series().values() if "pod" in labels], within=15)


@pytest.mark.row("M-50", case="closed")
def test_a_restarted_api_server_is_found_again(mock: Mock) -> None:
    two(mock)
    mock.cluster.restart("kube-apiserver")
    mock.put(topology({"node-1": 3}))
    eventually(lambda: mock.gpus_of("node-1") == ("3", "3"), within=30)
    eventually(lambda: len(mock.series()) == 3)


@pytest.mark.row("M-50", case="gone")
def test_a_version_that_is_no_longer_known_is_followed_by_a_list(mock: Mock) -> None:
    two(mock)
    mock.cluster.kill("kube-apiserver")
    mock.cluster.start("kube-apiserver")
    mock.cluster.compact_etcd()
    mock.put(topology({"node-1": 1}))
    eventually(lambda: mock.gpus_of("node-1") == ("1", "1"), within=30)


@pytest.mark.row("M-50", case="api-away")
def test_while_the_api_is_away_the_metrics_stay_and_nobody_spins(mock: Mock) -> None:
    two(mock)
    # A name of its own: kube-scheduler takes a pod of the same name, made while it saw nothing, for this one moved.
    create(mock, a_pod("stays"))
    eventually(lambda: mock.series()["node-1", "0"].get("pod") == "stays")
    mock.cluster.kill("kube-apiserver")
    cpu = {name: daemon.cpu() for name, daemon in mock.daemons.items()}
    for _ in range(30):
        time.sleep(1)
        assert mock.series()["node-1", "0"].get("pod") == "stays"
    used = {name: (daemon.cpu() - cpu[name]) / 30 for name, daemon in mock.daemons.items()}
    mock.cluster.start("kube-apiserver")
    assert max(used.values()) < 0.05, used
    mock.put(topology({"node-1": 4}))
    eventually(lambda: mock.gpus_of("node-1") == ("4", "4"), within=90)


def test_what_starts_while_the_topology_is_broken_has_the_last_good_one(mock: Mock) -> None:
    two(mock)
    create(mock, a_pod("p"))
    # The test before took the API server away: kube-scheduler asks again at ever longer intervals.
    eventually(lambda: mock.series()["node-1", "0"].get("pod") == "p", within=180)
    mock.put("nodes: [")
    eventually(lambda: [note for note in mock.events("TopologyRefused") if note.endswith("stays in force.")])
    for module in mock.daemons:
        mock.begin_anew(module)
    eventually(lambda: all(daemon.ready() for daemon in mock.daemons.values()), within=30)
    eventually(lambda: mock.series().get(("node-1", "0"), {}).get("pod") == "p")
    create(mock, a_pod("q"))
    eventually(lambda: mock.series()["node-1", "1"].get("pod") == "q", within=30)
    assert mock.gpus_of("node-1") == ("2", "2")
    assert labels_of(mock, "node-1")["nvidia.com/gpu.count"] == "2"
    mock.put(topology({"node-1": 3}))
    eventually(lambda: {place: each["metadata"]["pod"] for place, each in mock.usage().items()} == {
        "node-1/0": "p", "node-1/1": "q",
    })  # fmt: skip
    eventually(lambda: mock.gpus_of("node-1") == ("3", "3"))


def test_the_last_good_state_goes_with_the_map_that_it_is_of(mock: Mock) -> None:
    def maps() -> set[str]:
        return {each["metadata"]["name"] for each in mock.get("configmaps", "-n", NAMESPACE)["items"]}

    two(mock)
    eventually(lambda: {"topology", "last-good-topology"} <= maps())
    mock.cluster.kubectl("delete", "configmap", "topology", "-n", NAMESPACE)
    eventually(lambda: not maps() & {"topology", "last-good-topology"}, within=30)
    eventually(lambda: mock.gpus_of("node-1") == (None, None))


def test_of_two_updaters_one_works_and_the_other_takes_over(mock: Mock) -> None:
    two(mock)
    first, second = mock.daemons["status_updater"], mock.start("status_updater")
    eventually(second.ready, within=30)
    create(mock, a_pod("p"))
    eventually(lambda: mock.series()["node-1", "0"].get("pod") == "p", within=180)
    assert first.stop() == 0
    mock.daemons["status_updater"] = second
    create(mock, a_pod("q"))
    eventually(lambda: mock.series()["node-1", "1"].get("pod") == "q", within=30)
