"""The mock on real kubelets: kind, the product image and the manifests that users get."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.sandbox import SandboxError, Spec, kind
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import product
from gpuyard.sandbox.progress import Progress

from tests.mock.daemons import NAMESPACE, eventually
from tests.mock.pages import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("kind"), pytest.mark.timeout(1800)]

GPU = "nvidia.com/gpu"
DAEMONS = "app.kubernetes.io/component=dcgm-exporter"
G1, G2 = "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1", "GPU-kdiue726-57ef-91f0-837f-qjk49djklsk8"
MANIFESTS = product.REPOSITORY / "manifests" / "base" / "mock"
IDLE = """\
mig-strategy: mixed
nodes:
  {node}:
    gpu-memory: 11441
    gpu-product: Tesla-K80{extra}
    gpus:
      - id: {g1}{first}
      - id: {g2}{second}
"""


class Yard:
    """A kind cluster with the mock on its worker."""

    def __init__(self, cluster: kind.Cluster) -> None:
        self.cluster = cluster
        self.kubectl = cluster.kubectl
        self.node = next(node for node in cluster.nodes if node.endswith("worker"))

    def text(self, first: str = "", second: str = "", extra: str = "") -> str:
        return IDLE.format(node=self.node, g1=G1, g2=G2, first=first, second=second, extra=extra)

    def put(self, text: str) -> None:
        meta = {"name": "topology", "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"topology.yml": text}}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body))

    def get(self, *what: str) -> Any:  # noqa: ANN401 - whatever kubectl prints
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def gpus(self, resource: str = GPU) -> tuple[str, str]:
        status = self.get("node", self.node)["status"]
        return status["capacity"].get(resource, ""), status["allocatable"].get(resource, "")

    def labels(self) -> dict[str, str]:
        found: dict[str, str] = self.get("node", self.node)["metadata"]["labels"]
        return found

    def usage(self) -> dict[str, Any]:
        text = self.get("configmap", "topology", "-n", NAMESPACE)["data"]["topology.yml"]
        return {
            gpu["id"]: gpu["metrics"]
            for node in yaml.safe_load(text)["nodes"].values()
            for gpu in node["gpus"]
            if "metrics" in gpu
        }

    def of(self, component: str, node: str = "") -> dict[str, Any]:
        """The pod of a DaemonSet on a node, the worker if none is named."""
        where = f"--field-selector=spec.nodeName={node or self.node}"
        chosen = ("-l", f"app.kubernetes.io/component={component}", where)
        [found] = self.get("pods", "-n", NAMESPACE, *chosen)["items"]
        return dict(found)

    def scrape(self, node: str = "") -> dict[str, list[tuple[dict[str, str], float]]]:
        """What a node's exporter serves, asked from inside: pod addresses are not reachable from here."""
        code = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9400/metrics').read().decode())"
        return samples(self.inside("dcgm-exporter", code, node))

    def inside(self, component: str, code: str, node: str = "") -> str:
        """What a line of Python prints in a component's pod."""
        name = self.of(component, node)["metadata"]["name"]
        return self.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", code)

    def pod_resources(self) -> dict[str, list[str]]:
        """The devices of all pods, by resource, as kubelet's pod resources socket says."""
        code = (
            "import asyncio, json; from gpuyard.device_plugin.kubelet import POD_RESOURCES, in_use; "
            "print(json.dumps({name: sorted(ids) for name, ids in asyncio.run(in_use(POD_RESOURCES)).items()}))"
        )
        found: dict[str, list[str]] = json.loads(self.inside("device-plugin", code))
        return found

    def pod(self, name: str, gpus: int = 1, **spec: object) -> None:
        container = {
            "name": "c",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"limits": {GPU: str(gpus)}},
        }
        wanted = {
            "nodeName": self.node,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "automountServiceAccountToken": False,
            **spec,
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": wanted}
        self.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def phase(self, name: str) -> str:
        return str(self.get("pod", name)["status"]["phase"])

    def given(self, name: str) -> dict[str, list[str]]:
        """The devices by container, as the pod's status says."""
        return {
            status["name"]: [
                d["resourceID"] for r in status.get("allocatedResourcesStatus", ()) for d in r["resources"]
            ]
            for status in self.get("pod", name)["status"].get("containerStatuses", ())
        }

    def on_node(self, *command: str) -> str:
        """Run a command on the worker's machine."""
        return self.cluster.docker.ask("exec", self.node, *command)


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


@pytest.mark.row("M-01")
def test_the_topologys_gpus_are_the_nodes_capacity_with_its_ids(yard: Yard) -> None:
    yard.pod("p", 2)
    eventually(lambda: sorted(yard.given("p").get("c", [])) == [G1, G2])


@pytest.mark.row("M-02")
def test_the_node_carries_memory_count_strategy_and_product(yard: Yard) -> None:
    wanted = {"gpu.memory": "11441", "gpu.count": "2", "mig.strategy": "mixed", "gpu.product": "Tesla-K80"}
    eventually(lambda: {name: yard.labels().get(f"nvidia.com/{name}") for name in wanted} == wanted)


@pytest.mark.row("M-03")
def test_metrics_written_in_the_topology_appear_with_every_label(yard: Yard) -> None:
    yard.kubectl("scale", "-n", NAMESPACE, "deployment/gpuyard-status-updater", "--replicas=0")
    used = "\n        metrics: {{metadata: {{namespace: a, pod: p, container: c}}, utilization: {}, fb-used: {}}}"
    try:
        yard.put(yard.text(used.format(10, 5000), used.format(100, 10000)))
        eventually(lambda: [value for _, value in yard.scrape()["DCGM_FI_DEV_GPU_UTIL"]] == [10, 100], pause=1)
        found = yard.scrape()
        assert [value for _, value in found["DCGM_FI_DEV_FB_USED"]] == [5000, 10000]
        assert [value for _, value in found["DCGM_FI_DEV_FB_FREE"]] == [6441, 1441]
        labels = found["DCGM_FI_DEV_FB_USED"][0][0]
        assert labels.items() >= {"gpu": "0", "UUID": G1, "device": "nvidia0", "modelName": "Tesla-K80"}.items()
        assert labels.items() >= {"Hostname": yard.node, "container": "c", "namespace": "a", "pod": "p"}.items()
    finally:
        yard.kubectl("scale", "-n", NAMESPACE, "deployment/gpuyard-status-updater", "--replicas=1")


@pytest.mark.row("M-04", case="known")
def test_a_pod_that_asks_for_a_gpu_runs(yard: Yard) -> None:
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)


