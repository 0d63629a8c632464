"""A real Prometheus that scrapes the mock as the manifests say."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml
from gpuyard.sandbox import prometheus
from gpuyard.sandbox.folders import Folders

from tests.mock.daemons import eventually, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

MONITORING = Path(__file__).parents[2] / "manifests" / "monitoring"
Json = dict[str, Any]


def monitor() -> Json:
    """The ServiceMonitor."""
    found: Json = yaml.safe_load((MONITORING / "service-monitor.yaml").read_text())
    return found


def rules() -> Json:
    """The alerts, as a file of Prometheus's own."""
    found: Json = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["spec"]
    return found


def board() -> Json:
    """The Grafana board."""
    found: Json = json.loads((MONITORING / "gpus.json").read_text())
    return found


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool; its output and exit code."""
    program = prometheus.programs(Folders.of_user(), print)["promtool"]
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, check=False)


class Prometheus:
    """Scrapes each second, with the labels that the operator gives to a pod's target. Use it in a `with` block."""

    def __init__(self, folder: Path, targets: Mapping[str, str]) -> None:
        self._folder = folder
        self._port = free_port()
        (folder / "alerts.yaml").write_text(yaml.safe_dump(rules()))
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(self._config(targets)))

    def _config(self, targets: Mapping[str, str]) -> Json:
        [endpoint] = monitor()["spec"]["endpoints"]
        own = {"namespace": "gpuyard-mock", "container": "dcgm-exporter"}
        job = {
            "job_name": monitor()["spec"]["selector"]["matchLabels"]["app"],
            "honor_labels": endpoint["honorLabels"],
            "relabel_configs": endpoint["relabelings"],
            "static_configs": [{"targets": [at], "labels": own | {"pod": pod}} for pod, at in targets.items()],
        }
        pace = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        return {"global": pace, "rule_files": ["alerts.yaml"], "scrape_configs": [job]}

    def __enter__(self) -> Self:
        program = str(prometheus.programs(Folders.of_user(), print)["prometheus"])
        command = [program, "--config.file=prometheus.yaml", "--storage.tsdb.path=data"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"--web.listen-address=127.0.0.1:{self._port}"], cwd=self._folder, stdout=log, stderr=log
            )
        eventually(self._answers, within=60)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            return bool(self.series("up"))
        except OSError:
            return False

    def ask(self, what: str, **parameters: str) -> Any:  # noqa: ANN401 - JSON
        """The data of an answer."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def series(self, query: str) -> list[dict[str, str]]:
        """The labels of each series that a query finds now."""
        return [found["metric"] for found in self.ask("query", query=query)["result"]]
