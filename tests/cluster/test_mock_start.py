"""The start as a reader would follow it: every block typed into one shell, and what it promises is printed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from gpuyard.sandbox import binaries, down, lifecycle
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.rendering import MANIFESTS

from tests.documents.blocks import START, blocks
from tests.mock.daemons import free_port
from tests.mock.prometheus import monitor, promtool

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ground("processes"), pytest.mark.timeout(600)]

LAPTOP = "On a laptop without Docker"
MINUTES = 10
MARK = "--- next block"
SAMPLE = MANIFESTS / "samples" / "prometheus.yaml"


def elsewhere(text: str, name: str, ports: dict[str, int]) -> str:
    """The same for a sandbox of another name and on other ports, since tests run side by side."""
    text = text.replace("--name mock", f"--name {name}").replace(
        "gpuyard-status-updater &", "gpuyard-status-updater --ops-port 8081 &"
    )
    text = text.replace("gpuyard-dcgm-exporter --", "gpuyard-dcgm-exporter --port 9400 --")
    return re.sub(r"\b(808[123]|9[04]\d0)\b", lambda found: str(ports[found[1]]), text)


@pytest.fixture(scope="module")
def printed(sandbox_names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What each shell block of the laptop's section prints, in one shell, within the time that the issue allows."""
    folder, name = tmp_path_factory.mktemp("reader"), next(sandbox_names)
    ports = {port: free_port() for port in ("8081", "8082", "8083", "9400", "9090")}
    section = [(block, elsewhere(block.text, name, ports)) for block in blocks(START) if block.section == LAPTOP]
    for block, text in section:
        if block.language == "yaml":
            (folder / block.file).write_text(text)
    typed = [text for block, text in section if block.language == "sh"]
    try:
        yield shell(folder, typed)
    finally:
        down(name)


def shell(folder: Path, typed: list[str]) -> list[str]:
    """Type blocks into one shell in a folder, where each command has to succeed; what each of them prints."""
    (folder / "kubectl").symlink_to(binaries.ensure(("kubectl",), Folders.of_user(), print)["kubectl"].path)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = "set -eu -o pipefail\n" + f"echo '{MARK}'\n".join(typed)
    with (folder / "printed").open("wb") as out, (folder / "errors").open("wb") as errors:
        bash = subprocess.Popen(["/bin/bash", "-c", script], cwd=folder, env=os.environ | {"PATH": path},
                                stdout=out, stderr=errors, start_new_session=True)  # fmt: skip
        code: int | str = f"not at its end after {MINUTES - 1} minutes"
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = bash.wait(timeout=(MINUTES - 1) * 60)
        finally:
            # What it started in the background is in its group, and may have outlived it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
    said = (folder / "printed").read_text()
    assert code == 0, f"{code}\n{said[-3000:]}{(folder / 'errors').read_text()[-3000:]}"
    return said.split(f"{MARK}\n")


def test_kubectl_describes_the_node_with_its_gpus(printed: list[str]) -> None:
    assert re.findall(r"^ +nvidia\.com/gpu: +(\d+)$", printed[1], re.MULTILINE) == ["2", "2"]
    assert "nvidia.com/gpu.product=Tesla-K80" in printed[1]


def test_the_list_has_every_gpu_and_then_the_pod(printed: list[str]) -> None:
    rows = [line.split()[:2] for line in printed[1].splitlines() if line.startswith("node-")]
    assert rows == [["node-1", "0"], ["node-1", "1"], *(["node-2", str(index)] for index in range(4))]
    [row] = [line for line in printed[2].splitlines() if line.startswith("node-")]
    assert "default/train" in row


def test_the_exporter_names_the_pod(printed: list[str]) -> None:
    [line] = [line for line in printed[2].splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL{")]
    assert 60 <= int(line.rpartition(" ")[2]) <= 90


def test_prometheus_has_the_pods_utilisation(printed: list[str]) -> None:
    found = json.loads(printed[3].splitlines()[-1])["data"]["result"]
    [value] = [int(each["value"][1]) for each in found if each["metric"].get("pod") == "train"]
    assert 60 <= value <= 90
    assert len(found) == 6


def test_it_leaves_nothing(printed: list[str]) -> None:
    [name] = re.findall(r"sandbox (\S+) is removed", printed[4])
    assert name not in lifecycle.names()


def test_the_prometheus_for_clusters_scrapes_as_the_monitor_does(tmp_path: Path) -> None:
    config, deployment = yaml.safe_load_all(SAMPLE.read_text())
    [(name, text)] = config["data"].items()
    (tmp_path / name).write_text(text)
    said = promtool("check", "config", str(tmp_path / name))
    assert said.returncode == 0, said.stderr
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert f"--config.file=/config/{name}" in container["args"]
    [job] = yaml.safe_load(text)["scrape_configs"]
    [endpoint] = monitor()["spec"]["endpoints"]
    assert (job["job_name"], job["honor_labels"]) == ("nvidia-dcgm-exporter", endpoint["honorLabels"])
