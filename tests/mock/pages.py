"""Builders: nodes written as a user would, and scrapes as Prometheus reads them."""

import re
from collections.abc import Mapping

from gpuyard.common.topology.model import Node
from gpuyard.common.topology.reading import read
from gpuyard.dcgm_exporter.labels import Switches
from gpuyard.dcgm_exporter.page import Page
from gpuyard.dcgm_exporter.readings import Meters

A100 = "NVIDIA-A100-SXM4-40GB"


def nodes(gpus: str, product: str = A100, memory: int = 40960, name: str = "n", extra: str = "") -> Mapping[str, Node]:
    body = f"{{gpu-product: '{product}', gpu-memory: {memory}, gpus: {gpus}{extra}}}"
    return read(f"nodes: {{{name}: {body}}}").nodes


def page(shown: Mapping[str, Node], switches: Switches | None = None, now: float = 0) -> str:
    return Page(shown, switches or Switches()).text(now, Meters())


_SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by name, in order."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in _SAMPLE.findall(text):
        pairs = {key: _ESCAPED.sub(r"\1", escaped) for key, escaped in _LABEL.findall(labels)}
        found.setdefault(name, []).append((pairs, float(value)))
    return found


def values(text: str) -> dict[str, list[float]]:
    return {name.removeprefix("DCGM_FI_"): [value for _, value in found] for name, found in samples(text).items()}


def names(text: str) -> list[str]:
    return [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
