"""`gpuyard doctor` on a real cluster: all is well, then one thing after the other is not, and it says which."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.cli.alterations import COUNTED
from gpuyard.cli.rights import rights
from gpuyard.common import tokens
from gpuyard.sandbox.demo.stage import EXTENDER, extender_port, set_up, start_extender
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.lifecycle import down

from tests.cluster.yard import Yard
from tests.mock.daemons import eventually
from tests.mock.prometheus import EXTENDER as EXTENDER_PART
from tests.mock.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuyard.sandbox import Cluster


pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(900)]

MANIFESTS = Path(__file__).parents[2] / "manifests"
SHIPPED = MANIFESTS / "kube-scheduler" / "config.yaml"
TEAM = "default-team"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def yard(sandbox_names: Iterator[str]) -> Iterator[Yard]:
    """A sandbox whose kube-scheduler asks the extender; a pod runs in a queue."""
    name = next(sandbox_names)
    try:
        made = Yard(set_up(name, print), "default")
        made.cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=180s")
        made.queue("team", limit=4)
        made.submit("runs", queue=TEAM)
        made.until(lambda: made.placed() == {"runs"}, 180, "the pod runs")
        yield made
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


@pytest.fixture(scope="module")
def installed(yard: Yard) -> Cluster:
    """The same with what users apply; the pods of the Deployment are played."""
    # Of its own CRDs the sandbox has them already, applied in another way.
    yard.cluster.kubectl("apply", "-k", str(MANIFESTS / "base" / "extender"))
    eventually(lambda: len(extenders(yard.cluster)) == 2, within=180)
    yard.cluster.kubectl("wait", "--for=condition=Ready", "pods", "--all", "-n", "gpuyard", "--timeout=180s")
    return yard.cluster


def extenders(cluster: Cluster) -> list[str]:
    """The names of the Deployment's pods."""
    return cluster.kubectl("get", "pods", "-n", "gpuyard", "-o", "name").split()


def probes(cluster: Cluster) -> str:
    """Where the extender that really runs says how it is."""
    return f"http://127.0.0.1:{extender_port(cluster) + 1}"


