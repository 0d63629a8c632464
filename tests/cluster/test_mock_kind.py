"""The mock on real kubelets: kind, the product image and the manifests that users get."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import SandboxError, Spec, kind
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import product
from gpuyard.sandbox.progress import Progress

from tests.cluster.share import others_share
from tests.mock.daemons import NAMESPACE, eventually
from tests.mock.identity import Listening, longest_difference
from tests.mock.in_cluster import prometheus_of_the_samples
from tests.mock.storm import busiest, creating, deleting, rage
from tests.mock.yard import G1, G2, GPU, PLUGINS, UNHEALTHY, Yard

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("kind"), pytest.mark.timeout(1800)]

DAEMONS = "app.kubernetes.io/component=dcgm-exporter"
MANIFESTS = product.REPOSITORY / "manifests" / "base" / "mock"
BARE = {"image": "registry.k8s.io/pause:3.10"}
ASKING = {**BARE, "resources": {"limits": {GPU: "1"}}}


@pytest.fixture(scope="module")
def yard(sandbox_names: Iterator[str]) -> Iterator[Yard]:
    """A kind cluster of one worker with the mock applied."""
    name = next(sandbox_names)
    try:
        cluster = kind.up(Spec(name=name, nodes=1))
        cluster.load(product.build(cluster.docker, Folders.of_user(), Progress()))
        cluster.kubectl("apply", "-k", str(MANIFESTS))
        cluster.kubectl("-n", NAMESPACE, "rollout", "status", "deployment/gpuyard-status-updater", "--timeout=180s")
        yield Yard(cluster)
    except SandboxError as error:
        pytest.fail(f"the mock cannot be applied on kind: {error}", pytrace=False)
    finally:
        kind.down(name)


@pytest.fixture(autouse=True)
def two(yard: Yard) -> Iterator[None]:
    """Two idle GPUs before each test; no pod afterwards."""
    yard.put(yard.text())
    eventually(lambda: yard.gpus() == ("2", "2"), within=60, pause=0.5)
    yield
    yard.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


@pytest.mark.row("M-09")
def test_on_a_node_that_no_topology_names_a_plugin_offers_nothing_and_says_so_once(yard: Yard) -> None:
    """The DaemonSet keeps away from such a node; here its pod is put there all the same."""
    template = yard.get("daemonset", "gpuyard-device-plugin", "-n", NAMESPACE)["spec"]["template"]
    spec = {name: each for name, each in template["spec"].items() if name not in {"affinity", "nodeSelector"}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stray"}, "spec": spec | {"nodeName": yard.other}}
    yard.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(body))
    try:
        yard.kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "pod/stray", "--timeout=90s")
        yard.put(yard.text() + "      - id: GPU-third\n")
        eventually(lambda: yard.gpus() == ("3", "3"))
        events = [json.loads(line)["event"] for line in yard.kubectl("logs", "-n", NAMESPACE, "stray").splitlines()]
        assert events.count("node-not-in-topology") == 1
        [status] = yard.get("pod", "stray", "-n", NAMESPACE)["status"]["containerStatuses"]
        assert status["restartCount"] == 0
    finally:
        yard.kubectl("delete", "pod", "-n", NAMESPACE, "stray")
    assert yard.gpus(node=yard.other) == ("", "")
    assert [name for name in yard.labels(yard.other) if name.startswith(("nvidia.com/", "gpuyard.io/"))] == []


@pytest.mark.row("M-01")
def test_the_topologys_gpus_are_the_nodes_capacity_with_its_ids(yard: Yard) -> None:
    assert yard.gpus() == ("2", "2")
    yard.pod("p", 2)
    eventually(lambda: sorted(yard.held()) == [G1, G2])


@pytest.mark.row("M-02")
def test_the_node_carries_memory_count_strategy_and_product(yard: Yard) -> None:
    wanted = {"gpu.memory": "11441", "gpu.count": "2", "mig.strategy": "mixed", "gpu.product": "Tesla-K80"}
    eventually(lambda: {name: yard.labels().get(f"nvidia.com/{name}") for name in wanted} == wanted)


@pytest.mark.row("M-03")
def test_metrics_written_in_the_topology_appear_with_every_label(yard: Yard) -> None:
    yard.kubectl("scale", "-n", NAMESPACE, "deployment/gpuyard-status-updater", "--replicas=0")
    owner = {"namespace": "runai-project-a", "pod": "pod", "container": "container"}
    used = "\n        metrics: {{metadata: " + json.dumps(owner).replace("{", "{{").replace("}", "}}")
    used += ", utilization: {}, fb-used: {}}}"
    try:
        yard.put(yard.text(used.format(10, 5000), used.format(100, 10000)))
        eventually(lambda: [value for _, value in yard.scrape()["DCGM_FI_DEV_GPU_UTIL"]] == [10, 100], pause=1)
        found = yard.scrape()
        assert [value for _, value in found["DCGM_FI_DEV_FB_USED"]] == [5000, 10000]
        assert [value for _, value in found["DCGM_FI_DEV_FB_FREE"]] == [6441, 1441]
        for index, (labels, _) in enumerate(found["DCGM_FI_DEV_FB_USED"]):
            card = {"gpu": str(index), "UUID": (G1, G2)[index], "device": f"nvidia{index}", "modelName": "Tesla-K80"}
            assert labels.items() >= (card | owner | {"Hostname": yard.node}).items()
    finally:
        yard.kubectl("scale", "-n", NAMESPACE, "deployment/gpuyard-status-updater", "--replicas=1")


def test_the_prometheus_of_the_samples_finds_the_exporter_by_its_service(yard: Yard) -> None:
    yard.pod("p")
    with prometheus_of_the_samples(yard) as ask:
        eventually(lambda: {each.get("pod") for each in ask("DCGM_FI_DEV_GPU_UTIL")} == {"p", None}, within=90, pause=1)


@pytest.mark.row("M-04", case="known")
def test_a_pod_that_asks_for_a_gpu_runs(yard: Yard) -> None:
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)


@pytest.mark.row("M-05")
def test_a_running_pod_is_written_onto_kubelets_device_within_five_seconds(yard: Yard) -> None:
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)
    metadata = {"namespace": "default", "pod": "p", "container": "c"}
    wanted = {"metadata": metadata, "utilization": 100, "fb-used": 11441}
    eventually(lambda: list(yard.usage().values()) == [wanted], within=5)
    assert yard.told() == yard.held()
    remaining = iter(yard.written().splitlines())
    assert all(line in remaining for line in yard.text().splitlines())  # every line of the user's, in its order


def loop(seconds: int, code: int) -> dict[str, Any]:
    """A container of the product image that runs for a while and ends with a code."""
    return {
        "name": "c",
        "image": product.IMAGE,
        "command": ["python3", "-c", f"import time, sys; time.sleep({seconds}); sys.exit({code})"],
        "resources": {"limits": {GPU: "1"}},
    }


@pytest.mark.parametrize(
    "end",
    [pytest.param(end, marks=pytest.mark.row("M-06", case=end)) for end in ("deleted", "succeeded", "failed")],
)
def test_an_ended_pod_leaves_its_gpu_within_five_seconds(yard: Yard, end: str) -> None:
    lasts, code = {"deleted": (600, 0), "succeeded": (8, 0), "failed": (8, 1)}[end]
    yard.pod("p", containers=[loop(lasts, code)], restartPolicy="Never")
    eventually(lambda: len(yard.usage()) == 1, within=30)
    if end == "deleted":
        yard.kubectl("delete", "pod", "p", "--wait=false")
    else:
        eventually(lambda: yard.phase("p").lower() == end, within=30)
    eventually(lambda: yard.written() == yard.text(), within=5)
    eventually(lambda: yard.shown() == {}, within=5)
    found = yard.scrape()
    assert {value for name in ("GPU_UTIL", "FB_USED") for _, value in found[f"DCGM_FI_DEV_{name}"]} == {0}


@pytest.mark.row("M-08")
def test_the_third_pod_for_two_gpus_waits(yard: Yard) -> None:
    for name in ("a", "b"):
        yard.pod(name)
    eventually(lambda: {yard.phase("a"), yard.phase("b")} == {"Running"}, within=30)
    yard.pod("c", schedulerName="default-scheduler", nodeName="")

    def why() -> str:
        return " ".join(condition.get("message", "") for condition in yard.get("pod", "c")["status"]["conditions"])

    eventually(lambda: f"Insufficient {GPU}" in why())
    assert yard.phase("c") == "Pending"
    eventually(lambda: yard.told() == yard.stated() == yard.held())
    assert sorted(yard.held().values()) == ["a/c", "b/c"]


@pytest.mark.row("M-12")
@pytest.mark.row("M-13")
def test_each_container_is_named_on_the_device_that_kubelet_gave_it(yard: Yard) -> None:
    yard.pod("p", containers=[{"name": "none", **BARE}, {"name": "a", **ASKING}, {"name": "b", **ASKING}])
    eventually(lambda: len(yard.usage()) == 2, within=30)
    held = yard.held()
    assert sorted(held.values()) == ["p/a", "p/b"]
    assert yard.told() == held
    eventually(lambda: yard.shown() == held, pause=1)


@pytest.mark.row("M-15", case="idle")
@pytest.mark.row("M-16")
def test_an_unhealthy_gpu_leaves_allocatable_and_comes_back(yard: Yard) -> None:
    before = yard.lives("device-plugin")
    yard.put(yard.text(first=UNHEALTHY))
    eventually(lambda: yard.gpus() == ("2", "1"), within=5)
    yard.put(yard.text())
    eventually(lambda: yard.gpus() == ("2", "2"), within=5)
    assert yard.lives("device-plugin") == before


@pytest.mark.row("M-15", case="in-use")
def test_a_used_gpu_that_gets_unhealthy_shows_in_its_pods_status_and_the_pod_lives(yard: Yard) -> None:
    yard.pod("p", 2)
    eventually(lambda: yard.phase("p") == "Running", within=30)
    yard.put(yard.text(first=UNHEALTHY))

    def health() -> set[str]:
        [status] = yard.get("pod", "p")["status"]["containerStatuses"]
        return {
            d["health"] for r in status["allocatedResourcesStatus"] for d in r["resources"] if d["resourceID"] == G1
        }

    eventually(lambda: health() == {"Unhealthy"}, within=5)
    assert yard.phase("p") == "Running"


@pytest.mark.row("M-17")
def test_a_failing_allocation_ends_its_pod_and_the_next_one_runs(yard: Yard) -> None:
    yard.break_down("allocate-error")
    yard.pod("p")
    eventually(lambda: yard.get("pod", "p")["status"].get("reason") == "UnexpectedAdmissionError", within=15)
    yard.mend()
    yard.pod("q")
    eventually(lambda: yard.phase("q") == "Running", within=30)


@pytest.mark.row("M-18", case="drop-stream")
def test_a_dropped_stream_takes_allocatable_and_heals(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    faults: [drop-stream]"))
    eventually(lambda: yard.gpus() == ("2", "0"), within=20)
    yard.mend()


@pytest.mark.row("M-18", case="slow-allocate")
def test_a_slow_allocation_delays_its_pod(yard: Yard) -> None:
    """Ten seconds instead of the row's three: no loaded machine delays a pod as long without the fault."""
    yard.break_down("slow-allocate=10s")
    began = time.monotonic()
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=40)
    assert time.monotonic() - began >= 10
    yard.mend()
    yard.pod("q")
    eventually(lambda: yard.phase("q") == "Running", within=30)


