"""The import contracts hold the layers: each forbidden import would be found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import tree

LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A house with the same modules and contracts as ours, all of the modules empty."""
    for name, _ in tree.python():
        component, _, module = name.partition("/")
        if component in tree.components() and module.startswith("gpuyard/"):
            (tmp_path / module).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / module).touch()
    (tmp_path / "pyproject.toml").write_text((tree.ROOT / "pyproject.toml").read_text())
    return tmp_path


def lint(house: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(house)}
    done = subprocess.run(
        [LINT_IMPORTS, "--no-cache"], cwd=house, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.stdout


def put(house: Path, package: str, code: str) -> None:
    (house / "gpuyard" / package.replace(".", "/") / "__init__.py").write_text(code)


def test_an_empty_house_keeps_all_contracts(house: Path) -> None:
    contracts = tree.project()["tool"]["importlinter"]["contracts"]
    assert f"Contracts: {len(contracts)} kept, 0 broken." in lint(house)


@pytest.mark.parametrize(
    ("package", "code", "contract"),
    [
        ("engine", "import gpuyard.common", "The engine imports nobody"),
        ("engine", "import asyncio", "The engine imports nobody"),
        ("engine", "import time", "The engine imports nobody"),
        ("common", "import gpuyard.extender", "Each layer uses only those below it"),
        ("extender", "import gpuyard.cli", "Each layer uses only those below it"),
        ("gfd", "import gpuyard.sandbox", "Each layer uses only those below it"),
        ("sandbox", "import gpuyard.cli", "Each layer uses only those below it"),
        ("extender", "import gpuyard.gfd", "The processes never import each other"),
        ("dcgm_exporter", "import gpuyard.status_updater", "The processes never import each other"),
        ("gfd", "import google.protobuf.message", "The small agents do without protobuf"),
        ("gfd", "import gpuyard.common.cluster", "The mock agents read no cluster"),
        ("engine.rules", "import gpuyard.engine.placing", "In the engine each room uses only those below it"),
        ("engine.kube", "import gpuyard.engine.rules", "In the engine each room uses only those below it"),
        ("engine.budgets", "import gpuyard.engine.model", "The budgets of jobs are a policy of their own"),
        ("extender.ledger", "import gpuyard.extender.verbs", "In the extender each room uses only those below it"),
        ("cli", "import gpuyard.common.effects.evict", "Only the extender evicts, moves and binds"),
        ("cli", "import gpuyard.extender.ledger", "The command line enters a process only by its program"),
    ],
)
def test_a_forbidden_import_breaks_its_contract(house: Path, package: str, code: str, contract: str) -> None:
    put(house, package, code)
    assert any(line.startswith(contract) and line.endswith(" BROKEN") for line in lint(house).splitlines())


def test_what_the_layers_allow_is_let_be(house: Path) -> None:
    put(house, "cli", "import gpuyard.sandbox, gpuyard.common, gpuyard.engine")
    put(house, "extender", "import gpuyard.common, gpuyard.engine, aiohttp")
    assert "0 broken" in lint(house)


def test_a_new_component_cannot_stay_outside_of_the_contracts() -> None:
    contracts = {contract["name"]: contract for contract in tree.project()["tool"]["importlinter"]["contracts"]}
    packages = {f"gpuyard.{name.replace('-', '_')}" for name in tree.components()}
    layers = contracts["Each layer uses only those below it"]["layers"]
    assert {name for layer in layers for name in layer.replace("|", ":").replace(" ", "").split(":")} == packages
    assert packages - {"gpuyard.engine"} <= set(contracts["The engine imports nobody"]["forbidden_modules"])