def doctor(cluster: Cluster, *arguments: str, outside: bool = True) -> dict[str, list[Json]]:
    """What is found, by check."""
    where = (f"--extender={probes(cluster)}",) if outside else ()
    command = [sys.executable, "-m", "gpuyard.cli", "doctor", "-o", "json", f"--kubeconfig={cluster.kubeconfig}"]
    done = subprocess.run([*command, *where, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stderr
    told: dict[str, list[Json]] = {}
    for each in json.loads(done.stdout):
        told.setdefault(each["check"], []).append(each)
        assert bool(each["remedy"]) == (each["status"] != "ok"), each
    assert done.returncode == int(any(each["remedy"] for found in told.values() for each in found))
    return told


def one(found: dict[str, list[Json]], check: str) -> tuple[str, str]:
    """How a check stands, and what was seen."""
    [only] = found[check]
    return only["status"], only["seen"]


def test_where_all_is_well_each_check_says_so(yard: Yard) -> None:
    told = doctor(yard.cluster)
    assert {each["status"] for found in told.values() for each in found} == {"ok"}
    assert len(told) == 11
    assert one(told, COUNTED)[1] == "no running pod has other keys than those it is counted with"
    assert one(told, "queues and pods can be read")[1] == "1 queues, 1 pods"
    assert one(told, "nodes offer their GPUs")[1] == "32 GPUs on 4 nodes"


def test_how_often_kube_scheduler_has_asked_is_told(yard: Yard) -> None:
    status, seen = one(doctor(yard.cluster), "kube-scheduler asks")
    assert (status, int(seen.split()[3]) > 0) == ("ok", True)


def test_an_extender_that_does_not_answer_is_found_with_who_waits_for_it(yard: Yard) -> None:
    yard.cluster.stop(EXTENDER)
    try:
        yard.submit("waits", queue=TEAM)
        yard.until(lambda: "waits" in yard.verdicts(), 180, "kube-scheduler gives up asking")
        told = doctor(yard.cluster)
    finally:
        start_extender(yard.cluster)
    assert one(told, "an extender answers")[0] == "fail"
    status, seen = one(told, "kube-scheduler asks")
    assert (status, seen.startswith("pod default/waits waits: ")) == ("fail", True)
    yard.until(lambda: "waits" in yard.placed(), 180, "it runs when the extender is back")
    yard.delete("waits")


@contextmanager
def pod(yard: Yard, name: str, **spec: Any) -> Iterator[None]:  # noqa: ANN401 - parts of a Pod
    """A pod that is there for a moment."""
    yard.submit(name, **spec)
    yield
    yard.delete(name)


def test_a_pod_with_gpus_and_without_a_queue_is_found(yard: Yard) -> None:
    with pod(yard, "free", gpus=2):
        status, seen = one(doctor(yard.cluster), "no pod bypasses the queues")
    assert (status, seen) == ("warn", "default/free has no queue (2 GPUs)")


def test_a_queue_above_its_limit_is_found(yard: Yard) -> None:
    yard.queue("team", limit=0)
    status, seen = one(doctor(yard.cluster), "queues keep their limits")
    yard.queue("team", limit=4)
    assert (status, seen) == ("warn", f"queue {TEAM} holds 1 GPUs of 0")


def test_an_object_that_cannot_be_read_is_found_with_its_field(yard: Yard) -> None:
    sharing = {"name": "main", "image": "pause", "resources": {"limits": {"gpuyard.io/shared-gpu": "1"}}}
    with pod(yard, "odd", queue=TEAM, annotations={"gpu-fraction": "half"}, gpus=0, containers=[sharing]):
        status, seen = one(doctor(yard.cluster), "queues and pods can be read")
    assert (status, "default/odd" in seen, "gpu-fraction" in seen) == ("fail", True, True)


def change(cluster: Cluster, what: str, patch: Json, *more: str) -> None:
    cluster.kubectl("patch", *what.split("/"), *more, "--type=merge", "--patch", json.dumps(patch))


def test_a_node_that_offers_fewer_gpus_than_it_has_is_found(yard: Yard) -> None:
    for there, status in (("7", "warn"), ("8", "ok")):
        offer = {"status": {"allocatable": {"nvidia.com/gpu": there}}}
        change(yard.cluster, "node/node-2", offer, "--subresource=status")
        assert one(doctor(yard.cluster), "nodes offer their GPUs")[0] == status


def test_a_node_whose_plugin_has_not_registered_is_found(yard: Yard) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-x", "labels": {"nvidia.com/gpu.present": "true"}},
    }
    yard.apply(node)
    status, seen = one(doctor(yard.cluster), "nodes offer their GPUs")
    yard.cluster.kubectl("delete", "node", "node-x")
    assert (status, seen.partition(":")[0]) == ("fail", "node node-x")


def test_a_crd_that_is_not_there_or_drops_a_field_is_found(yard: Yard) -> None:
    crds, name = MANIFESTS / "crds", "plans.gpuyard.io"
    yard.cluster.kubectl("delete", "crd", name)
    gone = one(doctor(yard.cluster), "the CRDs are there")
    older = yaml.safe_load((crds / "podgroups.scheduling.run.ai.yaml").read_text())
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["minMember"]
    yard.cluster.kubectl("replace", "-f", "-", stdin=json.dumps(older))
    lacking = doctor(yard.cluster)["the CRDs are there"]
    yard.cluster.kubectl("replace", "-f", str(crds / "podgroups.scheduling.run.ai.yaml"))
    yard.cluster.kubectl("apply", "--server-side", "-f", str(crds / f"{name}.yaml"))
    yard.cluster.kubectl("wait", "--for=condition=established", "--timeout=180s", "crd", name)
    assert gone == ("fail", f"there is no CRD {name}")
    assert "CRD podgroups.scheduling.run.ai: its schema lacks spec.minMember" in lacking[0]["seen"]
    eventually(lambda: one(doctor(yard.cluster), "the CRDs are there")[0] == "ok", within=180)


def test_a_prometheus_that_has_no_metrics_of_the_extender_is_found(yard: Yard, tmp_path: Path) -> None:
    url = probes(yard.cluster)
    assert one(doctor(yard.cluster, f"--prometheus={url}"), "its metrics are scraped")[0] == "fail"
    with Prometheus(tmp_path, {"extender": url.removeprefix("http://")}, EXTENDER_PART) as running:
        eventually(lambda: running.series("gpuyard_build_info"), within=180)
        told = doctor(yard.cluster, f"--prometheus={running.url}")
    assert one(told, "its metrics are scraped") == ("ok", f"{running.url} has those of 1 extenders")


# --- the extender as pods of its Deployment; from here on it is installed ---


def test_extenders_of_which_none_leads_are_found_and_one_that_leads_is_well(installed: Cluster) -> None:
    told = doctor(installed, outside=False)
    assert one(told, "an extender answers") == ("fail", "no pod is marked as leading")
    first, second = extenders(installed)
    installed.kubectl("label", "-n", "gpuyard", first, "gpuyard.io/leader=true")
    status, seen = one(doctor(installed, outside=False), "an extender answers")
    assert (status, seen) == ("ok", f"{first} leads, 1 stand by".replace("pod/", "pod "))
    installed.kubectl("label", "-n", "gpuyard", second, "gpuyard.io/leader=true")
    status, seen = one(doctor(installed, outside=False), "an extender answers")
    assert (status, seen.endswith("are marked as leading")) == ("fail", True)
    installed.kubectl("label", "-n", "gpuyard", second, "gpuyard.io/leader-")


def test_a_lease_that_nobody_renews_is_found(installed: Cluster) -> None:
    first = extenders(installed)[0]
    installed.kubectl("label", "--overwrite", "-n", "gpuyard", first, "gpuyard.io/leader=true")
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    meta = {"name": "gpuyard-extender", "namespace": "gpuyard"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
    installed.kubectl("create", "-f", "-", stdin=json.dumps(lease))
    _, found = doctor(installed, outside=False)["an extender answers"]
    installed.kubectl("delete", "lease", "gpuyard-extender", "-n", "gpuyard")
    assert (found["status"], found["seen"].startswith("Lease gpuyard-extender was renewed")) == ("fail", True)


RIGHTS = f"ServiceAccount gpuyard/gpuyard-extender may do all {len([*rights()])} things"


def test_a_right_that_the_extender_lacks_is_named(installed: Cluster) -> None:
    check = "the extender has its rights"
    assert one(doctor(installed), check) == ("ok", RIGHTS)
    role = yaml.safe_load(installed.kubectl("get", "clusterrole", "gpuyard-extender", "-o", "yaml"))
    role["rules"] = [rule for rule in role["rules"] if "pods/eviction" not in rule["resources"]]
    installed.kubectl("replace", "-f", "-", stdin=json.dumps(role))
    eventually(lambda: one(doctor(installed), check)[0] == "fail", within=180)
    lacking = one(doctor(installed), check)[1]
    installed.kubectl("apply", "-f", str(MANIFESTS / "base" / "extender" / "rbac.yaml"), "-n", "gpuyard")
    assert lacking == "ServiceAccount gpuyard/gpuyard-extender may not create pods/eviction"
    eventually(lambda: one(doctor(installed), check)[0] == "ok", within=180)


def scheduler(name: str, *arguments: str, config_map: str = "") -> Json:
    """A kube-scheduler as a pod, played like all pods here."""
    container: Json = {"name": "s", "image": "x", "command": ["kube-scheduler", *arguments]}
    spec: Json = {"containers": [container], "nodeName": "node-1"}
    if config_map:
        container["volumeMounts"] = [{"name": "config", "mountPath": "/etc/scheduler"}]
        spec["volumes"] = [{"name": "config", "configMap": {"name": config_map}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}


@pytest.fixture
def config(installed: Cluster) -> Iterator[str]:
    """A ConfigMap with a configuration whose extender is ignorable; schedulers of the test go with it."""
    shipped = SHIPPED.read_text().replace("TOKEN@", f"{tokens.new()}@")
    found = yaml.safe_load(shipped)
    found["extenders"][0]["ignorable"] = True
    for name, text in (("good", shipped), ("bad", json.dumps(found))):
        held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"config.yaml": text}}
        installed.kubectl("apply", "-n", "kube-system", "-f", "-", stdin=json.dumps(held))
    installed.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=180s", "-n", "kube-system")
    yield "/etc/scheduler/config.yaml"
    installed.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "-n", "kube-system")
    installed.kubectl("delete", "configmaps", "good", "bad", "-n", "kube-system")