@pytest.mark.row("M-18", case="crash")
def test_a_crash_shows_as_one_restart(yard: Yard) -> None:
    [(uid, before)] = yard.lives("device-plugin")
    yard.put(yard.text(extra="\n    faults: [crash]"))
    eventually(lambda: yard.lives("device-plugin") == [(uid, before + 1)], within=20)
    yard.mend()
    assert yard.lives("device-plugin") == [(uid, before + 1)]


@pytest.mark.row("M-20")
def test_an_added_gpu_is_capacity_label_and_series_within_ten_seconds(yard: Yard) -> None:
    before = yard.lives("device-plugin", "dcgm-exporter")
    yard.put(yard.text() + "      - id: GPU-third\n")
    began = time.monotonic()
    eventually(lambda: yard.gpus() == ("3", "3"), within=10)
    eventually(lambda: yard.labels()["nvidia.com/gpu.count"] == "3", within=10)
    eventually(lambda: len(yard.scrape()["DCGM_FI_DEV_GPU_UTIL"]) == 3, within=10)
    assert time.monotonic() - began < 10 * others_share()
    assert yard.lives("device-plugin", "dcgm-exporter") == before


@pytest.mark.row("M-21", case="idle")
def test_an_idle_gpu_that_is_removed_is_gone(yard: Yard) -> None:
    yard.put(yard.text().replace(f"      - id: {G2}\n", ""))
    eventually(lambda: yard.gpus() == ("1", "1"), within=15)
    eventually(lambda: yard.labels()["nvidia.com/gpu.count"] == "1")


