"""`gpuyard certificates`: how it ends, and what it leaves in a folder; what it writes into a cluster: test_keeping."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from gpuyard.cli import certificates
from gpuyard.cli.issuing import UnreadableError

if TYPE_CHECKING:
    from pathlib import Path

PEMS = {"tls.crt": b"certificate", "tls.key": b"key", "ca.crt": b"authority"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(certificates.certificates, list(arguments))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "calling", lambda *_: PEMS)


@pytest.mark.usefixtures("made")
def test_what_kube_scheduler_reads_is_put_where_that_is_asked(tmp_path: Path) -> None:
    done = run("--save", str(tmp_path / "new"))
    assert done.exit_code == 0
    assert {name: (tmp_path / "new" / name).read_bytes() for name in PEMS} == PEMS
    assert f"{tmp_path / 'new'}: kube-scheduler's tls.crt, tls.key, ca.crt" in done.output


@pytest.mark.usefixtures("made")
def test_a_folder_that_cannot_be_written_is_named_with_what_would_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("--save", str(tmp_path / "file" / "below"))
    assert done.exit_code == 2
    assert "name a folder that you may write with --save" in done.output


def test_a_secret_that_cannot_be_read_is_named_with_what_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: Any) -> None:  # noqa: ANN401 - whatever it is called with
        raise UnreadableError("secret gpuyard/gpuyard-authority: it holds no certificate and key")

    monkeypatch.setattr(certificates, "calling", unreadable)
    done = run()
    assert done.exit_code == 2
    assert "delete the Secret and run this again" in done.output


def test_without_a_cluster_it_ends_with_3(tmp_path: Path) -> None:
    done = run("--kubeconfig", str(tmp_path / "missing"))
    assert done.exit_code == 3
    assert str(tmp_path / "missing") in done.output


@pytest.mark.usefixtures("made")
def test_for_programs_what_was_done_is_one_document_and_told_beside_it(tmp_path: Path) -> None:
    done = run("--save", str(tmp_path), "-o", "json")
    [line] = json.loads(done.stdout)["done"]
    assert done.stderr == f"{line}\n"
