"""The command line of the extender."""

from pathlib import Path

import pytest
from gpuyard.extender.__main__ import _parser, _port, main

CONFIG = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n"


@pytest.mark.parametrize(("text", "code"), [("", 0), ("filter: {maxNodes: 1}\n", 2)])
def test_settings_are_checked_without_a_cluster(tmp_path: Path, text: str, code: int) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(CONFIG + text)
    with pytest.raises(SystemExit) as ended:
        main(["--config", str(file), "--check-config"])
    assert ended.value.code == code


def test_without_a_cluster_it_says_so_and_ends(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.common.logs.configure", lambda *_: None)
    missing = tmp_path / "kubeconfig"
    with pytest.raises(SystemExit) as ended:
        main(["--kubeconfig", str(missing), "--token", str(tmp_path), "--port", "0", "--ops-port", "0"])
    assert ended.value.code == 1
    assert str(missing) in "".join(capfd.readouterr())


def test_a_folder_without_certificates_is_named_with_what_makes_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.common.logs.configure", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main(["--tls", str(tmp_path), "--port", "0", "--ops-port", "0"])
    assert ended.value.code == 2
    said = "".join(capfd.readouterr())
    assert str(tmp_path / "tls.crt") in said
    assert "`gpuyard certificates` makes it" in said


@pytest.mark.parametrize(
    ("given", "port"), [([], 8080), (["--tls", "/tls"], 8443), (["--tls", "/tls", "--port", "0"], 0)]
)
def test_with_certificates_the_verbs_listen_on_another_port(given: list[str], port: int) -> None:
    assert _port(_parser().parse_args(given)) == port


@pytest.mark.row("X-22", case="no-folder")
@pytest.mark.parametrize(("settings", "said"), [("", "--token"), ("authentication: mtls", "without --tls")])
def test_without_what_callers_are_known_by_it_does_not_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, settings: str, said: str
) -> None:
    monkeypatch.setattr("gpuyard.common.logs.configure", lambda *_: None)
    (file := tmp_path / "extender.yaml").write_text(CONFIG + settings)
    with pytest.raises(SystemExit) as ended:
        main(["--config", str(file), "--port", "0", "--ops-port", "0"])
    assert ended.value.code == 2
    assert said in "".join(capfd.readouterr())