@pytest.mark.row("M-21", case="in-use")
def test_a_used_gpu_that_is_removed_stays_unhealthy_until_its_pod_ends(yard: Yard) -> None:
    yard.pod("p", 2)
    eventually(lambda: yard.phase("p") == "Running", within=30)
    yard.put(yard.text().replace(f"      - id: {G2}\n", ""))
    eventually(lambda: yard.gpus() == ("2", "1"), within=15)
    assert yard.phase("p") == "Running"
    yard.kubectl("delete", "pod", "p", "--wait=false")
    eventually(lambda: yard.gpus() == ("1", "1"), within=15)


@pytest.mark.row("M-22")
def test_labels_and_metrics_follow_a_changed_memory_and_product(yard: Yard) -> None:
    before = yard.lives("device-plugin", "dcgm-exporter")
    yard.put(yard.text().replace("11441", "16280").replace("Tesla-K80", "Tesla-V100"))
    eventually(lambda: yard.labels()["nvidia.com/gpu.memory"] == "16280")
    eventually(lambda: yard.labels()["nvidia.com/gpu.product"] == "Tesla-V100")
    eventually(lambda: {value for _, value in yard.scrape()["DCGM_FI_DEV_FB_FREE"]} == {16280}, pause=1)
    assert {labels["modelName"] for labels, _ in yard.scrape()["DCGM_FI_DEV_FB_FREE"]} == {"Tesla-V100"}
    assert yard.lives("device-plugin", "dcgm-exporter") == before


