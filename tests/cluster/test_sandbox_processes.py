"""Ground "processes": what a sandbox of real processes promises, shown on real ones."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import Cluster, SandboxError, Spec, down, find, names, ports, processes, up
from gpuyard.sandbox.folders import Folders

from tests.cluster.share import others_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.conftest import MakeSandbox

pytestmark = pytest.mark.ground("processes")

SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ALL = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}


def eventually(check: Callable[[], object], within: float = 60) -> None:
    """Wait until the check holds; what it last was is in the failure."""
    deadline = time.monotonic() + within
    while not (last := check()):
        assert time.monotonic() < deadline, f"still {last!r} after {within} s"
        time.sleep(0.1)


def pod(
    name: str,
    gpus: int = 1,
    run_for: str | None = None,
    grace: int = 1,
    scheduler: str = "default-scheduler",
) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    annotations = {"gpuyard.io/run-for": run_for} if run_for else {}
    spec = {"terminationGracePeriodSeconds": grace, "schedulerName": scheduler, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}


class Room:
    """A namespace of a sandbox, and what its pods are doing."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, stdin=stdin)

    def create(self, *objects: dict[str, Any]) -> None:
        for each in objects:
            self.kubectl("create", "-f", "-", stdin=json.dumps(each))

    def pods(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
        return {each["metadata"]["name"]: each for each in found}

    def phases(self) -> dict[str, str]:
        return {name: each["status"]["phase"] for name, each in self.pods().items()}


@pytest.fixture(scope="module")
def wreck_name(sandbox_names: Iterator[str]) -> Iterator[str]:
    yield (name := next(sandbox_names))
    down(name)


@pytest.fixture
def wreck(wreck_name: str) -> Cluster:
    """A sandbox to break; `up` makes it whole again before each test."""
    return up(Spec(name=wreck_name, nodes=1))


@pytest.fixture
def room(sandbox: Cluster, namespace: str) -> Room:
    return Room(sandbox, namespace)


@pytest.mark.alone
def test_a_sandbox_is_up_within_15_seconds_with_all_its_gpus(make_sandbox: MakeSandbox) -> None:
    share, begin = others_share(), time.monotonic()
    cluster = make_sandbox(Spec(nodes=3, gpus=5))
    assert time.monotonic() - begin < 15 * share
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes] == ["5"] * 3


def test_the_default_scheduler_binds_pods_to_gpus_and_they_run(room: Room) -> None:
    room.create(pod("a", gpus=8), pod("b", gpus=8), pod("too-big", gpus=9))
    eventually(lambda: room.phases() == {"a": "Running", "b": "Running", "too-big": "Pending"})
    bound = room.pods()
    assert bound["a"]["spec"]["nodeName"] != bound["b"]["spec"]["nodeName"]


def test_a_pod_runs_until_its_annotation_says_otherwise(room: Room) -> None:
    room.create(
        pod("short", run_for="1s"),
        pod("misspelt", run_for="a while"),
        pod("endless"),
    )
    eventually(lambda: room.phases() == {"short": "Succeeded", "misspelt": "Running", "endless": "Running"})


def test_a_pod_of_a_job_runs_on_too(room: Room) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    room.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}})
    eventually(lambda: list(room.phases().values()) == ["Running"])
    time.sleep(3)
    assert list(room.phases().values()) == ["Running"]


def test_a_deleted_pod_takes_its_grace_period(room: Room) -> None:
    room.create(pod("slow", grace=4))
    eventually(lambda: room.phases() == {"slow": "Running"})
    begin = time.monotonic()
    room.kubectl("delete", "pod", "slow", "--wait=false")
    assert "deletionTimestamp" in room.pods()["slow"]["metadata"]
    eventually(lambda: not room.pods())
    assert time.monotonic() - begin >= 3


def test_a_pod_runs_that_has_the_name_of_one_that_was_deleted_at_once(room: Room) -> None:
    pods = f"/api/v1/namespaces/{room.namespace}/pods"
    with room.cluster.api() as api:
        for _ in range(30):
            api.create(pods, pod("again"))
            eventually(lambda: [one["status"]["phase"] for one in api.items(pods)] == ["Running"], 20)
            api.delete_all(f"{pods}/again?gracePeriodSeconds=0")