@pytest.mark.row("M-05")
def test_a_running_pod_is_written_onto_kubelets_device_within_five_seconds(yard: Yard) -> None:
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)
    [device] = yard.given("p")["c"]
    metadata = {"namespace": "default", "pod": "p", "container": "c"}
    wanted = {device: {"metadata": metadata, "utilization": 100, "fb-used": 11441}}
    eventually(lambda: yard.usage() == wanted, within=5)


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
    eventually(lambda: yard.usage() == {}, within=5)


@pytest.mark.row("M-08")
def test_the_third_pod_for_two_gpus_waits(yard: Yard) -> None:
    for name in ("a", "b"):
        yard.pod(name)
    eventually(lambda: {yard.phase("a"), yard.phase("b")} == {"Running"}, within=30)
    yard.pod("c", schedulerName="default-scheduler", nodeName="")
    time.sleep(3)
    assert yard.phase("c") == "Pending"
    assert len(yard.usage()) == 2


@pytest.mark.row("M-12")
@pytest.mark.row("M-13")
def test_each_container_is_named_on_the_device_that_kubelet_gave_it(yard: Yard) -> None:
    bare = {"image": "registry.k8s.io/pause:3.10"}
    asking = {"resources": {"limits": {GPU: "1"}}}
    yard.pod(
        "p", containers=[{"name": "none", **bare}, {"name": "a", **bare, **asking}, {"name": "b", **bare, **asking}]
    )
    eventually(lambda: len(yard.usage()) == 2, within=30)
    given = yard.given("p")
    owners = {device: usage["metadata"]["container"] for device, usage in yard.usage().items()}
    assert owners == {given["a"][0]: "a", given["b"][0]: "b"}
    eventually(
        lambda: (
            {labels["UUID"]: labels.get("container") for labels, _ in yard.scrape()["DCGM_FI_DEV_GPU_UTIL"]} == owners
        ),
        pause=1,
    )


