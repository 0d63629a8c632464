"""The command line of the extender."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from gpuyard.extender.__main__ import main

CONFIG = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n"


@pytest.mark.parametrize(("text", "code"), [("", 0), ("filter: {maxNodes: 1}\n", 2)])
def test_settings_are_checked_without_a_cluster(tmp_path: Path, text: str, code: int) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(CONFIG + text)
    assert CliRunner().invoke(main, ["--config", str(file), "--check-config"]).exit_code == code


def test_a_check_needs_a_file() -> None:
    result = CliRunner().invoke(main, ["--check-config"])
    assert result.exit_code == 2
    assert "--config" in result.output
