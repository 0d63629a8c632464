"""The common options mean the same for every process."""

from pathlib import Path

import pytest
from gpuyard.common.arguments import manners, parse, parser
from gpuyard.common.settings import Strict
from gpuyard.common.version import __version__


class SampleConfig(Strict, frozen=True):
    size: int = 1


def test_without_options_the_defaults_hold() -> None:
    options = parse(parser("gpuyard-gfd", "labels nodes"), None, [])
    assert (options.kubeconfig, options.context, options.log_level) == ("", "", "info")
    assert (manners(options).ops_port, manners(options).ops_host) == (8081, None)


def test_a_process_without_settings_has_no_config_option() -> None:
    with pytest.raises(SystemExit):
        parse(parser("gpuyard-gfd", "labels nodes"), None, ["--config", "x"])


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(parser("gpuyard-gfd", "labels nodes"), None, ["--version"])
    assert capsys.readouterr().out == f"gpuyard-gfd {__version__}\n"


@pytest.mark.parametrize(("size", "code"), [("3", 0), ("many", 2)])
def test_check_config_ends_with_the_verdict(tmp_path: Path, size: str, code: int) -> None:
    file = tmp_path / "sample.yaml"
    file.write_text(f"apiVersion: gpuyard.io/v1alpha1\nkind: SampleConfig\nsize: {size}\n")
    with pytest.raises(SystemExit) as caught:
        parse(parser("x", "y", SampleConfig), SampleConfig, ["--config", str(file), "--check-config"])
    assert caught.value.code == code


def test_check_config_without_a_file_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(parser("x", "y", SampleConfig), SampleConfig, ["--check-config"])
    assert caught.value.code == 2
    assert "--check-config needs --config FILE" in capsys.readouterr().err