@pytest.mark.row("M-15", case="idle")
@pytest.mark.row("M-16")
def test_an_unhealthy_gpu_leaves_allocatable_and_comes_back(yard: Yard) -> None:
    before = yard.of("device-plugin")["metadata"]["uid"]
    yard.put(yard.text(first="\n        health: unhealthy"))
    eventually(lambda: yard.gpus() == ("2", "1"), within=5)
    yard.put(yard.text())
    eventually(lambda: yard.gpus() == ("2", "2"), within=5)
    assert yard.of("device-plugin")["metadata"]["uid"] == before


@pytest.mark.row("M-15", case="in-use")
def test_a_used_gpu_that_gets_unhealthy_shows_in_its_pods_status_and_the_pod_lives(yard: Yard) -> None:
    yard.pod("p", 2)
    eventually(lambda: yard.phase("p") == "Running", within=30)
    yard.put(yard.text(first="\n        health: unhealthy"))

    def health() -> set[str]:
        [status] = yard.get("pod", "p")["status"]["containerStatuses"]
        return {
            d["health"] for r in status["allocatedResourcesStatus"] for d in r["resources"] if d["resourceID"] == G1
        }

    eventually(lambda: health() == {"Unhealthy"}, within=5)
    assert yard.phase("p") == "Running"


