"""A real Prometheus that scrapes us as the manifests say."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import yaml
from gpuyard.sandbox import prometheus
from gpuyard.sandbox.folders import Folders

from tests.mock.daemons import eventually, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

MONITORING = Path(__file__).parents[2] / "manifests" / "monitoring"
Json = dict[str, Any]


class Part(NamedTuple):
    """What is watched: the folder of its manifests, its board, and the labels that the operator gives its targets."""

    folder: Path
    board: str
    own: Mapping[str, str]


GPUS = Part(MONITORING, "gpus.json", {"namespace": "gpuyard-mock", "container": "dcgm-exporter"})
EXTENDER = Part(MONITORING / "extender", "queues.json", {"namespace": "gpuyard", "container": "extender"})


def monitor(part: Part = GPUS) -> Json:
    """The ServiceMonitor."""
    text = (part.folder / "service-monitor.yaml").read_text()
    [found] = [each for each in yaml.safe_load_all(text) if each["kind"] == "ServiceMonitor"]
    return dict(found)


def rules(part: Part = GPUS) -> Json:
    """The alerts, as a file of Prometheus's own."""
    found: Json = yaml.safe_load((part.folder / "alerts.yaml").read_text())["spec"]
    return found


def hasty(given: Json) -> Json:
    """The same alerts, which look back a minute at most and do not wait until something has lasted."""
    short: Json = json.loads(re.sub(r"\[\d+[mh]\]", "[1m]", json.dumps(given)))
    for group in short["groups"]:
        group["rules"] = [{key: value for key, value in rule.items() if key != "for"} for rule in group["rules"]]
    return short


def board(part: Part = GPUS) -> Json:
    """The Grafana board."""
    found: Json = json.loads((part.folder / part.board).read_text())
    return found


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool; its output and exit code."""
    program = prometheus.programs(Folders.of_user(), print)["promtool"]
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, check=False)


class Prometheus:
    """Scrapes each second, with the labels that the operator gives to a pod's target. Use it in a `with` block."""

    def __init__(self, folder: Path, targets: Mapping[str, str], part: Part = GPUS, alerts: Json | None = None) -> None:
        self._folder = folder
        self._part = part
        self.url = f"http://127.0.0.1:{free_port()}"
        (folder / "alerts.yaml").write_text(yaml.safe_dump(alerts or rules(part)))
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(self._config(targets)))

    def _config(self, targets: Mapping[str, str]) -> Json:
        [endpoint] = monitor(self._part)["spec"]["endpoints"]
        own = dict(self._part.own)
        job = {
            "job_name": monitor(self._part)["spec"]["selector"]["matchLabels"]["app"],
            "honor_labels": endpoint.get("honorLabels", False),
            "relabel_configs": endpoint.get("relabelings", []),
            "static_configs": [{"targets": [at], "labels": own | {"pod": pod}} for pod, at in targets.items()],
        }
        pace = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        return {"global": pace, "rule_files": ["alerts.yaml"], "scrape_configs": [job]}

    def __enter__(self) -> Self:
        program = str(prometheus.programs(Folders.of_user(), print)["prometheus"])
        command = [program, "--config.file=prometheus.yaml", "--storage.tsdb.path=data"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"--web.listen-address={self.url.removeprefix('http://')}"],
                cwd=self._folder,
                stdout=log,
                stderr=log,
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
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - ours
            return json.load(answer)["data"]

    def series(self, query: str) -> list[dict[str, str]]:
        """The labels of each series that a query finds now."""
        return [found["metric"] for found in self.ask("query", query=query)["result"]]

    def firing(self) -> set[str]:
        """The alerts that people would be told of now."""
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}
