"""What users apply, applied: all wires from the topology to Prometheus, two extenders, and nothing left at the end.

They tell one story in order: the mock is uninstalled first; while kubelet keeps its GPUs, the extenders are tried.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.common import tokens
from gpuyard.sandbox import SandboxError, Spec, kind, prometheus
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import product
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.rendering import MANIFESTS

from tests.cluster.everything import everything
from tests.cluster.holding import hold_back, is_held_back, let_go

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.ground("kind"), pytest.mark.timeout(1800), pytest.mark.story]

GPU = "nvidia.com/gpu"
GPUS = 4
ACCOUNTS = "system:serviceaccount:gpuyard"
MOCK = "gpuyard-mock"
PROMETHEUS = MANIFESTS.parent / "tests" / "cluster" / "prometheus.yaml"
QUEUES = MANIFESTS / "samples" / "quickstart" / "1-queues.yaml"
LET_GO_AFTER = 300


def eventually(check: Callable[[], object], within: float = 60) -> float:
    """Wait until the check holds; the seconds it took. What it last was is in the failure."""
    begin = time.monotonic()
    while not (last := check()):
        assert time.monotonic() - begin < within, f"still {last!r} after {within} s"
        time.sleep(0.5)
    return time.monotonic() - begin


def lasts(check: Callable[[], object], seconds: float) -> None:
    """Look for so long whether it stays as it should be."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        assert check()
        time.sleep(0.5)


@dataclass
class Yard:
    """The cluster, what was in it before, and when the mock was taken away."""

    cluster: kind.Cluster
    before: set[str]
    ended: float = field(default=0.0)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl(*arguments, stdin=stdin)

    def get(self, *what: str) -> Any:  # noqa: ANN401 - whatever kubectl prints
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    @property
    def worker(self) -> str:
        return next(node for node in self.cluster.nodes if node.endswith("worker"))

    def gpus(self, node: str = "") -> tuple[str | None, str | None]:
        """Capacity and allocatable."""
        status = self.get("node", node or self.worker)["status"]
        return status["capacity"].get(GPU), status["allocatable"].get(GPU)

    def create(self, name: str, queue: str, gpus: int = 1, **spec: object) -> None:
        limits = {"limits": {GPU: gpus}}
        container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": limits}
        meta = {"name": name, "labels": {"kai.scheduler/queue": queue}}
        made = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made}
        self.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def placed(self) -> set[str]:
        return {one["metadata"]["name"] for one in self.get("pods")["items"] if "nodeName" in one["spec"]}

    def set_limit(self, queue: str, gpus: int) -> None:
        bounds = json.dumps({"spec": {"resources": {"gpu": {"quota": 0, "limit": gpus}}}})
        self.kubectl("patch", "queues.scheduling.run.ai", queue, "--type=merge", "--patch", bounds)

    def uninstall(self, *arguments: str, code: int = 0) -> str:
        return self.gpuyard("uninstall", "--yes", *arguments, code=code)

    def gpuyard(self, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "gpuyard.cli", *arguments, f"--kubeconfig={self.cluster.kubeconfig}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def leader(self) -> str:
        """The pod to which the Service leads."""
        slices = self.get("endpointslices", "-n", "gpuyard", "-l", "kubernetes.io/service-name=gpuyard-extender")
        ends = [end for each in slices["items"] for end in each["endpoints"] or () if end["conditions"]["ready"]]
        names = [end["targetRef"]["name"] for end in ends]
        return names[0] if len(names) == 1 else ""


@pytest.fixture(scope="module")
def yard(sandbox_names: Iterator[str]) -> Iterator[Yard]:
    """A kind sandbox with one worker, to which all that users apply is applied, and two queues."""
    name = next(sandbox_names)
    try:
        made = kind.up(Spec(name=name, nodes=1))
        made.load(product.build(made.docker, Folders.of_user(), Progress()))
        ready = Yard(made, everything(made))
        made.give_token()
        made.kubectl("apply", "-k", str(MANIFESTS / "overlays" / "kind"))
        made.kubectl("wait", "--for=condition=established", "--timeout=30s", "crd", "--all")
        put_topology(ready)
        made.kubectl("apply", "-f", str(QUEUES))
        ready.set_limit("red", 2)
        made.kubectl("-n", "gpuyard", "rollout", "status", "deployment/gpuyard-extender", "--timeout=180s")
        yield ready
    except SandboxError as error:
        pytest.fail(f"gpuyard cannot be applied on kind: {error}", pytrace=False)
    finally:
        kind.down(name)


def put_topology(yard: Yard, *uses: dict[str, Any]) -> None:
    """GPUs on the worker; the first of them used as said."""
    gpus = [{"id": f"GPU-{n}", **({"metrics": uses[n]} if n < len(uses) else {})} for n in range(GPUS)]
    document = {"nodes": {yard.worker: {"gpu-memory": 11441, "gpu-product": "Tesla-K80", "gpus": gpus}}}
    meta = {"name": "topology", "namespace": MOCK}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"topology.yml": json.dumps(document)}}
    yard.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body))