def test_the_audit_log_says_who_did_what(sandbox: Cluster, room: Room) -> None:
    room.create(pod("seen"))
    eventually(lambda: room.phases() == {"seen": "Running"})
    entries = [json.loads(line) for line in sandbox.audit_log.read_text().splitlines()]
    bindings = [each for each in entries if each.get("objectRef", {}).get("subresource") == "binding"]
    assert {each["user"]["username"] for each in bindings} == {"system:kube-scheduler"}


def test_up_twice_changes_nothing(wreck: Cluster) -> None:
    before = wreck.processes
    again = up(Spec(name=wreck.name, nodes=1))
    assert again.processes == before
    assert again.api_url == wreck.api_url


def test_up_adds_what_is_missing_and_restarts_what_changed(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    cluster = make_sandbox(Spec(nodes=1))
    before = cluster.processes
    config = tmp_path / "scheduler.yaml"
    config.write_text(SCHEDULER + "profiles: [{schedulerName: default-scheduler}, {schedulerName: second}]\n")
    cluster.kill("kwok")
    again = up(Spec(name=cluster.name, nodes=2, scheduler_config=config))
    changed = {name for name, process in again.processes.items() if process != before[name]}
    assert changed == {"kwok", "kube-scheduler"}
    room = Room(again, "default")
    room.create(pod("a", gpus=8, scheduler="second"), pod("b", gpus=8, scheduler="second"))
    eventually(lambda: set(room.phases().values()) == {"Running"})


def test_kube_scheduler_asks_the_extender_it_was_given(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        SCHEDULER + "extenders: [{urlPrefix: 'http://replaced', filterVerb: filter, nodeCacheCapable: true}]\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as extender:
        url = f"http://127.0.0.1:{extender.getsockname()[1]}/scheduler"
        cluster = make_sandbox(Spec(nodes=1, scheduler_config=config, extender_url=url))
        Room(cluster, "default").create(pod("asks"))
        extender.settimeout(20)
        connection, _ = extender.accept()
        with connection:
            assert connection.recv(4096).startswith(b"POST /scheduler/filter ")


def test_two_sandboxes_live_side_by_side(make_sandbox: MakeSandbox) -> None:
    one, other = make_sandbox(Spec(nodes=1)), make_sandbox(Spec(nodes=2))
    assert not set(one.record.ports.values()) & set(other.record.ports.values())
    down(one.name)
    assert not one.processes
    assert set(other.processes) == ALL
    assert len(other.kubectl("get", "nodes", "-o", "name").splitlines()) == 2


@pytest.mark.parametrize("seen", [True, False], ids=["seen-before", "taken-at-the-last-moment"])
def test_a_port_that_is_taken_is_passed_over(
    sandbox_names: Iterator[str], monkeypatch: pytest.MonkeyPatch, *, seen: bool
) -> None:
    name = next(sandbox_names)
    others = [ports.free(ports.candidates()) for _ in range(9)]
    if not seen:
        monkeypatch.setattr(ports, "taken", lambda _: False)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        try:
            cluster = up(Spec(name=name, nodes=1), candidates=[taken, *others])
        finally:
            down(name)
    assert set(cluster.record.ports.values()) <= set(others)


def test_a_port_that_was_taken_while_its_component_was_down_is_replaced(wreck: Cluster) -> None:
    wreck.kill("kube-apiserver")
    with socket.create_server(("127.0.0.1", wreck.record.ports["kube-apiserver"])):
        again = up(Spec(name=wreck.name, nodes=1))
    assert again.api_url != wreck.api_url
    room = Room(again, "default")
    room.create(pod("moved"))
    eventually(lambda: room.phases()["moved"] == "Running")


def test_down_leaves_nothing(sandbox_names: Iterator[str]) -> None:
    cluster = up(Spec(name=next(sandbox_names), nodes=1))
    used = cluster.record.ports.values()
    down(cluster.name)
    assert not processes.of(cluster.folder)
    assert not any(ports.taken(port) for port in used)
    assert not list(cluster.folder.parent.glob(f"{cluster.name}*"))
    assert down(cluster.name) is False


def test_down_removes_processes_whose_folder_is_gone(make_sandbox: MakeSandbox) -> None:
    cluster = make_sandbox(Spec(nodes=1))
    cluster.pause("kube-apiserver")
    shutil.rmtree(cluster.folder, ignore_errors=True)
    assert find(cluster.name) is None
    assert cluster.name in names()
    assert down(cluster.name)
    assert not processes.of(cluster.folder)


@pytest.mark.parametrize("after", [0.3, 0.8, 1.5, 3.0])
def test_an_up_that_was_killed_can_be_repeated(sandbox_names: Iterator[str], after: float) -> None:
    name = next(sandbox_names)
    try:
        kill_up(name, after)
        assert set(up(Spec(name=name, nodes=1)).processes) == ALL
    finally:
        down(name)


@pytest.mark.parametrize("after", [0.3, 0.8, 1.5, 3.0])
def test_an_up_that_was_killed_can_be_taken_down(sandbox_names: Iterator[str], after: float) -> None:
    name = next(sandbox_names)
    kill_up(name, after)
    down(name)
    home = Folders.of_user().sandboxes
    assert not processes.of(home / name)
    assert not list(home.glob(f"{name}*"))


def kill_up(name: str, after: float) -> None:
    command = [sys.executable, "-m", "gpuyard.sandbox", "up", "--name", name, "--nodes", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        time.sleep(after)
        killed.kill()


@pytest.mark.parametrize("component", sorted(ALL))
def test_each_component_comes_back_after_a_crash(wreck: Cluster, component: str) -> None:
    wreck.kill(component)
    assert component not in wreck.processes
    wreck.start(component)
    room = Room(wreck, "default")
    room.create(pod(f"after-{component}"))
    eventually(lambda: room.phases()[f"after-{component}"] == "Running", within=30)


def test_a_paused_component_answers_nobody_until_it_goes_on(wreck: Cluster) -> None:
    room = Room(wreck, "default")
    wreck.pause("kube-scheduler")
    room.create(pod("waits"))
    time.sleep(2)
    assert room.phases()["waits"] == "Pending"
    wreck.resume("kube-scheduler")
    eventually(lambda: room.phases()["waits"] == "Running")


def test_a_failed_start_names_the_step_the_log_and_the_remedy(wreck: Cluster) -> None:
    with pytest.raises(SandboxError) as failure:
        up(Spec(name=wreck.name, nodes=1, api_server_flags=("--no-such-flag",)))
    text = str(failure.value)
    assert text.startswith("start of kube-apiserver: the process ended")
    assert "unknown flag: --no-such-flag" in text
    assert f"gpuyard sandbox down --name {wreck.name}" in text


def test_compaction_and_a_restart_make_earlier_versions_gone(wreck: Cluster) -> None:
    version = json.loads(wreck.kubectl("get", "--raw", "/api/v1/pods"))["metadata"]["resourceVersion"]
    wreck.kubectl("annotate", "node", "node-1", "--overwrite", f"touched={time.monotonic_ns()}")
    path = f"/api/v1/pods?resourceVersion={version}&resourceVersionMatch=Exact"
    wreck.restart("kube-apiserver")
    wreck.kubectl("get", "--raw", path)
    wreck.compact_etcd()
    wreck.restart("kube-apiserver")
    with pytest.raises(SandboxError, match=r"Expired|too old|compacted"):
        wreck.kubectl("get", "--raw", path)


def test_status_tells_people_and_programs_the_same(sandbox: Cluster) -> None:
    def status(*options: str) -> str:
        command = [sys.executable, "-m", "gpuyard.sandbox", "status", "--name", sandbox.name, *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    (report,) = json.loads(status("-o", "json"))
    assert report["state"] == "up"
    assert report["kubeconfig"] == str(sandbox.kubeconfig)
    assert {each["name"] for each in report["components"]} == ALL
    text = status()
    assert all(str(each["pid"]) in text and each["log"] in text for each in report["components"])
    assert report["auditLog"] in text


def test_what_runs_sees_the_sandbox_as_its_home(sandbox: Cluster) -> None:
    for process in sandbox.processes.values():
        environment = (processes.PROC / str(process.pid) / "environ").read_bytes()
        assert f"HOME={sandbox.folder}\0".encode() in environment
