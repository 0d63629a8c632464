"""What the last version leaves behind for this one: `python -m tests.last_version.record CHECKOUT` records it anew.

`install.yaml` is what was applied, `names.json` has what users repeat in boards, alerts, scripts and settings.
`plan.json` is a Plan of that version in the middle: test_upgrade.py in tests/cluster prints it in `make soak`.

Decided in docs/decisions.md: "What the last version leaves behind is recorded".
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

HERE = Path(__file__).parent
NAMES, INSTALL, PLAN = HERE / "names.json", HERE / "install.yaml", HERE / "plan.json"

PRODUCT = (
    "engine",
    "common",
    "extender",
    "status-updater",
    "gfd",
    "device-plugin",
    "dcgm-exporter",
)
_METRIC = re.compile(r'"((?:gpuyard_|DCGM_)\w+)"')
_WORD = re.compile(r'(?:^\s*[A-Z_]+ = |_condition\()"([A-Z][a-z]+(?:[A-Z][a-z]*)*)"', re.MULTILINE)
_ALERT = re.compile(r"alert: (\w+)")


def names_of(checkout: Path) -> Mapping[str, list[str]]:
    """The names of a version that others repeat: metrics, alerts, reasons and conditions, and settings."""
    sources = [path.read_text() for part in PRODUCT for path in sorted((checkout / part).rglob("*.py"))]
    alerts = [path.read_text() for path in sorted((checkout / "manifests" / "monitoring").rglob("*.yaml"))]
    sample = yaml.safe_load((checkout / "manifests" / "samples" / "extender-config.yaml").read_text())
    return {
        "metrics": sorted({name for text in sources for name in _METRIC.findall(text)}),
        "alerts": sorted({name for text in alerts for name in _ALERT.findall(text)}),
        "reasons and conditions": sorted({name for text in sources for name in _WORD.findall(text)}),
        "settings": sorted(set(_keys(sample)) - {"apiVersion", "kind"}),
    }


def _keys(section: Mapping[str, object], above: str = "") -> Iterator[str]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{above}{key}.")
        else:
            yield above + key


def main() -> None:
    """Record a version anew."""
    checkout = Path(sys.argv[1])
    NAMES.write_text(json.dumps(names_of(checkout), indent=1) + "\n")
    shutil.copyfile(checkout / "manifests" / "install.yaml", INSTALL)


if __name__ == "__main__":
    main()