def audit(cluster: kind.Cluster) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in cluster.audit_log.read_text().splitlines())


def phases(yard: Yard, namespace: str) -> dict[str, set[str]]:
    """Each component of ours: the phases and readiness of its pods."""
    found: dict[str, set[str]] = {}
    for one in yard.get("pods", "--namespace", namespace)["items"]:
        ready = all(each["ready"] for each in one["status"].get("containerStatuses", [{"ready": False}]))
        component = one["metadata"]["labels"]["app.kubernetes.io/component"]
        found.setdefault(component, set()).add(f"{one['status']['phase']} {'ready' if ready else 'not ready'}")
    return found


# --- all wires ---


def test_kubelet_offers_the_gpus_of_the_topology(yard: Yard) -> None:
    eventually(lambda: yard.gpus() == (str(GPUS), str(GPUS)), within=120)


def test_every_component_comes_up(yard: Yard) -> None:
    eventually(lambda: phases(yard, "gpuyard") == {"extender": {"Running ready"}})
    eventually(lambda: set().union(*phases(yard, MOCK).values()) == {"Running ready"}, within=120)


def test_the_default_scheduler_places_gpu_pods_up_to_the_queues_limit(yard: Yard) -> None:
    for name in ("one", "two"):
        yard.create(name, "red")
        eventually(lambda name=name: name in yard.placed())  # type: ignore[misc]
    yard.create("three", "red")
    reason = ("get", "pod", "three", "--output", "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}")
    eventually(lambda: "red" in yard.kubectl(*reason))
    assert yard.placed() == {"one", "two"}
    eventually(lambda: all(yard.get("pod", name)["status"]["phase"] == "Running" for name in ("one", "two")))


def test_a_higher_limit_lets_the_waiting_pod_run(yard: Yard) -> None:
    yard.set_limit("red", 3)
    eventually(lambda: "three" in yard.placed())


# --- a node dips under full load ---

RUN = {"red-1", "red-2", "blue-1", "blue-2"}
"""Half of the worker's GPUs each; one more of red waits, and would be let run if blue had less to stand on."""


def shares(yard: Yard) -> dict[str, str | None]:
    """What each queue is due, in GPUs."""
    found = yard.get("queues.scheduling.run.ai")["items"]
    return {one["metadata"]["name"]: one.get("status", {}).get("fairShare", {}).get(GPU) for one in found}