@pytest.mark.row("M-23")
@pytest.mark.parametrize(
    ("text", "problem"),
    [("nodes:\n  n:\n    colour: red\n", "line 3, nodes.n.colour"), ("nodes:\n  n: [\n", "line 3: no YAML")],
)
def test_a_broken_topology_is_reported_with_its_line_and_the_last_good_one_stays(
    yard: Yard, text: str, problem: str
) -> None:
    yard.put(text)

    def told() -> list[str]:
        events = yard.get("events", "-n", NAMESPACE)["items"]
        refused = [each["message"] for each in events if each["reason"] == "TopologyRefused"]
        return [message for message in refused if problem in message]

    eventually(told)
    assert yard.gpus() == ("2", "2")
    yard.put(yard.text() + "      - id: GPU-third\n")
    eventually(lambda: yard.gpus() == ("3", "3"))


def restart_kubelet(yard: Yard) -> float:
    """Restart kubelet; when it made its socket anew."""
    before = yard.kubelets_socket()
    yard.on_node("systemctl", "restart", "kubelet")
    eventually(lambda: yard.kubelets_socket() > before, within=30)
    return yard.kubelets_socket()


@pytest.mark.row("M-27")
@pytest.mark.row("M-54")
@pytest.mark.row("B-30", case="restarted-kubelet")
def test_ten_kubelet_restarts_in_a_row_are_survived_with_the_same_ids(yard: Yard) -> None:
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)
    before, uid = yard.held(), yard.get("pod", "p")["metadata"]["uid"]
    for _ in range(10):
        made = restart_kubelet(yard)
        eventually(lambda made=made: yard.registrations()[-1] > made, within=20)  # type: ignore[misc]
        assert yard.registrations()[-1] - made <= 5 * others_share()
        eventually(lambda: yard.gpus() == ("2", "2"), within=30)
    # A restarted kubelet refuses `kubectl exec` until it has read its pods from the API server.
    eventually(yard.held, within=60, pause=1, tolerate=SandboxError)
    assert yard.held() == before
    assert (yard.phase("p"), yard.get("pod", "p")["metadata"]["uid"]) == ("Running", uid)


