"""Ground "kind": real kubelets in containers, in an engine that leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml
from gpuyard.cli import token_keeping
from gpuyard.common import tokens
from gpuyard.common.version import __version__
from gpuyard.sandbox import SandboxError, Spec, kind, ports, prometheus
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import config, debian, product
from gpuyard.sandbox.kind.report import report
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.rendering import MANIFESTS
from gpuyard.sandbox.tools import architecture

from tests.cluster.machine import traces
from tests.documents.blocks import DOCS, MADE, blocks, typed_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.ground("kind"), pytest.mark.timeout(1800)]

PAUSE = "registry.k8s.io/pause:3.10"
CANNOT_CONNECT, TIMED_OUT = "7", "28"  # what curl ends with
OWN_NETWORK = "daemonset/pod-network"
ASK_API = """\
import ssl, urllib.request
url = "https://kubernetes.default.svc.cluster.local/version"
print(urllib.request.urlopen(url, context=ssl._create_unverified_context()).read().decode())
"""
X86_64, AARCH64 = 62, 183  # as programs' files say for which processor they are


def eventually(check: Callable[[], object], within: float = 180) -> None:
    """Wait until the check holds; what it last was is in the failure."""
    deadline = time.monotonic() + within
    while not (last := check()):
        assert time.monotonic() < deadline, f"still {last!r} after {within} s"
        time.sleep(0.5)


def pod(name: str, image: str, *command: str, gpus: int = 0, node: str | None = None) -> str:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    container = {"name": "main", "image": image, "command": list(command), "resources": {"limits": limits}}
    spec = {"containers": [container], "restartPolicy": "Never", "nodeName": node}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def phase(cluster: kind.Cluster, name: str) -> str:
    return cluster.kubectl("get", "pod", name, "--output", "jsonpath={.status.phase}")


def uids(cluster: kind.Cluster) -> str:
    return cluster.kubectl("get", "nodes", "--output", "jsonpath={.items[*].metadata.uid}")


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    return traces()


@pytest.fixture(scope="module")
def first_name(sandbox_names: Iterator[str], before: dict[str, Any]) -> Iterator[str]:  # noqa: ARG001 - looked at first
    """The name of the module's sandbox; whatever happens, it is gone at the end."""
    yield (name := next(sandbox_names))
    kind.down(name)


@pytest.fixture
def cluster(first_name: str) -> kind.Cluster:
    """The module's sandbox: a control plane and two workers."""
    try:
        return kind.up(Spec(name=first_name, nodes=2))
    except SandboxError as error:
        pytest.fail(f"ground kind cannot be had: {error}", pytrace=False)


@pytest.fixture(scope="module")
def image(first_name: str) -> str:
    """The product image, on every node: it has Python, and nothing has to be pulled for it."""
    cluster = kind.up(Spec(name=first_name, nodes=2))
    built = product.build(cluster.docker, Folders.of_user(), Progress())
    cluster.load(built)
    return built


def test_all_nodes_are_ready_when_up_returns(cluster: kind.Cluster) -> None:
    nodes = json.loads(cluster.kubectl("get", "nodes", "--output", "json"))["items"]
    ready = [one["status"] for node in nodes for one in node["status"]["conditions"] if one["type"] == "Ready"]
    assert ready == ["True"] * 3


def test_up_again_changes_nothing(cluster: kind.Cluster) -> None:
    nodes = uids(cluster)
    assert uids(kind.up(cluster.record.spec)) == nodes


def test_it_reports_its_nodes_and_files(cluster: kind.Cluster) -> None:
    found = report(cluster.name)
    assert (found["ground"], found["state"], len(found["components"])) == ("kind", "up", 3)
    assert Path(found["kubeconfig"]).exists()
    assert found["apiUrl"].startswith("https://127.0.0.1:")


