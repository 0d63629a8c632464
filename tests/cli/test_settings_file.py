"""`gpuyard doctor` on the extender's settings: in force, partly of an earlier version, or not to be used."""

import json
from pathlib import Path
from typing import cast

import pytest
from gpuyard.cli import settings_file
from gpuyard.engine.model.settings import REMOVED, Removed

from tests.cli.cluster import cluster
from tests.cli.shell import run
from tests.engine.kube.written import Json, node

SETTINGS = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n"


def found(folder: Path, settings: str) -> list[Json]:
    with cluster(folder, node(), config=settings) as kubeconfig:
        told = run("doctor", "-o", "json", "--kubeconfig", kubeconfig)
    return [each for each in json.loads(told.out) if each["check"] == settings_file.TAKEN]


def test_settings_of_this_version_are_in_force(tmp_path: Path) -> None:
    [one] = found(tmp_path, SETTINGS + "placement: spread\n")
    assert (one["status"], one["seen"]) == ("ok", "configmaps gpuyard/gpuyard-extender, extender.yaml")


@pytest.mark.row("B-83", case="doctor")
def test_each_removed_setting_is_a_warning_that_says_what_to_do_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = cast("dict[str, Removed]", REMOVED)
    monkeypatch.setitem(removed, "filter.speed", Removed("set filter.maxNodes", "0.3"))
    monkeypatch.setitem(removed, "depth", Removed("nothing is needed", "0.3"))
    told = found(tmp_path, SETTINGS + "filter: {speed: 3}\ndepth: 2\n")
    assert [one["status"] for one in told] == ["warn", "warn"]
    assert "extender.yaml:3: filter.speed: removed, without effect; set filter.maxNodes" in told[0]["seen"]
    assert told[1]["remedy"] == "take it out of the settings"


@pytest.mark.row("B-83", case="doctor")
def test_settings_that_cannot_be_used_are_a_fault(tmp_path: Path) -> None:
    [one] = found(tmp_path, SETTINGS + "filter: {speed: 3}\n")
    assert (one["status"], "the last good settings stay in force" in one["seen"]) == ("fail", True)