@pytest.mark.row("M-28")
def test_a_restarted_plugin_offers_the_same_gpus_within_five_seconds(yard: Yard) -> None:
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)
    before, uid = yard.held(), yard.get("pod", "p")["metadata"]["uid"]
    over = threading.Event()
    with ThreadPoolExecutor() as pool:
        seen = pool.submit(offers_until, yard, over)
        yard.kubectl("delete", "pod", "-n", NAMESPACE, yard.of("device-plugin")["metadata"]["name"])
        yard.kubectl("-n", NAMESPACE, "rollout", "status", "daemonset/gpuyard-device-plugin", "--timeout=60s")
        eventually(lambda: yard.gpus() == ("2", "2"), within=15)
        over.set()
    registered = yard.registrations()[-1]
    offered = next(at for at, offer in seen.result() if at >= registered and offer == ("2", "2"))
    assert offered - registered <= 5 * others_share()
    assert (yard.held(), yard.phase("p"), yard.get("pod", "p")["metadata"]["uid"]) == (before, "Running", uid)


def test_what_starts_while_the_topology_is_broken_offers_and_shows_the_last_good_one(yard: Yard) -> None:
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)
    eventually(lambda: yard.told() == yard.held())
    before = yard.held()
    yard.put("nodes: [")
    everything = ("deployment/gpuyard-status-updater", "daemonset/gpuyard-device-plugin")
    yard.kubectl("-n", NAMESPACE, "rollout", "restart", *everything, "daemonset/gpuyard-dcgm-exporter")
    for workload in (*everything, "daemonset/gpuyard-dcgm-exporter"):
        yard.kubectl("-n", NAMESPACE, "rollout", "status", workload, "--timeout=120s")
    eventually(lambda: yard.gpus() == ("2", "2"), within=20)
    eventually(lambda: yard.shown() == before, within=20, pause=1)
    assert (yard.held(), yard.phase("p")) == (before, "Running")
    yard.put(yard.text() + "      - id: GPU-third\n")
    eventually(lambda: yard.gpus() == ("3", "3"))
    eventually(lambda: yard.told() == before)


def offers_until(yard: Yard, over: threading.Event) -> list[tuple[float, tuple[str, str]]]:
    """Capacity and allocatable again and again, with the times, and once more when all is over."""
    seen: list[tuple[float, tuple[str, str]]] = []
    while not over.wait(0.2):
        seen.append((time.time(), yard.gpus()))
    return [*seen, (time.time(), yard.gpus())]