def test_kubelets_report_their_status_every_two_seconds(cluster: kind.Cluster) -> None:
    for node in cluster.nodes:
        settings = json.loads(cluster.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/configz"))
        assert settings["kubeletconfig"]["nodeStatusUpdateFrequency"] == "2s"


def test_pods_of_different_nodes_reach_each_other_and_services_by_name(cluster: kind.Cluster, image: str) -> None:
    workers = [node for node in cluster.nodes if "worker" in node]
    for worker in workers:
        cluster.kubectl("create", "-f", "-", stdin=pod(f"ask-{worker}", image, "python3", "-c", ASK_API, node=worker))
    for worker in workers:
        eventually(lambda worker=worker: phase(cluster, f"ask-{worker}") in ("Succeeded", "Failed"))  # type: ignore[misc]
        assert '"gitVersion": "v1.36' in cluster.kubectl("logs", f"ask-{worker}")


def test_an_address_that_no_pod_has_leads_nowhere_and_our_network_says_so_at_once(cluster: kind.Cluster) -> None:
    own = cluster.kubectl("get", "--namespace=kube-system", OWN_NETWORK, "--ignore-not-found", "--output=name")
    for node in cluster.nodes:
        ask = "curl --silent --max-time 5 http://10.244.0.250:8080; echo $?"
        assert cluster.docker.ask("exec", node, "sh", "-c", ask) in (
            {CANNOT_CONNECT} if own else {CANNOT_CONNECT, TIMED_OUT}
        )


def test_a_pod_that_only_waits_ends_at_once_when_told(cluster: kind.Cluster) -> None:
    waiting = json.loads(pod("waits", PAUSE))
    waiting["spec"]["terminationGracePeriodSeconds"] = 600
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(waiting))
    eventually(lambda: phase(cluster, "waits") == "Running")
    cluster.kubectl("delete", "pod", "waits", "--timeout=60s")