TOLD = "kube-scheduler is told to ask"


def test_a_kube_scheduler_that_was_never_told_is_found(installed: Cluster, config: str) -> None:
    installed.kubectl("apply", "-f", "-", stdin=json.dumps(scheduler("a", "--leader-elect=true")))
    assert one(doctor(installed), TOLD) == ("fail", "pod a has no --config, so that it asks nobody")
    # Another one may serve other pods: one that asks is enough.
    told = scheduler("b", f"--config={config}", config_map="good")
    installed.kubectl("apply", "-f", "-", stdin=json.dumps(told))
    assert one(doctor(installed), TOLD)[0] == "ok"


def test_a_configuration_in_a_config_map_is_looked_through(installed: Cluster, config: str) -> None:
    told = scheduler("c", "--config", config, config_map="bad")
    installed.kubectl("apply", "-f", "-", stdin=json.dumps(told))
    status, seen = one(doctor(installed), TOLD)
    assert (status, "ConfigMap kube-system/bad: extenders[0].ignorable: is true" in seen) == ("fail", True)


def test_of_a_configuration_in_a_file_of_a_node_it_says_where_that_is(installed: Cluster, config: str) -> None:
    installed.kubectl("apply", "-f", "-", stdin=json.dumps(scheduler("d", f"--config={config}")))
    status, seen = one(doctor(installed), TOLD)
    assert (status, seen.startswith(f"pod d reads {config} of node node-1")) == ("ok", True)


def test_an_installation_without_pods_is_found(installed: Cluster) -> None:
    installed.kubectl("scale", "deployment", "gpuyard-extender", "-n", "gpuyard", "--replicas=0")
    eventually(lambda: not extenders(installed), within=180)
    assert one(doctor(installed, outside=False), "an extender answers")[0] == "fail"