@pytest.mark.row("M-32")
def test_another_resource_has_its_own_socket_and_count(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    otherDevices: [{name: example.com/x, count: 3}]"))
    eventually(lambda: yard.gpus("example.com/x") == ("3", "3"), within=15)
    assert "example.com-x.sock" in yard.on_node("ls", PLUGINS)


@pytest.mark.row("M-52")
def test_time_slicing_multiplies_capacity_and_the_metrics_show_the_card(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    sharing: {strategy: time-slicing, replicas: 4}"))
    eventually(lambda: yard.gpus() == ("8", "8"), within=20)
    eventually(lambda: yard.labels()["nvidia.com/gpu.replicas"] == "4")
    assert yard.labels()["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    assert yard.labels()["nvidia.com/gpu.product"] == "Tesla-K80-SHARED"
    pods = [f"p{number}" for number in range(5)]
    for name in pods:
        yard.pod(name)
    eventually(lambda: {yard.phase(name) for name in pods} == {"Running"}, within=30)
    replicas = {yard.given(name)["c"][0] for name in pods}
    assert replicas <= {f"{card}::{number}" for card in (G1, G2) for number in range(4)}
    assert len(replicas) == len(pods)
    cards = {replica.partition("::")[0] for replica in replicas}
    eventually(lambda: set(yard.usage()) == cards)
    eventually(lambda: set(yard.shown()) == cards, pause=1)
    found = yard.scrape()
    assert [labels["UUID"] for labels, _ in found["DCGM_FI_DEV_GPU_UTIL"]] == [G1, G2]
    busy = [(labels["UUID"], value) for labels, value in found["DCGM_FI_DEV_GPU_UTIL"] if value]
    assert busy == [(card, 100) for card in (G1, G2) if card in cards]
    assert {value for _, value in found["DCGM_FI_DEV_FB_USED"] if value} == {11441}


@pytest.mark.row("M-53", case="sidecar")
def test_a_sidecars_device_is_given_by_rule_beside_the_mains_exact_one(yard: Yard) -> None:
    yard.pod(
        "p", containers=[{"name": "c", **ASKING}], initContainers=[{"name": "s", "restartPolicy": "Always", **ASKING}]
    )
    eventually(lambda: yard.given("p").get("c"), within=30)
    [main] = yard.given("p")["c"]
    owners = {main: "p/c", ({G1, G2} - {main}).pop(): "p/s"}
    eventually(lambda: yard.told() == owners, within=30)
    assert yard.held()[main] == "p/c"
    listed = {row["id"]: row["exact"] for row in gpu_list(yard)}
    assert listed == {device: owner == "p/c" for device, owner in owners.items()}


def gpu_list(yard: Yard) -> list[dict[str, Any]]:
    """What `gpuyard gpu list` says."""
    command = [sys.executable, "-m", "gpuyard.cli", "gpu", "list", "-o", "json"]
    found: list[dict[str, Any]] = json.loads(
        subprocess.check_output([*command, "--kubeconfig", str(yard.cluster.kubeconfig)])
    )
    return found


@pytest.mark.row("M-11")
def test_each_node_serves_its_own_gpus_all_together_and_none_twice(yard: Yard) -> None:
    yard.put(f"{yard.text()}  {yard.other}: {{gpu-memory: 5, gpu-product: Tesla-K80, gpus: [{{}}, {{}}, {{}}]}}\n")
    served: dict[str, list[str]] = {}

    def serve() -> list[int]:
        for node in (yard.node, yard.other):
            found = yard.scrape(node)["DCGM_FI_DEV_GPU_UTIL"]
            assert {labels["Hostname"] for labels, _ in found} == {node}
            served[node] = [labels["UUID"] for labels, _ in found]
        return [len(served[yard.node]), len(served[yard.other])]

    eventually(lambda: len(yard.get("pods", "-n", NAMESPACE, "-l", DAEMONS)["items"]) == 2, within=60, pause=1)
    yard.kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "pod", "-l", DAEMONS, "--timeout=90s")
    eventually(lambda: serve() == [2, 3], pause=1)
    assert len({*served[yard.node], *served[yard.other]}) == 5


@pytest.mark.row("M-14")
@pytest.mark.row("M-53", case="init")
def test_a_running_init_container_is_named_and_the_pod_never_has_more_than_it_needs(yard: Yard) -> None:
    init = loop(12, 0) | {"name": "init"}
    yard.pod("p", containers=[{"name": "a", **ASKING}, {"name": "b", **ASKING}], initContainers=[init])
    eventually(lambda: "p/init" in yard.told().values(), within=30)
    assert sorted(yard.held()) == sorted(yard.told()) == [G1, G2]
    eventually(lambda: set(yard.told().values()) == {"p/a", "p/b"}, within=40)
    assert yard.told() == yard.stated() == yard.held()


@pytest.mark.row("M-29")
def test_a_pod_that_comes_back_under_its_name_has_one_set_of_series(yard: Yard) -> None:
    for _ in range(3):
        yard.pod("p")
        eventually(lambda: yard.shown() == yard.held() != {}, within=40, pause=0.5)
        assert len(yard.scrape()["DCGM_FI_DEV_GPU_UTIL"]) == 2
        yard.kubectl("delete", "pod", "p")
    eventually(lambda: yard.shown() == {}, within=10, pause=0.5)


@pytest.mark.row("M-31")
def test_a_polite_stop_leaves_no_socket_and_exits_0(yard: Yard) -> None:
    grace = yard.of("device-plugin")["spec"]["terminationGracePeriodSeconds"]

    def ended() -> dict[str, Any]:
        [status] = yard.of("device-plugin")["status"]["containerStatuses"]
        found: dict[str, Any] = status.get("lastState", {}).get("terminated", {})
        return found

    told = time.time()
    yard.inside("device-plugin", "import os, signal; os.kill(1, signal.SIGTERM)")
    eventually(lambda: ended().get("exitCode") == 0, within=20)
    assert datetime.fromisoformat(ended()["finishedAt"]).timestamp() - told < grace
    eventually(lambda: yard.gpus() == ("2", "2"), within=20)
    away = json.dumps({"spec": {"template": {"spec": {"nodeSelector": {"gpuyard.io/none": "true"}}}}})
    back = json.dumps({"spec": {"template": {"spec": {"nodeSelector": {"gpuyard.io/none": None}}}}})
    try:
        yard.kubectl("patch", "daemonset", "gpuyard-device-plugin", "-n", NAMESPACE, "--type=merge", "-p", away)
        eventually(lambda: "nvidia-gpu.sock" not in yard.on_node("ls", PLUGINS), within=30)
        eventually(lambda: yard.gpus() == ("2", "0"), within=30)
    finally:
        yard.kubectl("patch", "daemonset", "gpuyard-device-plugin", "-n", NAMESPACE, "--type=merge", "-p", back)
    eventually(lambda: yard.gpus() == ("2", "2"), within=60)


@pytest.mark.row("M-18", case="refuse-register")
def test_without_a_registration_a_restarted_kubelet_has_no_gpus(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    faults: [refuse-register]"))
    restart_kubelet(yard)
    eventually(lambda: yard.gpus() == ("0", "0"), within=30)
    yard.mend()


@pytest.mark.row("M-42")
def test_mig_slices_are_resources_labels_and_series_of_their_own(yard: Yard) -> None:
    gpus = "[{id: GPU-mig, mig: [{profile: 1g.5gb, count: 2}, {profile: 2g.10gb}]}]"
    product = "{gpu-memory: 40960, gpu-product: NVIDIA-A100-SXM4-40GB, gpus: " + gpus + "}"
    yard.put(f"mig-strategy: mixed\nnodes:\n  {yard.node}: {product}\n")
    small, big = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"
    eventually(
        lambda: (yard.gpus(), yard.gpus(small), yard.gpus(big)) == (("0", "0"), ("2", "2"), ("1", "1")), within=30
    )
    wanted = {"gpu.count": "1", "gpu.replicas": "0", "mig-1g.5gb.count": "2", "mig-1g.5gb.memory": "4864"}
    wanted |= {"mig-1g.5gb.multiprocessors": "14", "mig-2g.10gb.count": "1", "mig-2g.10gb.memory": "9856"}
    wanted |= {"mig-1g.5gb.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "mig.strategy": "mixed"}
    eventually(lambda: {name: yard.labels().get(f"nvidia.com/{name}") for name in wanted} == wanted)
    yard.pod("p", containers=[{"name": "c", **BARE, "resources": {"limits": {small: "1"}}}])
    eventually(lambda: yard.phase("p") == "Running", within=30)

    def busy() -> list[tuple[str, str, float]]:
        found = yard.scrape()["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
        return [(labels["GPU_I_PROFILE"], labels["pod"], value) for labels, value in found if "pod" in labels]

    eventually(lambda: busy() == [("1g.5gb", "p", 0.999917)], within=15, pause=1)
    found = yard.scrape()
    assert [(labels["UUID"], labels["GPU_I_ID"]) for labels, _ in found["DCGM_FI_DEV_FB_USED"]] == [
        ("GPU-mig", "7"),
        ("GPU-mig", "8"),
        ("GPU-mig", "5"),
    ]
    parts = [[value for _, value in found[f"DCGM_FI_DEV_FB_{part}"]] for part in ("FREE", "USED", "RESERVED")]
    assert [sum(slice_) for slice_ in zip(*parts, strict=True)] == [4864, 4864, 9856]
    assert "DCGM_FI_DEV_GPU_UTIL" not in found


CARDS = [f"GPU-{number}" for number in range(8)]
GHOSTS = 100
FULL = 30


def crowd(yard: Yard) -> str:
    """The worker with eight GPUs, and a hundred nodes that there are in the topology alone, with four each."""
    named = {f"ghost-{number}": [f"GPU-{number}-{index}" for index in range(4)] for number in range(GHOSTS)}
    cards = {yard.node: CARDS} | named
    body = {"gpu-memory": 11441, "gpu-product": "Tesla-K80"}
    return json.dumps({"nodes": {node: body | {"gpus": [{"id": id_} for id_ in ids]} for node, ids in cards.items()}})


@pytest.mark.alone
@pytest.mark.row("M-34")
def test_in_a_storm_of_pods_all_agree_on_who_has_which_gpu(yard: Yard) -> None:
    """Topology, pod status, pod resources and metrics, each second, while pods come and go on the worker and a
    thousand events more happen elsewhere."""
    yard.kubectl("create", "namespace", "storm")
    yard.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s", "--namespace", "storm")
    yard.put(crowd(yard))
    eventually(lambda: yard.gpus() == ("8", "8"), within=30)
    calls = [creating(number, f"ghost-{number % GHOSTS}", "storm") for number in range(4 * GHOSTS)]
    calls += [deleting(number, "storm") for number in range(4 * GHOSTS)]
    calls += [creating(1000 + number, f"ghost-{number % GHOSTS}", "storm") for number in range(2 * GHOSTS)]
    with ThreadPoolExecutor() as pool, Listening(yard, seconds=FULL) as heard:
        storm = pool.submit(rage, yard.cluster.kubeconfig, calls, "storm")
        rounds = come_and_go(yard, until=time.monotonic() + FULL - 10)
    yard.kubectl("delete", "namespace", "storm", "--wait=false")
    print(f"storm: {busiest(storm.result())} events in 10 s, {rounds} rounds on the worker")  # noqa: T201 - the figures of this run
    assert len(storm.result()) >= 1000
    assert len(heard.scrapes) > FULL / 2
    assert all(scrape == set(CARDS) for scrape in heard.scrapes)
    assert {word.by for word in heard.words if word.owners} == {"status", "topology", "kubelet", "metrics"}
    lasted, what = longest_difference(heard.words, CARDS)
    assert lasted <= 5, what


def come_and_go(yard: Yard, until: float) -> int:
    """Pods of one and two GPUs on the worker; how many rounds there were."""
    rounds = 0
    while time.monotonic() < until:
        names = [f"w{rounds}-{number}" for number in range(4)]
        for number, name in enumerate(names):
            yard.pod(name, 1 + number % 2)
        eventually(lambda names=names: {yard.phase(name) for name in names} == {"Running"}, within=40)  # type: ignore[misc]
        yard.kubectl("delete", "pods", *names)
        rounds += 1
    return rounds