@pytest.mark.row("M-17")
def test_a_failing_allocation_ends_its_pod_and_the_next_one_runs(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    faults: [allocate-error]"))
    time.sleep(2)
    yard.pod("p")
    eventually(lambda: yard.get("pod", "p")["status"].get("reason") == "UnexpectedAdmissionError", within=15)
    yard.put(yard.text())
    time.sleep(2)
    yard.pod("q")
    eventually(lambda: yard.phase("q") == "Running", within=30)


@pytest.mark.row("M-18", case="drop-stream")
def test_a_dropped_stream_takes_allocatable_and_heals(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    faults: [drop-stream]"))
    eventually(lambda: yard.gpus() == ("2", "0"), within=20)
    yard.put(yard.text())
    eventually(lambda: yard.gpus() == ("2", "2"), within=15)


@pytest.mark.row("M-18", case="slow-allocate")
def test_a_slow_allocation_delays_its_pod(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    faults: [slow-allocate=3s]"))
    time.sleep(2)
    began = time.monotonic()
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)
    assert time.monotonic() - began >= 3


@pytest.mark.row("M-18", case="crash")
def test_a_crash_shows_as_one_restart(yard: Yard) -> None:
    def restarts() -> int:
        return int(yard.of("device-plugin")["status"]["containerStatuses"][0]["restartCount"])

    before = restarts()
    yard.put(yard.text(extra="\n    faults: [crash]"))
    eventually(lambda: restarts() == before + 1, within=20)
    yard.put(yard.text())
    eventually(lambda: yard.gpus() == ("2", "2"), within=15)


@pytest.mark.row("M-20")
def test_an_added_gpu_is_capacity_label_and_series_within_ten_seconds(yard: Yard) -> None:
    names = ("device-plugin", "dcgm-exporter")
    before = [yard.of(name)["metadata"]["uid"] for name in names]
    yard.put(yard.text() + "      - id: GPU-third\n")
    began = time.monotonic()
    eventually(lambda: yard.gpus() == ("3", "3"), within=10)
    eventually(lambda: yard.labels()["nvidia.com/gpu.count"] == "3", within=10)
    eventually(lambda: len(yard.scrape()["DCGM_FI_DEV_GPU_UTIL"]) == 3, within=10)
    assert time.monotonic() - began < 10
    assert [yard.of(name)["metadata"]["uid"] for name in names] == before


@pytest.mark.row("M-21", case="idle")
def test_an_idle_gpu_that_is_removed_is_gone(yard: Yard) -> None:
    yard.put(yard.text().replace(f"      - id: {G2}\n", ""))
    eventually(lambda: yard.gpus() == ("1", "1"), within=15)


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
    yard.put(yard.text().replace("11441", "16280").replace("Tesla-K80", "Tesla-V100"))
    eventually(lambda: yard.labels()["nvidia.com/gpu.memory"] == "16280")
    eventually(lambda: yard.labels()["nvidia.com/gpu.product"] == "Tesla-V100")
    eventually(lambda: {value for _, value in yard.scrape()["DCGM_FI_DEV_FB_FREE"]} == {16280}, pause=1)
    assert {labels["modelName"] for labels, _ in yard.scrape()["DCGM_FI_DEV_FB_FREE"]} == {"Tesla-V100"}


@pytest.mark.row("M-23")
def test_a_broken_topology_is_reported_with_its_line_and_the_last_good_one_stays(yard: Yard) -> None:
    yard.put("nodes:\n  n:\n    colour: red\n")

    def told() -> list[str]:
        events = yard.get("events", "-n", NAMESPACE)["items"]
        return [
            each["message"] for each in events if each["reason"] == "TopologyRefused" and "line 3" in each["message"]
        ]

    eventually(told)
    assert "nodes.n.colour" in told()[0]
    assert yard.gpus() == ("2", "2")
    yard.put(yard.text() + "      - id: GPU-third\n")
    eventually(lambda: yard.gpus() == ("3", "3"))


def restart_kubelet(yard: Yard) -> None:
    yard.on_node("systemctl", "restart", "kubelet")


@pytest.mark.row("M-27")
@pytest.mark.row("M-54")
def test_ten_kubelet_restarts_in_a_row_are_survived_with_the_same_ids(yard: Yard) -> None:
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)
    before = yard.given("p")
    uid = yard.get("pod", "p")["metadata"]["uid"]
    for _ in range(10):
        restart_kubelet(yard)
        eventually(lambda: yard.on_node("ls", "/var/lib/kubelet/device-plugins/").count(".sock") >= 2, within=10)
        eventually(lambda: yard.gpus() == ("2", "2"), within=20)
    assert yard.given("p") == before
    assert (yard.phase("p"), yard.get("pod", "p")["metadata"]["uid"]) == ("Running", uid)


@pytest.mark.row("M-28")
def test_a_restarted_plugin_offers_the_same_gpus(yard: Yard) -> None:
    yard.pod("p")
    eventually(lambda: yard.phase("p") == "Running", within=30)
    before = yard.given("p")
    yard.kubectl("delete", "pod", "-n", NAMESPACE, yard.of("device-plugin")["metadata"]["name"])
    yard.kubectl("-n", NAMESPACE, "rollout", "status", "daemonset/gpuyard-device-plugin", "--timeout=60s")
    eventually(lambda: yard.gpus() == ("2", "2"), within=15)
    assert (yard.given("p"), yard.phase("p")) == (before, "Running")


@pytest.mark.row("M-32")
def test_another_resource_has_its_own_socket_and_count(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    otherDevices: [{name: example.com/x, count: 3}]"))
    eventually(lambda: yard.gpus("example.com/x") == ("3", "3"), within=15)
    assert "example.com-x.sock" in yard.on_node("ls", "/var/lib/kubelet/device-plugins/")


@pytest.mark.row("M-52")
def test_time_slicing_multiplies_capacity_and_the_metrics_show_the_card(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    sharing: {strategy: time-slicing, replicas: 4}"))
    eventually(lambda: yard.gpus() == ("8", "8"), within=20)
    eventually(lambda: yard.labels()["nvidia.com/gpu.replicas"] == "4")
    assert yard.labels()["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    assert yard.labels()["nvidia.com/gpu.product"] == "Tesla-K80-SHARED"
    yard.pod("p", 1)
    eventually(lambda: yard.phase("p") == "Running", within=30)
    [replica] = yard.given("p")["c"]
    assert "::" in replica
    eventually(lambda: list(yard.usage()) == [replica.partition("::")[0]])


@pytest.mark.row("M-53", case="sidecar")
def test_a_sidecars_device_is_given_by_rule_beside_the_mains_exact_one(yard: Yard) -> None:
    bare = {"image": "registry.k8s.io/pause:3.10", "resources": {"limits": {GPU: "1"}}}
    yard.pod("p", containers=[{"name": "c", **bare}], initContainers=[{"name": "s", "restartPolicy": "Always", **bare}])
    eventually(lambda: yard.given("p").get("c"), within=30)
    [main] = yard.given("p")["c"]
    owners = {main: "c", ({G1, G2} - {main}).pop(): "s"}

    def told() -> dict[str, str]:
        return {device: usage["metadata"]["container"] for device, usage in yard.usage().items()}

    eventually(lambda: told() == owners, within=30)


@pytest.mark.row("M-11")
def test_each_node_serves_its_own_gpus_all_together_and_none_twice(yard: Yard) -> None:
    other = next(node for node in yard.cluster.nodes if node.endswith("control-plane"))
    yard.put(f"{yard.text()}  {other}: {{gpu-memory: 5, gpu-product: Tesla-K80, gpus: [{{}}, {{}}, {{}}]}}\n")
    served: dict[str, list[str]] = {}

    def serve() -> list[int]:
        for node in (yard.node, other):
            found = yard.scrape(node)["DCGM_FI_DEV_GPU_UTIL"]
            assert {labels["Hostname"] for labels, _ in found} == {node}
            served[node] = [labels["UUID"] for labels, _ in found]
        return [len(served[yard.node]), len(served[other])]

    eventually(lambda: len(yard.get("pods", "-n", NAMESPACE, "-l", DAEMONS)["items"]) == 2, within=60, pause=1)
    yard.kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "pod", "-l", DAEMONS, "--timeout=90s")
    eventually(lambda: serve() == [2, 3], pause=1)
    assert not set(served[yard.node]) & set(served[other])


@pytest.mark.row("M-14")
@pytest.mark.row("M-53", case="init")
def test_a_running_init_container_is_named_and_the_pod_never_has_more_than_it_needs(yard: Yard) -> None:
    bare = {"image": "registry.k8s.io/pause:3.10", "resources": {"limits": {GPU: "1"}}}
    init = loop(12, 0) | {"name": "init"}
    yard.pod("p", containers=[{"name": "a", **bare}, {"name": "b", **bare}], initContainers=[init])

    def owners() -> dict[str, str]:
        return {device: usage["metadata"]["container"] for device, usage in yard.usage().items()}

    eventually(lambda: "init" in owners().values(), within=30)
    assert sorted(yard.pod_resources()[GPU]) == [G1, G2]
    assert len(owners()) == 2
    eventually(lambda: set(owners().values()) == {"a", "b"}, within=40)
    given = yard.given("p")
    assert owners() == {given["a"][0]: "a", given["b"][0]: "b"}
    assert sorted(yard.pod_resources()[GPU]) == sorted(owners())


@pytest.mark.row("M-29")
def test_a_pod_that_comes_back_under_its_name_has_one_set_of_series(yard: Yard) -> None:
    def named() -> list[str]:
        found = yard.scrape()["DCGM_FI_DEV_GPU_UTIL"]
        return [labels["UUID"] for labels, _ in found if labels.get("pod") == "p"]

    for _ in range(3):
        yard.pod("p")
        eventually(lambda: yard.given("p").get("c", []) == named() != [], within=40, pause=0.5)
        yard.kubectl("delete", "pod", "p")
    eventually(lambda: named() == [], within=10, pause=0.5)


@pytest.mark.row("M-31")
def test_a_polite_stop_leaves_no_socket_and_exits_0(yard: Yard) -> None:
    def ended() -> dict[str, Any]:
        [status] = yard.of("device-plugin")["status"]["containerStatuses"]
        found: dict[str, Any] = status.get("lastState", {}).get("terminated", {})
        return found

    yard.inside("device-plugin", "import os, signal; os.kill(1, signal.SIGTERM)")
    eventually(lambda: ended().get("exitCode") == 0, within=20)
    eventually(lambda: yard.gpus() == ("2", "2"), within=20)
    away = json.dumps({"spec": {"template": {"spec": {"nodeSelector": {"gpuyard.io/none": "true"}}}}})
    back = json.dumps({"spec": {"template": {"spec": {"nodeSelector": {"gpuyard.io/none": None}}}}})
    try:
        yard.kubectl("patch", "daemonset", "gpuyard-device-plugin", "-n", NAMESPACE, "--type=merge", "-p", away)
        eventually(lambda: "nvidia-gpu.sock" not in yard.on_node("ls", "/var/lib/kubelet/device-plugins/"), within=30)
        eventually(lambda: yard.gpus() == ("2", "0"), within=30)
    finally:
        yard.kubectl("patch", "daemonset", "gpuyard-device-plugin", "-n", NAMESPACE, "--type=merge", "-p", back)
    eventually(lambda: yard.gpus() == ("2", "2"), within=60)


@pytest.mark.row("M-18", case="refuse-register")
def test_without_a_registration_a_restarted_kubelet_has_no_gpus(yard: Yard) -> None:
    yard.put(yard.text(extra="\n    faults: [refuse-register]"))
    restart_kubelet(yard)
    eventually(lambda: yard.gpus() == ("0", "0"), within=30)
    yard.put(yard.text())
    eventually(lambda: yard.gpus() == ("2", "2"), within=15)


@pytest.mark.row("M-42")
def test_mig_slices_are_resources_labels_and_series_of_their_own(yard: Yard) -> None:
    gpus = "[{id: GPU-mig, mig: [{profile: 1g.5gb, count: 2}, {profile: 2g.10gb}]}]"
    product = "{gpu-memory: 40960, gpu-product: NVIDIA-A100-SXM4-40GB, gpus: " + gpus + "}"
    yard.put(f"mig-strategy: mixed\nnodes:\n  {yard.node}: {product}\n")
    small, big = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"
    eventually(
        lambda: (yard.gpus(), yard.gpus(small), yard.gpus(big)) == (("0", "0"), ("2", "2"), ("1", "1")), within=30
    )
    eventually(lambda: yard.labels().get("nvidia.com/mig-1g.5gb.count") == "2")
    assert yard.labels()["nvidia.com/gpu.replicas"] == "0"
    bare = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"limits": {small: "1"}}}
    yard.pod("p", containers=[bare])
    eventually(lambda: yard.phase("p") == "Running", within=30)

    def busy() -> list[tuple[str, str]]:
        found = yard.scrape()["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
        return [(labels["GPU_I_PROFILE"], labels["pod"]) for labels, value in found if value > 0.9 and "pod" in labels]

    eventually(lambda: busy() == [("1g.5gb", "p")], within=15, pause=1)
    series = [(labels["UUID"], labels["GPU_I_ID"]) for labels, _ in yard.scrape()["DCGM_FI_DEV_FB_USED"]]
    assert series == [("GPU-mig", "7"), ("GPU-mig", "8"), ("GPU-mig", "5")]
