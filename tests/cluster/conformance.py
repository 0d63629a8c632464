"""Kubernetes' own scheduling tests (`test/e2e/scheduling`), run against sandboxes.

The sandbox builds them as a program. They create pods that ask for resources of their own, and add these resources to
the nodes. conformance.yaml gives each such pod and node as many GPUs, so that the extender has a say in every test.

Decided in docs/decisions.md: "Kubernetes' own scheduling tests are run in soak".
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from gpuyard.sandbox import Spec, binaries, down, up
from gpuyard.sandbox.demo.stage import extender_port, set_up, start_extender
from gpuyard.sandbox.folders import Folders

from tests.mock.daemons import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from gpuyard.sandbox import Cluster

PROGRAM = "scheduling-e2e"
MANIFEST = Path(__file__).with_name("conformance.yaml")
NODES = 4
GPUS = "64"
"""What a node has while no test gives it a resource; the number stands in the manifest."""

ATTEMPTS = 2
"""A test has passed if one attempt did: on a busy machine some fail by chance, with the extender or without it."""

SKIPPED: Mapping[str, str] = {
    r"\[FeatureGate:GenericWorkload\]": "an alpha API, which the API server does not serve unless it is told to",
}
"""Which tests are not run, and why."""

SKIPPED_WITH_QUEUES: Mapping[str, str] = {
    r"\[FeatureGate:SchedulerAsyncPreemption\]": "it waits until kube-scheduler has nominated each of many pods; in a "
    "queue the planner makes the room for those that kube-scheduler comes to later, and nominates none",
}
"""Which tests are not run besides where each pod is of a queue, and why."""

QUEUE = "everybody"
SETTINGS = f"apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\ndefaultQueue: {QUEUE}\n"


class Failure(msgspec.Struct, frozen=True, rename="pascal"):
    """Why a test failed, in Ginkgo's report."""

    message: str = ""


class Report(msgspec.Struct, frozen=True, rename="pascal"):
    """One test in Ginkgo's report."""

    leaf_node_type: str
    leaf_node_text: str
    state: str
    container_hierarchy_texts: tuple[str, ...] | None = None
    failure: Failure = Failure()

    @property
    def name(self) -> str:
        """The test with the groups that it belongs to."""
        return " ".join((*(self.container_hierarchy_texts or ()), self.leaf_node_text))


class Suite(msgspec.Struct, frozen=True, rename="pascal"):
    """Ginkgo's report."""

    spec_reports: tuple[Report, ...]


@dataclass(frozen=True)
class Outcome:
    """How the tests of one run ended."""

    reports: tuple[Report, ...]
    metrics: Mapping[str, float]
    """What the extender counted; empty without one."""

    @property
    def passed(self) -> set[str]:
        """The tests that passed."""
        return {one.name for one in self.reports if one.state == "passed"}

    @property
    def failed(self) -> dict[str, str]:
        """The tests that were run and did not pass, and why."""
        return {one.name: one.failure.message for one in self.reports if one.state not in {"passed", "skipped"}}


def program() -> Path:
    """The tests as a program, built if need be."""
    return binaries.ensure([PROGRAM], Folders.of_user(), print)[PROGRAM].path


@contextmanager
def without_extender(name: str) -> Iterator[Cluster]:
    """A sandbox whose kube-scheduler asks nobody."""
    with _taken_down(name):
        yield up(Spec(name=name, nodes=NODES))


@contextmanager
def without_queues(name: str) -> Iterator[Cluster]:
    """A sandbox whose kube-scheduler asks the extender, and that has no queue."""
    with _taken_down(name):
        yield set_up(name, print, nodes=NODES)


@contextmanager
def with_queues(name: str) -> Iterator[Cluster]:
    """The same, with a queue for every pod, and quota enough for all of them."""
    with without_queues(name) as cluster:
        gpu = {"quota": 10_000, "limit": -1}
        queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": QUEUE}}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(queue | {"spec": {"resources": {"gpu": gpu}}}))
        settings = cluster.folder / "extender-of-conformance.yaml"
        settings.write_text(SETTINGS)
        start_extender(cluster, f"--config={settings}")
        yield cluster


class Run(NamedTuple):
    """A run of the tests."""

    sandbox: Callable[[str], AbstractContextManager[Cluster]]
    skipped: Mapping[str, str] = SKIPPED


RUNS: Mapping[str, Run] = {
    "without-extender": Run(without_extender),
    "without-queues": Run(without_queues),
    "with-queues": Run(with_queues, {**SKIPPED, **SKIPPED_WITH_QUEUES}),
}


@contextmanager
def _taken_down(name: str) -> Iterator[None]:
    try:
        yield
    finally:
        down(name)


def run(tests: Path, cluster: Cluster, folder: Path, skipped: Iterable[str]) -> Outcome:
    """Run all tests but those that are skipped; the folder holds the report, and what the tests printed."""
    prepare(cluster)
    report = folder / "report.json"
    arguments = command(tests, cluster, report, skipped)
    with (folder / "output.log").open("wb") as output:
        subprocess.run(arguments, cwd=folder, stdout=output, stderr=output, check=False)
    [suite] = msgspec.json.decode(report.read_bytes(), type=list[Suite])
    tests_of_it = tuple(one for one in suite.spec_reports if one.leaf_node_type == "It")
    return Outcome(tests_of_it, metrics(cluster))


def command(tests: Path, cluster: Cluster, report: Path, skipped: Iterable[str]) -> list[str]:
    """How the tests are started: in one order, whatever the run."""
    return [
        str(tests),
        f"--kubeconfig={cluster.kubeconfig}",
        "--provider=skeleton",
        f"--num-nodes={NODES}",
        f"--e2e-output-dir={report.parent}",
        "--dump-logs-on-failure=false",
        "--ginkgo.v",
        "--ginkgo.no-color",
        "--ginkgo.seed=17",
        "--ginkgo.timeout=75m",
        f"--ginkgo.flake-attempts={ATTEMPTS}",
        f"--ginkgo.skip={'|'.join(skipped)}",
        f"--ginkgo.json-report={report}",
    ]


def prepare(cluster: Cluster) -> None:
    """Give nodes and pods what the tests count on, and GPUs to both."""
    cluster.kubectl("apply", "-f", str(MANIFEST))
    for number in range(1, NODES + 1):
        zone = f"topology.kubernetes.io/zone=zone-{number % 2}"
        cluster.kubectl("label", "node", f"node-{number}", zone)
    eventually(lambda: _nodes_have_gpus(cluster), 30)
    cluster.kubectl("rollout", "status", "daemonset", "--namespace=kube-system", "--timeout=60s")


def _nodes_have_gpus(cluster: Cluster) -> bool:
    """Whether the policy acts on each node: any change of a node's status will do."""
    change = json.dumps({"status": {"capacity": {"nvidia.com/gpu": GPUS}}})
    for number in range(1, NODES + 1):
        what = ("node", f"node-{number}", "--subresource=status", "--type=merge", f"--patch={change}")
        cluster.kubectl("patch", *what)
    found = cluster.kubectl("get", "nodes", "-o", r"jsonpath={.items[*].status.allocatable.nvidia\.com/gpu}")
    return found.split() == [GPUS] * NODES


def metrics(cluster: Cluster) -> dict[str, float]:
    """What the extender tells Prometheus, by series."""
    if not cluster.record.spec.extender_url:
        return {}
    url = f"http://127.0.0.1:{extender_port(cluster) + 1}/metrics"
    with urllib.request.urlopen(url, timeout=5) as response:
        lines = [line for line in response.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
