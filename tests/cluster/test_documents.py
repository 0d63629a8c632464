"""Each document is played: its blocks are written and typed in their order, on a real control plane."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import down
from gpuyard.sandbox.demo.stage import extender_port, set_up
from gpuyard.sandbox.errors import SandboxError

from tests.documents.blocks import PLAYED, README, ROOT, blocks, indented

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuyard.sandbox import Cluster

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(700)]

# On this ground the extender runs as no pod: its doctor has to be told where.
GPUYARD = """\
#!/bin/sh
if [ "$1" = doctor ] && [ "$2" != scheduler-config ]; then shift; set -- doctor --extender {url} "$@"; fi
exec {python} -m gpuyard.cli "$@"
"""
RUN_BY_OTHERS = ("make ",)
"""`make demo` is `gpuyard demo`: tests/cluster/test_demo.py and test_demo_kind.py. `make test` is this very run."""


@pytest.fixture(scope="module")
def cluster(sandbox_names: Iterator[str]) -> Iterator[Cluster]:
    """A sandbox of 32 GPUs whose kube-scheduler asks the extender."""
    name = next(sandbox_names)
    try:
        made = set_up(name, print)
        made.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=180s")
        yield made
    except SandboxError as error:
        pytest.fail(f"ground processes cannot be had: {error}", pytrace=False)
    finally:
        down(name)


class Reader:
    """Somebody who writes and types what a document says, in one folder and one shell."""

    def __init__(self, cluster: Cluster, folder: Path, copy: str) -> None:
        self.folder, self.copy = folder, copy
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(cluster.program("kubectl"))
        url = f"http://127.0.0.1:{extender_port(cluster) + 1}"
        own = programs / "gpuyard"
        own.write_text(GPUYARD.format(url=url, python=shlex.quote(sys.executable)))
        own.chmod(0o755)
        (folder / "manifests").symlink_to(ROOT / "manifests")
        places = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        self._environment = os.environ | {"PATH": ":".join(places), "KUBECONFIG": str(cluster.kubeconfig)}

    def write(self, name: str, text: str) -> None:
        """Keep a file as the document says."""
        (self.folder / name).write_text(text)

    def type(self, *lines: str) -> str:
        """Let one shell do it all; it must not fail. What it prints."""
        script = "\n".join(lines).replace("--name copy", f"--name {self.copy}")
        # What a reader waits a minute for may take longer where many tests run.
        script = re.sub(r"--timeout=\d+s", "--timeout=300s", script)
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=540, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path, sandbox_names: Iterator[str]) -> Iterator[Reader]:
    """A reader with a sandbox of a name of his own, should the document bring one up; he leaves nothing behind."""
    copy = next(sandbox_names)
    yield Reader(cluster, tmp_path, copy)
    down(copy)
    # Who has taken gpuyard out again has taken its CRDs, too.
    crds = str(ROOT / "manifests" / "crds")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", crds)
    cluster.kubectl("wait", "--for=condition=established", "--timeout=180s", "-f", crds)
    cluster.kubectl("delete", "queues.scheduling.run.ai", "--all", "--wait=false")
    cluster.kubectl("delete", "pods,jobs,podgroups.scheduling.run.ai", "--all", "--force", "--grace-period=0")
    # Whole: in a namespace that is about to go, the next document's objects would go with it.
    gone = ("--ignore-not-found", "--timeout=300s")
    cluster.kubectl("delete", "namespace", "quickstart", "vision", "gpuyard", "team-a", *gone)


TRAIN = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team-a}
spec:
  template:
    metadata: {labels: {kai.scheduler/queue: team-a}}
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: registry.k8s.io/pause:3.10, resources: {limits: {nvidia.com/gpu: 4}}}
"""
MADE = "until kubectl get pods -n team-a -l job-name=train -o name | grep -q .; do sleep 0.2; done"
"""Its controller takes a moment."""

TEAM = """\
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-a}
spec: {resources: {gpu: {quota: 8, limit: 8}}}
"""


def test_the_commands_of_the_readme_work_on_a_cluster_with_such_a_job(reader: Reader) -> None:
    reader.write("team.yaml", TEAM)
    reader.write("new-job.yaml", TRAIN)
    reader.type("kubectl apply -f team.yaml; kubectl wait --for=create -n team-a serviceaccount/default --timeout=180s")
    typed = [line for line in indented(README) if not line.startswith(RUN_BY_OTHERS)]
    assert len(typed) >= 6
    for line in typed:
        reader.type(line, *([MADE] if line.startswith("kubectl apply -f new-job.yaml") else []))


@pytest.mark.parametrize("document", PLAYED, ids=lambda path: path.name)
def test_a_document_can_be_followed_from_its_first_block_to_its_last(reader: Reader, document: Path) -> None:
    lines = []
    for block in blocks(document):
        if block.language == "yaml":
            reader.write(block.file, block.text)
        elif block.language == "sh":
            lines.append(block.text)
    reader.type(*lines)
