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
    assert (told.code, told.out) == (0, f"ok    {GOOD}: no labels or resources of a mock that is gone\n")


def test_a_finding_names_the_object_and_below_it_the_remedy_and_ends_with_1(tmp_path: Path) -> None:
    told = ask(tmp_path, labels={"gpuyard.io/mock": "true"})
    seen, remedy = told.out.splitlines()
    assert (told.code, seen.startswith(f"fail  {GOOD}: node node-1: ")) == (1, True)
    assert "`gpuyard uninstall mock` takes it away" in remedy


@pytest.mark.parametrize(("labels", "status"), [({}, "ok"), ({"gpuyard.io/mock": "true"}, "fail")])
def test_for_programs_each_finding_has_its_check_and_status(
    tmp_path: Path, labels: dict[str, str], status: str
) -> None:
    told = ask(tmp_path, "-o", "json", labels=labels)
    assert [(each["check"], each["status"]) for each in told.answer] == [(GOOD, status)]
