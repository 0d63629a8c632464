"""The Prometheus that the samples have for clusters, on kind, where its image cannot be pulled."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml
from gpuyard.sandbox import prometheus
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import product
from gpuyard.sandbox.progress import Progress
from gpuyard.sandbox.rendering import MANIFESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.mock.yard import Yard

SAMPLE = MANIFESTS / "samples" / "prometheus.yaml"
PROGRAM = "/usr/local/bin/prometheus"
ASK = """\
import sys, urllib.parse as p, urllib.request as u
print(u.urlopen("http://127.0.0.1:9090/api/v1/query?query=" + p.quote(sys.argv[1])).read().decode())
"""


@contextmanager
def prometheus_of_the_samples(yard: Yard) -> Iterator[Callable[[str], list[dict[str, str]]]]:
    """It runs as long as the block does, which gets a way to ask it for the labels of what a query finds."""
    program = prometheus.programs(Folders.of_user(), Progress())["prometheus"]
    yard.cluster.docker.ask("cp", "--follow-link", str(program), f"{yard.node}:{PROGRAM}")
    text = "\n---\n".join(map(json.dumps, _with_the_program_of_the_node()))
    yard.kubectl("apply", "-f", "-", stdin=text)
    try:
        yard.kubectl("rollout", "status", "deployment/prometheus", "--timeout=180s")
        yield lambda query: _ask(yard, query)
    finally:
        yard.kubectl("delete", "-f", "-", stdin=text)


def _ask(yard: Yard, query: str) -> list[dict[str, str]]:
    said = yard.kubectl("exec", "deployment/prometheus", "--", "python3", "-c", ASK, query)
    return [each["metric"] for each in json.loads(said)["data"]["result"]]


def _with_the_program_of_the_node() -> list[dict[str, Any]]:
    """The sample, but for its image: the product's has a C library, and the program itself lies on the node."""
    config, deployment = yaml.safe_load_all(SAMPLE.read_text())
    spec = deployment["spec"]["template"]["spec"]
    [container] = spec["containers"]
    container |= {"image": product.IMAGE, "command": [PROGRAM]}
    container["volumeMounts"].append({"name": "program", "mountPath": PROGRAM})
    spec["volumes"].append({"name": "program", "hostPath": {"path": PROGRAM, "type": "File"}})
    return [config, deployment]