def is_ready(yard: Yard) -> bool:
    conditions = yard.get("node", yard.worker)["status"]["conditions"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@pytest.fixture
def load(yard: Yard) -> Iterator[list[str]]:
    """All GPUs are in use, lent by nobody's quota, and one more pod waits; the evictions of before."""
    yard.kubectl("delete", "pods", "--all", "--now")
    for queue in ("red", "blue"):
        yard.set_limit(queue, -1)
    for name in sorted(RUN):
        yard.create(name, name.partition("-")[0])
    eventually(lambda: yard.placed() == RUN, within=120)
    eventually(lambda: all(yard.get("pod", name)["status"]["phase"] == "Running" for name in RUN), within=120)
    yard.create("late", "red")
    eventually(lambda: shares(yard) == {"red": "2", "blue": "2"}, within=60)
    yield evicted(yard)
    yard.kubectl("delete", "pods", "--all", "--now")
    yard.kubectl("apply", "-f", str(QUEUES))


def as_before(yard: Yard, before: list[str]) -> bool:
    """Nobody was evicted, nothing was placed, and no share has moved."""
    return evicted(yard) == before and yard.placed() == RUN and shares(yard) == {"red": "2", "blue": "2"}


@pytest.mark.row("E-35", case="plugin")
def test_a_plugin_that_restarts_under_full_load_costs_nobody_anything(yard: Yard, load: list[str]) -> None:
    plugin, nowhere = "daemonset/gpuyard-device-plugin", {"example.com/nowhere": "yes"}
    selecting = {"spec": {"template": {"spec": {"nodeSelector": nowhere}}}}
    yard.kubectl("-n", MOCK, "patch", plugin, "--patch", json.dumps(selecting))
    try:
        eventually(lambda: yard.gpus()[1] == "0", within=120)
        lasts(lambda: as_before(yard, load), 8)
    finally:
        back = {"spec": {"template": {"spec": {"nodeSelector": dict.fromkeys(nowhere)}}}}
        yard.kubectl("-n", MOCK, "patch", plugin, "--patch", json.dumps(back))
    eventually(lambda: yard.gpus() == (str(GPUS), str(GPUS)), within=180)
    lasts(lambda: as_before(yard, load), 5)


@pytest.mark.row("E-35", case="kubelet")
def test_a_kubelet_that_restarts_under_full_load_costs_nobody_anything(yard: Yard, load: list[str]) -> None:
    kubelet = ("exec", yard.worker, "systemctl")
    yard.cluster.docker.ask(*kubelet, "stop", "kubelet")
    try:
        eventually(lambda: not is_ready(yard), within=180)
        lasts(lambda: as_before(yard, load), 8)
    finally:
        yard.cluster.docker.ask(*kubelet, "start", "kubelet")
    eventually(lambda: is_ready(yard) and yard.gpus() == (str(GPUS), str(GPUS)), within=180)
    eventually(lambda: all(yard.get("pod", name)["status"]["phase"] == "Running" for name in RUN), within=120)
    lasts(lambda: as_before(yard, load), 5)


def ask_prometheus(yard: Yard, query: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Each series of a query, by its UUID: value and labels."""
    code = (
        "import sys, urllib.request as u, urllib.parse as p; "
        "print(u.urlopen('http://127.0.0.1:9090/api/v1/query?query=' + p.quote(sys.argv[1])).read().decode())"
    )
    answer = json.loads(yard.kubectl("exec", "prometheus", "--", "python3", "-c", code, query))
    assert answer["status"] == "success"
    return {one["metric"]["UUID"]: (one["value"][1], one["metric"]) for one in answer["data"]["result"]}


@pytest.fixture
def without_updater(yard: Yard) -> Iterator[None]:
    """Nobody corrects what the topology says about use."""
    yard.kubectl("scale", "-n", MOCK, "deployment/gpuyard-status-updater", "--replicas=0")
    yield
    put_topology(yard)
    yard.kubectl("scale", "-n", MOCK, "deployment/gpuyard-status-updater", "--replicas=1")


@pytest.mark.row("M-03")
def test_a_real_prometheus_has_what_the_topology_says_with_every_label(yard: Yard, without_updater: None) -> None:
    assert without_updater is None
    user = {"namespace": "a", "pod": "p", "container": "c"}
    put_topology(
        yard,
        {"metadata": user, "utilization": 10, "fb-used": 5000},
        {"metadata": user, "utilization": 100, "fb-used": 10000},
    )
    program = prometheus.programs(Folders.of_user(), Progress())["prometheus"]
    yard.cluster.docker.ask("cp", "--follow-link", str(program), f"{yard.worker}:/usr/local/bin/prometheus")
    pod = PROMETHEUS.read_text().replace("IMAGE", product.IMAGE).replace("WORKER", yard.worker)
    yard.kubectl("apply", "-f", "-", stdin=pod)
    yard.kubectl("wait", "--for=condition=Ready", "pod/prometheus", "--timeout=120s")
    wanted = {
        "DCGM_FI_DEV_GPU_UTIL": {"GPU-0": "10", "GPU-1": "100"},
        "DCGM_FI_DEV_FB_USED": {"GPU-0": "5000", "GPU-1": "10000"},
        "DCGM_FI_DEV_FB_FREE": {"GPU-0": "6441", "GPU-1": "1441"},
    }
    for query, values in wanted.items():
        of_pod = f'{query}{{pod="p"}}'
        eventually(
            lambda of_pod=of_pod, values=values: (  # type: ignore[misc]
                {uuid: value for uuid, (value, _) in ask_prometheus(yard, of_pod).items()} == values
            )
        )
    _, labels = ask_prometheus(yard, "DCGM_FI_DEV_FB_USED")["GPU-1"]
    assert (
        labels.items() >= {"gpu": "1", "device": "nvidia1", "modelName": "Tesla-K80", "Hostname": yard.worker}.items()
    )
    assert labels.items() >= user.items()
    yard.kubectl("delete", "-f", "-", stdin=pod)


# --- the mock goes ---


def theirs(yard: Yard) -> dict[str, object]:
    """What of the nodes is not ours."""
    worker, other = yard.get("node", yard.worker), yard.get("node", control_plane(yard))
    return {
        "label": worker["metadata"]["labels"].get("nvidia.com/theirs"),
        "resource": worker["status"]["capacity"].get("example.com/theirs"),
        "GPUs of another node": other["status"]["capacity"].get(GPU),
    }


def control_plane(yard: Yard) -> str:
    return next(node for node in yard.cluster.nodes if node.endswith("control-plane"))


def ours(yard: Yard) -> set[str]:
    """What of the worker is ours: labels, annotations, resources."""
    node = yard.get("node", yard.worker)
    names = [*node["metadata"]["labels"], *node["metadata"]["annotations"], *node["status"]["capacity"]]
    return {name for name in names if name.startswith(("nvidia.com/", "gpuyard.io/")) and not name.endswith("/theirs")}


def give(yard: Yard, node: str, resource: str, count: int) -> None:
    """Put a resource onto a node as somebody else would."""
    counts = {"capacity": {resource: str(count)}, "allocatable": {resource: str(count)}}
    yard.kubectl("patch", "node", node, "--subresource=status", "--patch", json.dumps({"status": counts}))


@pytest.mark.row("M-51", case="uninstall")
def test_the_mock_goes_with_all_that_is_not_kubelets_and_nothing_of_others(yard: Yard) -> None:
    yard.kubectl("delete", "pods", "--all", "--now")
    yard.kubectl("label", "node", yard.worker, "nvidia.com/theirs=yes")
    give(yard, yard.worker, "example.com/theirs", 3)
    give(yard, control_plane(yard), GPU, 8)
    before = theirs(yard)
    said = yard.uninstall("mock", "--no-wait", code=1)
    yard.ended = time.monotonic()
    assert f"kubelets still hold {GPU} of node {yard.worker}; run this again after five minutes" in said
    assert ours(yard) == {"gpuyard.io/mock", "gpuyard.io/mock-resources", GPU}
    assert theirs(yard) == before == {"label": "yes", "resource": "3", "GPUs of another node": "8"}
    assert not [thing for thing in everything(yard.cluster) if MOCK in thing]
    eventually(lambda: yard.gpus() == (str(GPUS), "0"), within=20)


# --- two extenders, on the GPUs of the other node, while kubelet waits ---

TOLERATION = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}


SERVED_WITHIN = 20
LIMIT = 2


def begin_anew(yard: Yard) -> str:
    """No pods but one, and room for one more in its queue, and one extender that stands by; the leader."""
    yard.kubectl("delete", "pods", "--all", "--now")
    yard.kubectl("-n", "gpuyard", "rollout", "status", "deployment/gpuyard-extender", "--timeout=60s")
    yard.set_limit("red", LIMIT)
    yard.create("before", "red", tolerations=[TOLERATION])
    eventually(lambda: yard.placed() == {"before"})
    eventually(lambda: len(extenders(yard)) == 2 and yard.leader() in extenders(yard))
    return yard.leader()


def extenders(yard: Yard) -> set[str]:
    return {pod["metadata"]["name"] for pod in yard.get("pods", "-n", "gpuyard")["items"]}


def follower(yard: Yard, leader: str) -> str:
    """Who serves in the place of a leader: the one that stood by, or one that was made since. Either is lawful."""
    found = (name for name in sorted(extenders(yard) - {leader}) if ask(yard, name).get("Error") == "")
    return next(found, "")


def ask(yard: Yard, name: str) -> dict[str, Any]:
    """What an extender answers about a pod without GPU; empty: nothing."""
    found = yard.get("pods", "-n", "gpuyard", f"--field-selector=metadata.name={name}")["items"]
    address = next((pod["status"].get("podIP") for pod in found), None)
    if not address:
        return {}
    body = json.dumps({"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["node"]})
    url = tokens.with_token(f"http://{address}:8080/scheduler/filter", yard.cluster.record.token)
    call = ["curl", "--silent", "--max-time", "3", "--json", body, url]
    done = yard.cluster.docker.ask("exec", control_plane(yard), "sh", "-c", f"{shlex.join(call)} || true")
    return json.loads(done) if done else {}


def first_answer(yard: Yard, name: str) -> dict[str, Any]:
    """The first that an extender answers; a busy machine may take a while."""
    found: dict[str, Any] = {}

    def answers() -> dict[str, Any]:
        found.update(ask(yard, name))
        return found

    eventually(answers)
    return found


def goes_on_under_load(yard: Yard, leader: str, begin: float) -> None:
    """Pods keep coming; another extender serves in time, one more pod runs, and never one too many."""
    for name in ("a", "b", "c", "d"):
        yard.create(name, "red", tolerations=[TOLERATION])
    eventually(lambda: follower(yard, leader), within=120)
    served = serving_since(yard, follower(yard, leader)) - begin
    yard.create("e", "red", tolerations=[TOLERATION])
    eventually(lambda: len(yard.placed()) == LIMIT, within=120)
    went_on = time.time() - begin
    print(f"the other served after {served:.0f} s, a GPU pod went on after {went_on:.0f} s")  # noqa: T201 - figures
    assert served <= SERVED_WITHIN
    eventually(lambda: yard.leader() not in ("", leader))


def serving_since(yard: Yard, name: str) -> float:
    """When an extender began to serve, by its own word: this machine may be slow to ask."""
    lines = [json.loads(line) for line in yard.kubectl("-n", "gpuyard", "logs", name).splitlines()]
    last = [line["timestamp"] for line in lines if line["event"] == "serving"][-1]
    return datetime.fromisoformat(last).timestamp()


def signal(yard: Yard, name: str, number: str) -> None:
    """Send a signal to the process of an extender's pod, past kubelet."""
    pod = yard.get("pod", name, "-n", "gpuyard")
    uid = pod["metadata"]["uid"].replace("-", "[-_]")
    each = f"grep -q {uid} /proc/$p/cgroup && kill -{number} $p && echo $p"
    loop = f"for p in $(pgrep -f gpuyard.extender); do {each}; done; true"
    assert yard.cluster.docker.ask("exec", pod["spec"]["nodeName"], "sh", "-c", loop)


def test_the_service_leads_to_one_of_two_extenders(yard: Yard) -> None:
    pods = yard.get("pods", "-n", "gpuyard")["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    eventually(lambda: yard.leader() in {pod["metadata"]["name"] for pod in pods})


@pytest.mark.row("E-36", case="killed")
def test_after_the_leader_was_killed_the_other_serves_and_the_limit_holds(yard: Yard) -> None:
    leader = begin_anew(yard)
    begin = time.time()
    signal(yard, leader, "KILL")
    yard.kubectl("-n", "gpuyard", "delete", "pod", leader, "--grace-period=0", "--force")
    goes_on_under_load(yard, leader, begin)
    lasts(lambda: len(yard.placed()) == LIMIT, 5)


@pytest.mark.row("E-36", case="paused")
def test_a_leader_that_was_paused_finds_another_in_its_place(yard: Yard) -> None:
    leader = begin_anew(yard)
    begin = time.time()
    signal(yard, leader, "STOP")
    try:
        goes_on_under_load(yard, leader, begin)
        lasts(lambda: len(yard.placed()) == LIMIT, begin + 30 - time.time())
    finally:
        signal(yard, leader, "CONT")
    assert first_answer(yard, leader)["Error"] == "not leader"
    lasts(lambda: len(yard.placed()) == LIMIT, 5)


@pytest.mark.row("E-36", case="cut-off")
def test_a_leader_that_is_cut_off_from_the_api_decides_nothing_more(yard: Yard) -> None:
    leader = begin_anew(yard)
    pod = yard.get("pod", leader, "-n", "gpuyard")
    server = yard.get("service", "kubernetes")["spec"]["clusterIP"]
    rule = ["PREROUTING", "--source", pod["status"]["podIP"], "--destination", server, "--jump", "DROP"]
    iptables = ("exec", pod["spec"]["nodeName"], "iptables", "--wait", "--table", "mangle")
    begin = time.time()
    yard.cluster.docker.ask(*iptables, "--insert", *rule)
    try:
        goes_on_under_load(yard, leader, begin)
        assert first_answer(yard, leader)["Error"] == "not leader"
    finally:
        yard.cluster.docker.ask(*iptables, "--delete", *rule)
    lasts(lambda: len(yard.placed()) == LIMIT, 5)


@pytest.mark.row("E-37")
def test_when_the_planner_is_killed_between_two_evictions_the_next_one_goes_on_from_its_plan(yard: Yard) -> None:
    leader = begin_anew(yard)
    yard.kubectl("delete", "pods", "--all", "--now")
    yard.set_limit("red", -1)
    for name in ("one", "two"):
        yard.create(name, "red", 4, tolerations=[TOLERATION], terminationGracePeriodSeconds=5)
    eventually(lambda: yard.placed() == {"one", "two"})
    before = evicted(yard)
    hold_back(yard.kubectl, "one", "two")
    try:
        eventually(lambda: is_held_back(yard.kubectl, "one"))
        yard.create("own", "blue", 8, tolerations=[TOLERATION])
        eventually(lambda: len(victims_for(yard, "blue")) == 2, within=120)
        first, second = victims_for(yard, "blue")
        hold_back(yard.kubectl, second)
        eventually(lambda: evicted(yard) == [*before, first], within=120)
        signal(yard, leader, "KILL")
        yard.kubectl("-n", "gpuyard", "delete", "pod", leader, "--grace-period=0", "--force")
        eventually(lambda: yard.leader() not in ("", leader), within=120)
        assert evicted(yard) == [*before, first]
    finally:
        let_go(yard.kubectl)
    eventually(lambda: yard.placed() == {"own"}, within=120)
    assert evicted(yard) == [*before, first, second]
    eventually(lambda: states_for(yard, "blue") == {"Kept"}, within=120)


def victims_for(yard: Yard, queue: str) -> list[str]:
    """Whom the plans evict that are under way for a queue, in their order."""
    plans = [plan for plan in yard.get("plans.gpuyard.io")["items"] if plan["spec"].get("queue") == queue]
    running = [plan for plan in plans if plan.get("status", {}).get("state", "Running") == "Running"]
    return [one["pod"].rpartition("/")[2] for plan in running for one in plan["spec"]["evictions"]]


def states_for(yard: Yard, queue: str) -> set[str]:
    """How the plans that were made for a queue stand."""
    plans = yard.get("plans.gpuyard.io")["items"]
    return {plan.get("status", {}).get("state", "Running") for plan in plans if plan["spec"].get("queue") == queue}


def evicted(yard: Yard) -> list[str]:
    """The pods whose eviction was accepted, once for each time."""
    asked = [event for event in audit(yard.cluster) if event.get("objectRef", {}).get("subresource") == "eviction"]
    done = (one for one in asked if "dryRun" not in one["requestURI"])
    return [one["objectRef"]["name"] for one in done if one.get("responseStatus", {}).get("code") == 201]


def test_a_leader_that_is_told_to_end_hands_over_within_its_grace_period(yard: Yard) -> None:
    leader = begin_anew(yard)
    begin = time.time()
    yard.kubectl("-n", "gpuyard", "delete", "pod", leader)
    assert time.time() - begin < 12
    goes_on_under_load(yard, leader, begin)


def test_of_two_extenders_one_stays_through_a_drain(yard: Yard) -> None:
    yard.kubectl("-n", "gpuyard", "rollout", "status", "deployment/gpuyard-extender", "--timeout=60s")
    budget = yard.get("pdb", "gpuyard-extender", "-n", "gpuyard")["status"]
    assert (budget["expectedPods"], budget["disruptionsAllowed"]) == (2, 1)


def test_every_component_has_the_rights_it_uses(yard: Yard) -> None:
    ours = [event for event in audit(yard.cluster) if event["user"]["username"].startswith(ACCOUNTS)]
    assert len({event["user"]["username"] for event in ours}) > 1
    refused = {(event["user"]["username"], event["verb"], event["requestURI"]) for event in ours if refusal(event)}
    assert refused == set()


def refusal(event: dict[str, Any]) -> bool:
    return event.get("responseStatus", {}).get("code") in (401, 403)


# --- the end ---


@pytest.mark.row("M-30")
def test_five_minutes_after_its_plugin_kubelet_counts_no_gpu_and_keeps_the_entry(yard: Yard) -> None:
    left = yard.ended + LET_GO_AFTER - time.monotonic()
    eventually(lambda: yard.gpus() == ("0", "0"), within=left + 40)


@pytest.mark.row("M-51", case="uninstall")
def test_then_uninstall_takes_the_entry_too(yard: Yard) -> None:
    before = theirs(yard)
    yard.uninstall("mock")
    lasts(lambda: ours(yard) == set(), 5)  # kubelet reports every two seconds
    assert theirs(yard) == before


@pytest.mark.row("M-51", case="uninstall")
def test_at_last_nothing_of_gpuyard_is_left(yard: Yard) -> None:
    yard.kubectl("delete", "pods", "--all", "--now")
    yard.kubectl("delete", "-f", str(QUEUES))
    yard.uninstall()
    eventually(lambda: everything(yard.cluster) == yard.before)


@pytest.mark.row("M-51", case="delete-only")
def test_what_deleting_alone_leaves_is_only_on_nodes_and_the_doctor_names_it(yard: Yard) -> None:
    yard.gpuyard("doctor")
    mock = str(MANIFESTS / "base" / "mock")
    yard.kubectl("apply", "-k", mock)
    put_topology(yard)
    eventually(lambda: yard.gpus() == (str(GPUS), str(GPUS)) and "nvidia.com/gpu.count" in ours(yard), within=120)
    yard.kubectl("delete", "-k", mock)
    eventually(lambda: everything(yard.cluster) == yard.before)
    said = yard.gpuyard("doctor", code=1)
    assert f"node {yard.worker}: " in said
    assert GPU in said
    assert control_plane(yard) not in said
    yard.uninstall("mock", "--no-wait", code=1)
    assert ours(yard) == {"gpuyard.io/mock", "gpuyard.io/mock-resources", GPU}
