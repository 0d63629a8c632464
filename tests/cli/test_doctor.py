"""`gpuyard doctor`: what it says, and by which exit code."""

from pathlib import Path

import pytest

from tests.cli.cluster import cluster
from tests.cli.shell import Run, run
from tests.engine.kube.written import node

GOOD = "nothing is left on nodes"


def ask(folder: Path, *arguments: str, labels: dict[str, str]) -> Run:
    plain = node(labels=labels) | {"status": {"allocatable": {"cpu": "8"}}}
    with cluster(folder, plain) as kubeconfig:
        return run("doctor", *arguments, "--kubeconfig", kubeconfig)


def test_where_all_is_well_it_says_so_and_ends_with_0(tmp_path: Path) -> None:
    told = ask(tmp_path, labels={})
    assert (told.code, told.out) == (0, f"ok {GOOD}\n")


def test_a_finding_names_the_object_and_the_remedy_and_ends_with_1(tmp_path: Path) -> None:
    told = ask(tmp_path, labels={"gpuyard.io/mock": "true"})
    assert (told.code, told.out.splitlines()[0]) == (1, f"! {GOOD}")
    assert told.out.splitlines()[1].startswith("node node-1: ")
    assert "`gpuyard uninstall mock` takes it away" in told.out


@pytest.mark.parametrize(("labels", "code"), [({}, 0), ({"gpuyard.io/mock": "true"}, 1)])
def test_for_programs_each_check_has_its_findings(tmp_path: Path, labels: dict[str, str], code: int) -> None:
    told = ask(tmp_path, "-o", "json", labels=labels)
    assert (told.code, list(told.answer), len(told.answer[GOOD])) == (code, [GOOD], code)
