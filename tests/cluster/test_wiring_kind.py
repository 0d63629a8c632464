"""The other ways to wire kube-scheduler to the extender, each brought up on real kubelets: apart, in one pod, secured.

One cluster, on which they are installed and uninstalled in turn. Its own kube-scheduler knows nothing of gpuyard, until
the last tests tell it to ask with certificates.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.sandbox import SandboxError, Spec, kind
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import config, product
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.rendering import MANIFESTS

from tests.cluster.everything import everything
from tests.documents.blocks import DOCS, blocks, typed_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.ground("kind"), pytest.mark.timeout(1500), pytest.mark.story]

GPU, MOCK = "nvidia.com/gpu", "gpuyard-mock"
UP_WITHIN = 300
TOLERATION = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}


def eventually(check: Callable[[], object], within: float = 120) -> None:
    """Wait until the check holds; what it last was is in the failure."""
    begin = time.monotonic()
    while not (last := check()):
        assert time.monotonic() - begin < within, f"still {last!r} after {within} s"
        time.sleep(0.5)


@dataclass(frozen=True)
class Yard:
    """The cluster, and what was in it before."""

    cluster: kind.Cluster
    before: set[str]

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl(*arguments, stdin=stdin)

    def get(self, *what: str) -> Any:  # noqa: ANN401 - whatever kubectl prints
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    @property
    def node(self) -> str:
        """The only node."""
        (name,) = self.cluster.nodes
        return name

    def give_gpus(self) -> None:
        """Put GPUs onto the node that no kubelet looks after: nothing of the pods has to run, only to be placed."""
        counts = {"capacity": {GPU: "4"}, "allocatable": {GPU: "4"}}
        self.kubectl("patch", "node", self.node, "--subresource=status", "-p", json.dumps({"status": counts}))

    def install(self, overlay: str) -> None:
        """Apply an overlay, and a queue with a limit of one GPU."""
        self.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / "overlays" / overlay))
        self.kubectl("wait", "--for=condition=established", "--timeout=60s", "crd", "--all")
        limits = {"resources": {"gpu": {"quota": 1, "limit": 1}}}
        queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "one"}, "spec": limits}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(queue))

    def comes_up(self, *deployments: str) -> None:
        for name in deployments:
            self.kubectl("-n", "gpuyard", "rollout", "status", f"deployment/{name}", f"--timeout={UP_WITHIN}s")

    def create(self, name: str, scheduler: str) -> None:
        meta = {"name": name, "labels": {"kai.scheduler/queue": "one"}}
        container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"limits": {GPU: "1"}}}
        spec = {"schedulerName": scheduler, "containers": [container], "tolerations": [TOLERATION]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec | {"terminationGracePeriodSeconds": 0}}
        self.kubectl("create", "-f", "-", stdin=json.dumps(pod))

    def placed(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.get("pods")["items"] if pod["spec"].get("nodeName")}

    def verdict(self, name: str) -> str:
        """Why a pod waits, in kube-scheduler's words."""
        path = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}"
        return self.kubectl("get", "pod", name, "--output", path)

    def gpuyard(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "gpuyard.cli", *arguments, f"--kubeconfig={self.cluster.kubeconfig}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def yard(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """A cluster of one node, whose kube-scheduler is as kubeadm makes it."""
    name = next(sandbox_names)
    plain = tmp_path_factory.mktemp("plain") / "scheduler.yaml"
    plain.write_text(yaml.safe_dump({"apiVersion": config.ours("")["apiVersion"], "kind": config.ours("")["kind"]}))
    try:
        made = kind.up(Spec(name=name, nodes=0, scheduler_config=plain))
        made.load(product.build(made.docker, Folders.of_user(), Progress()))
        ready = Yard(made, everything(made))
        ready.give_gpus()
        yield ready
    except SandboxError as error:
        pytest.fail(f"gpuyard cannot be applied on kind: {error}", pytrace=False)
    finally:
        kind.down(name)


def content(yard: Yard) -> bool:
    """Whether the doctor finds nothing; what it last found is in the output of a test that fails."""
    command = [sys.executable, "-m", "gpuyard.cli", "doctor", f"--kubeconfig={yard.cluster.kubeconfig}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    print(done.stdout, done.stderr)  # noqa: T201 - see above
    return done.returncode == 0


def holds_the_queue(yard: Yard, scheduler: str) -> None:
    """One pod gets its GPU, the one over the limit is refused in our words; the doctor is content, and both go."""
    yard.give_gpus()
    yard.create("first", scheduler)
    eventually(lambda: yard.placed() == {"first"})
    yard.create("second", scheduler)
    eventually(lambda: "limit of 1 GPU" in yard.verdict("second"))
    assert yard.placed() == {"first"}
    eventually(lambda: content(yard), UP_WITHIN)
    yard.kubectl("delete", "pods", "--all", "--now")


def goes(yard: Yard) -> None:
    """Uninstalled, nothing is left, Jobs and their pods included."""
    yard.kubectl("delete", "queues.scheduling.run.ai", "--all")
    yard.gpuyard("uninstall", "--yes", "extender")
    eventually(lambda: everything(yard.cluster) == yard.before)


def test_a_second_scheduler_and_the_extender_come_up_apart(yard: Yard) -> None:
    yard.install("second-scheduler")
    yard.comes_up("gpuyard-extender", "gpuyard-scheduler")


def test_it_holds_queues_for_pods_that_name_it(yard: Yard) -> None:
    holds_the_queue(yard, "kai-scheduler")


def test_it_goes_and_leaves_nothing(yard: Yard) -> None:
    goes(yard)


def test_both_come_up_in_one_pod(yard: Yard) -> None:
    yard.install("one-pod")
    yard.comes_up("gpuyard-extender")
    (pod,) = yard.get("pods", "-n", "gpuyard")["items"]
    assert {each["name"] for each in pod["status"]["containerStatuses"] if each["ready"]} == {
        "extender",
        "kube-scheduler",
    }


def test_it_holds_queues_likewise(yard: Yard) -> None:
    holds_the_queue(yard, "kai-scheduler")


def test_a_new_pod_takes_over_from_the_old_one(yard: Yard) -> None:
    yard.kubectl("-n", "gpuyard", "rollout", "restart", "deployment/gpuyard-extender")
    yard.comes_up("gpuyard-extender")
    holds_the_queue(yard, "kai-scheduler")


def test_it_goes_and_leaves_nothing_either(yard: Yard) -> None:
    goes(yard)


# --- certificates, and the cluster's own kube-scheduler ---


def test_with_certificates_the_extender_comes_up_once_the_cluster_has_made_them(yard: Yard) -> None:
    yard.install("mtls")
    yard.comes_up("gpuyard-extender")
    names = {secret["metadata"]["name"] for secret in yard.get("secrets", "-n", "gpuyard")["items"]}
    assert names == {"gpuyard-authority", "gpuyard-extender-tls", "gpuyard-scheduler-tls"}


SETTINGS, STATIC_POD = "/etc/kubernetes/gpuyard", "/etc/kubernetes/manifests/kube-scheduler.yaml"
TOLD = {"install.md": "Wire kube-scheduler", "security.md": "Certificates"}


def tell_kube_scheduler(yard: Yard, folder: Path) -> None:
    """Give the cluster's kube-scheduler the shipped configuration and its files, as administrators are told to."""
    [[_, saved], [again]] = (typed_in(DOCS / name, section) for name, section in TOLD.items())
    assert saved == again
    yard.gpuyard(*saved.replace(SETTINGS, str(folder)).split()[1:])
    shutil.copy(MANIFESTS / "kube-scheduler" / "config-mtls.yaml", folder / "config.yaml")
    docker, made = yard.cluster.docker, folder / "kube-scheduler.yaml"
    docker.ask("cp", str(folder), f"{yard.node}:{SETTINGS}")
    made.write_text(yaml.safe_dump(asking(yaml.safe_load(docker.ask("exec", yard.node, "cat", STATIC_POD)))))
    # At once, and from a folder of which kubelet does not read half a file.
    docker.ask("cp", str(made), f"{yard.node}:/etc/kubernetes/")
    docker.ask("exec", yard.node, "mv", f"/etc/kubernetes/{made.name}", STATIC_POD)
    eventually(lambda: asks(yard), UP_WITHIN)


def asking(pod: dict[str, Any]) -> dict[str, Any]:
    """The static pod with what the document tells to add, in the place of what kind has told it."""
    [added] = [
        yaml.safe_load(block.text)["spec"] for block in blocks(DOCS / "install.md") if block.text.startswith("spec:")
    ]
    [container], [more] = pod["spec"]["containers"], added["containers"]
    assert container["name"] == more["name"]
    container["command"] = [word for word in container["command"] if not word.startswith("--config=")]
    for to, what in ((container, more), (pod["spec"], added)):
        for key in {"command", "volumeMounts", "volumes"} & what.keys():
            to[key] += what[key]
    return pod


def asks(yard: Yard) -> bool:
    """Whether the kube-scheduler that was told so is the one that runs."""
    [pod] = yard.get("pods", "-n", "kube-system", "-l", "component=kube-scheduler")["items"]
    ready = all(each["ready"] for each in pod["status"].get("containerStatuses", [{"ready": False}]))
    return ready and f"--config={SETTINGS}/config.yaml" in pod["spec"]["containers"][0]["command"]


def test_the_clusters_own_kube_scheduler_asks_over_it(yard: Yard, tmp_path: Path) -> None:
    tell_kube_scheduler(yard, tmp_path / "gpuyard")
    holds_the_queue(yard, "default-scheduler")


def test_renewed_by_the_daily_run_it_goes_on(yard: Yard) -> None:
    before = yard.get("secret", "gpuyard-extender-tls", "-n", "gpuyard")["data"]["tls.crt"]
    yard.kubectl("-n", "gpuyard", "delete", "secret", "gpuyard-extender-tls", "gpuyard-scheduler-tls")
    yard.kubectl("-n", "gpuyard", "create", "job", "--from=cronjob/gpuyard-certificates", "again")
    yard.kubectl("-n", "gpuyard", "wait", "--for=condition=complete", "job/again", f"--timeout={UP_WITHIN}s")
    assert yard.get("secret", "gpuyard-extender-tls", "-n", "gpuyard")["data"]["tls.crt"] != before
    holds_the_queue(yard, "default-scheduler")


def test_the_secured_way_goes_and_leaves_nothing(yard: Yard) -> None:
    goes(yard)


# --- the mock for nodes that KWOK plays ---

PLAYED = "kwok-1"
GPUS = "2"
TOPOLOGY = f"nodes: {{{PLAYED}: {{gpu-product: Tesla-K80, gpu-memory: 11441, gpus: [{{}}, {{}}]}}}}"


@pytest.fixture
def played(yard: Yard) -> Iterator[str]:
    """A node without a kubelet that is ready, as KWOK makes one; it goes again."""
    meta = {"name": PLAYED, "labels": {"type": "kwok"}, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    yard.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": meta}))
    yield PLAYED
    yard.kubectl("delete", "node", PLAYED)


def status(yard: Yard, node: str) -> dict[str, Any]:
    """The node's status, in which it has just said again that it is ready: else it counts as lost after 40 s."""
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Played"}]}}
    yard.kubectl("patch", "node", node, "--subresource=status", "-p", json.dumps(ready))
    return yard.get("node", node)["status"]  # type: ignore[no-any-return]


def test_the_mock_without_daemon_sets_comes_up_and_gives_gpus_to_a_played_node(yard: Yard, played: str) -> None:
    yard.kubectl("apply", "--validate=strict", "-k", str(MANIFESTS / "overlays" / "kwok"))
    meta = {"name": "topology", "namespace": MOCK}
    topology = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"topology.yml": TOPOLOGY}}
    yard.kubectl("apply", "-f", "-", stdin=json.dumps(topology))
    for each in ("status-updater", "gfd", "dcgm-exporter-kwok"):
        yard.kubectl("-n", MOCK, "rollout", "status", f"deployment/gpuyard-{each}", f"--timeout={UP_WITHIN}s")
    eventually(lambda: status(yard, played).get("allocatable", {}).get(GPU) == GPUS)
    eventually(lambda: yard.get("node", played)["metadata"]["labels"].get(f"{GPU}.count") == GPUS)
    yard.gpuyard("uninstall", "--yes", "mock")
    assert GPU not in status(yard, played).get("capacity", {})


def test_it_goes_with_that_node_and_leaves_nothing(yard: Yard) -> None:
    def nothing_left() -> bool:
        # What DaemonSets of others wanted to run there waits for a kubelet for good.
        elsewhere = ("-A", f"--field-selector=spec.nodeName!={yard.node}", "--force", "--grace-period=0")
        yard.kubectl("delete", "pods", *elsewhere)
        return everything(yard.cluster) == yard.before

    eventually(nothing_left, UP_WITHIN)
