"""`gpuyard snapshot save`: where it writes, and what if it cannot."""

from pathlib import Path

from tests.cli.cluster import cluster
from tests.cli.shell import run
from tests.engine.kube.written import node


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with cluster(tmp_path, node()) as kubeconfig:
        told = run("snapshot", "save", tmp_path / "nowhere" / "file", "--kubeconfig", kubeconfig)
    assert told.code == 2
    assert "nowhere/file: cannot be written: no such file or directory" in told.err


def test_the_file_holds_an_object_on_each_line(tmp_path: Path) -> None:
    with cluster(tmp_path, node("a"), node("b"), node("c")) as kubeconfig:
        run("snapshot", "save", tmp_path / "file", "--kubeconfig", kubeconfig)
    assert sum('"kind":"Node"' in line for line in (tmp_path / "file").read_text().splitlines()) == 3
