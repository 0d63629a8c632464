"""`gpuyard snapshot save`: where it writes, and what if it cannot."""

from pathlib import Path

import pytest

from tests.cli.cluster import cluster
from tests.cli.shell import run
from tests.engine.kube.written import node, pod


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with cluster(tmp_path, node()) as kubeconfig:
        told = run("snapshot", "save", tmp_path / "nowhere" / "file", "--kubeconfig", kubeconfig)
    assert told.code == 2
    assert "nowhere/file: cannot be written: no such file or directory" in told.err


def test_the_file_holds_an_object_on_each_line(tmp_path: Path) -> None:
    with cluster(tmp_path, node("a"), node("b"), node("c")) as kubeconfig:
        run("snapshot", "save", tmp_path / "file", "--kubeconfig", kubeconfig)
    assert sum('"kind":"Node"' in line for line in (tmp_path / "file").read_text().splitlines()) == 3


@pytest.mark.parametrize(("asked", "told"), [((), "1 Pod, 2 Node"), (("-o", "json"), {"Node": 2, "Pod": 1})])
def test_it_says_how_much_it_has_written(tmp_path: Path, asked: tuple[str, ...], told: object) -> None:
    with cluster(tmp_path, node("a"), node("b"), pod("p")) as kubeconfig:
        done = run("snapshot", "save", tmp_path / "file", "--kubeconfig", kubeconfig, *asked)
    assert (done.answer["objects"] if asked else done.out) == (told if asked else f"{tmp_path / 'file'}: {told}\n")


def test_on_standard_output_there_is_the_snapshot_and_nothing_else(tmp_path: Path) -> None:
    with cluster(tmp_path, node()) as kubeconfig:
        done = run("snapshot", "save", "-", "--kubeconfig", kubeconfig)
    assert done.answer["kind"] == "List"