def test_the_default_scheduler_asks_our_extender_about_gpus_and_about_nothing_else(cluster: kind.Cluster) -> None:
    worker = next(node for node in cluster.nodes if "worker" in node)
    capacity = json.dumps({"status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}})
    cluster.kubectl("patch", "node", worker, "--subresource=status", "--patch", capacity)
    cluster.kubectl("create", "-f", "-", stdin=pod("plain", PAUSE))
    cluster.kubectl("create", "-f", "-", stdin=pod("gpu", PAUSE, gpus=1))
    eventually(lambda: phase(cluster, "plain") == "Running")
    reason = (
        "get",
        "events",
        "--field-selector",
        "involvedObject.name=gpu",
        "--output",
        "jsonpath={.items[*].message}",
    )
    # Between scheme and host stands the user.
    address = urlsplit(config.EXTENDER).netloc
    eventually(lambda: f"@{address}/" in cluster.kubectl(*reason))


def test_the_audit_log_says_who_did_what(cluster: kind.Cluster) -> None:
    cluster.kubectl("create", "configmap", "witness")
    events = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
    created = [event for event in events if event.get("objectRef", {}).get("name") == "witness"]
    assert {event["verb"] for event in created} == {"create"}
    assert {event["user"]["username"] for event in created} == {"kubernetes-admin"}


def test_the_product_image_runs_without_root_and_without_a_compiler(cluster: kind.Cluster, image: str) -> None:
    look = "id -u; python3 -m gpuyard.cli version; for each in gcc cc g++; do command -v $each; done; echo none"
    cluster.kubectl("create", "-f", "-", stdin=pod("product", image, "sh", "-c", look))
    eventually(lambda: phase(cluster, "product") in ("Succeeded", "Failed"))
    assert cluster.kubectl("logs", "product").split() == ["65532", __version__, "none"]


def test_the_product_image_adds_at_most_120_mb_to_its_base(cluster: kind.Cluster) -> None:
    steps = cluster.docker.lines(
        "history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", product.IMAGE
    )
    ours = [int(step.split()[0]) for step in steps if "COPY" in step and "/opt/gpuyard" in step]
    assert 0 < sum(ours) < 120_000_000


def test_for_another_processor_it_is_built_too_and_holds_that_ones_programs(
    cluster: kind.Cluster, tmp_path: Path
) -> None:
    other, machine = ("arm64", AARCH64) if architecture() == "amd64" else ("amd64", X86_64)
    if not debian.can_install():
        with pytest.raises(SandboxError, match="needs root on Debian"):
            product.build(cluster.docker, Folders.of_user(), Progress(), other)
        return
    image = product.build(cluster.docker, Folders.of_user(), Progress(), other)
    assert cluster.docker.ask("image", "inspect", "--format", "{{.Architecture}}", image) == other
    made = cluster.docker.lines("create", image)[-1]
    cluster.docker.ask("cp", f"{made}:/opt/gpuyard/msgspec", str(tmp_path))
    cluster.docker.ask("rm", made)
    libraries = [path.read_bytes() for path in (tmp_path / "msgspec").glob("*.so")]
    assert libraries
    assert {int.from_bytes(each[18:20], "little") for each in libraries} == {machine}


# --- documents for who has kind ---


@pytest.fixture
def folder(cluster: kind.Cluster, tmp_path: Path) -> Path:
    """A reader's checkout, and what he has on his PATH. No image is pulled: that of Prometheus is played by ours."""
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    samples = tmp_path / "manifests" / "samples"
    topology = samples / "topology.yaml"
    topology.write_text(on_its_nodes(cluster, topology.read_text()))
    config_map, deployment = yaml.safe_load_all((samples / "prometheus.yaml").read_text())
    spec = deployment["spec"]["template"]["spec"]
    place = "/usr/local/bin/prometheus"
    spec["containers"][0]["image"] = product.IMAGE
    spec["containers"][0]["volumeMounts"].append({"name": "program", "mountPath": place})
    spec["volumes"].append({"name": "program", "hostPath": {"path": place, "type": "File"}})
    (samples / "prometheus.yaml").write_text(yaml.safe_dump_all([config_map, deployment]))
    program = prometheus.programs(Folders.of_user(), Progress())["prometheus"]
    for node in cluster.nodes:
        cluster.docker.ask("cp", "--follow-link", str(program), f"{node}:{place}")
    made = MADE["make image"].replace("python", shlex.quote(sys.executable), 1)
    write_program(tmp_path / "make", f'[ "$*" = image ] && exec {made}')
    # The cluster is there: of its configuration only the file is looked for.
    real = f'exec {cluster.program("kind")} "$@" --name {config.kind_name(cluster.name)}'
    write_program(tmp_path / "kind", f'[ "$1" = create ] && exec test -f "$4"\n{real}')
    (tmp_path / "kubectl").symlink_to(cluster.program("kubectl"))
    # Its kube-scheduler has a token already: a reader who makes one finds that one there.
    (kept := tmp_path / ".gpuyard" / "kind").mkdir(parents=True)
    secret = config.secret({tokens.TOKEN: cluster.record.token.encode()})
    (kept / token_keeping.SECRET_FILE).write_text(yaml.safe_dump_all(secret))
    return tmp_path


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def on_its_nodes(cluster: kind.Cluster, text: str) -> str:
    """The same, for a cluster that is not named as kind names one of its own accord."""
    return text.replace("kind-worker", f"{config.kind_name(cluster.name)}-worker")


def follow(cluster: kind.Cluster, folder: Path, document: str, section: str) -> str:
    """Write and type what a section of a document says, on this cluster's nodes; what that prints."""
    port = str(ports.free(ports.candidates()))
    for block in blocks(DOCS / document):
        if (block.language, block.section) == ("yaml", section):
            (folder / block.file).write_text(block.text)
    script = on_its_nodes(cluster, "\n".join(typed_in(DOCS / document, section)))
    script = script.replace("deployment/prometheus 9090", f"deployment/prometheus {port}:9090")
    script = script.replace("localhost:9090", f"localhost:{port}")
    places = [str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]
    variables = {"PATH": ":".join(places), "KUBECONFIG": str(cluster.kubeconfig)}
    # What a reader waits a minute for may take longer where many tests run.
    script = re.sub(r"--timeout=\d+s", "--timeout=300s", script)
    # Whatever happens, what it started in the background goes with it.
    script = f"trap 'kill $(jobs -p) || true' EXIT\n{script}"
    done = subprocess.run(
        ["/usr/bin/timeout", "900", "/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=cluster.docker.environment | variables,
        capture_output=True, text=True, timeout=960, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.usefixtures("image")
def test_a_reader_of_the_start_sees_mock_gpus_on_kind_and_in_prometheus(cluster: kind.Cluster, folder: Path) -> None:
    said = follow(cluster, folder, "start.md", "On kind, or any cluster with kubelets")
    assert len(re.findall(r"^gpuyard-\S+-worker2? +[01] ", said, re.MULTILINE)) == 4
    assert '"modelName":"Tesla-K80"' in said


def test_a_reader_of_the_installation_sees_two_teams_and_why_one_waits(cluster: kind.Cluster, folder: Path) -> None:
    cluster.kubectl("delete", "pods", "--all", "--now")
    # It keeps the connection to whoever has answered at the extender's address before there was an extender.
    [node] = [name for name in cluster.nodes if name.endswith("control-plane")]
    stop = "crictl ps --name kube-scheduler --quiet | xargs --no-run-if-empty crictl stop"
    cluster.docker.ask("exec", node, "sh", "-c", stop)
    said = follow(cluster, folder, "install.md", "By hand, on a kind cluster of yours")
    assert "it waits: OverLimit: queue vision has a limit of 3 GPUs" in said
    assert re.search(r"^ +speech +2 +unlimited ", said, re.MULTILINE)


def test_a_node_that_was_stopped_is_noticed_and_up_starts_it_again(cluster: kind.Cluster) -> None:
    before = uids(cluster)
    cluster.docker.ask("stop", "--time", "1", list(cluster.nodes)[-1])
    assert report(cluster.name)["state"] == "degraded"
    assert uids(kind.up(cluster.record.spec)) == before


def test_an_up_that_is_killed_can_be_repeated_beside_another_sandbox(
    cluster: kind.Cluster, sandbox_names: Iterator[str]
) -> None:
    name = next(sandbox_names)
    command = [sys.executable, "-m", "gpuyard.sandbox", "up", "--ground", "kind", "--name", name, "--nodes", "0"]
    try:
        with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as process:
            label = f"label=io.x-k8s.kind.cluster={config.kind_name(name)}"
            eventually(lambda: cluster.docker.lines("ps", "--quiet", "--filter", label))
            os.killpg(process.pid, signal.SIGKILL)
        assert report(name)["state"] == "degraded"
        second = kind.up(Spec(name=name, nodes=0))
        assert second.answers()
        assert kind.down(name)
        assert name not in kind.names()
        assert cluster.answers()
    finally:
        kind.down(name)


def test_the_file_for_a_kind_cluster_of_ones_own_makes_one_whose_kube_scheduler_asks_gpuyard(
    cluster: kind.Cluster, sandbox_names: Iterator[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a checkout: where it runs, the line before has put the configuration with the token.
    monkeypatch.chdir(tmp_path)
    token_keeping.offline(Path(".gpuyard") / "kind")
    content = yaml.safe_load((MANIFESTS / "kube-scheduler" / "kind.yaml").read_text())
    # Added is only what a machine needs that has old control groups and much to do.
    patches = [yaml.safe_dump(one) for one in (config.kubelet(), *map(config.patience, ("Init", "Join")))]
    (file := tmp_path / "kind.yaml").write_text(yaml.safe_dump(content | {"kubeadmConfigPatches": patches}))
    image = cluster.docker.ask("inspect", "--format", "{{.Config.Image}}", next(iter(cluster.nodes))).strip()
    name, kubeconfig = next(sandbox_names), f"--kubeconfig={tmp_path / 'kubeconfig'}"
    try:
        cluster.kind("create", "cluster", f"--config={file}", f"--name={name}", f"--image={image}", kubeconfig)
        scheduler = f"pod/kube-scheduler-{name}-control-plane"
        cluster.kubectl(kubeconfig, "wait", "-n=kube-system", scheduler, "--for=condition=Ready", "--timeout=300s")
        command = cluster.kubectl(kubeconfig, "get", "-n=kube-system", scheduler, "-o=jsonpath={..command}")
        assert "--config=/etc/kubernetes/gpuyard/config.yaml" in command
    finally:
        cluster.kind("delete", "cluster", f"--name={name}")


def test_down_leaves_nothing(cluster: kind.Cluster, before: dict[str, Any]) -> None:
    assert kind.down(cluster.name)
    assert traces() == before
    assert not kind.down(cluster.name)
