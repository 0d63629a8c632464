"""A look at a cluster of which not everything can be read: what is bad is named, the rest is answered."""

import json
from pathlib import Path

import pytest
from gpuyard.cli import looking
from gpuyard.cli.looking import sound
from gpuyard.engine.model.settings import Settings

from tests.cli.cluster import cluster
from tests.cli.shell import run
from tests.engine.kube.written import Json, node, pod, queue


def bad_queue(name: str = "bad") -> Json:
    made = queue(name)
    made["spec"]["resources"]["gpu"]["quota"] = "many"
    return made


def readable(*given: Json) -> list[str]:
    """The names of the objects that are planned with."""
    return [thing["metadata"]["name"] for thing in json.loads(sound(list(given), Settings()))["items"]]


def test_an_object_that_cannot_be_read_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert readable(node(), queue(), bad_queue(), pod()) == ["node-1", "team-a", "p"]
    assert capsys.readouterr().err.startswith("left out: the cluster: Queue bad: spec.resources.gpu.quota")


def test_a_pod_is_left_out_by_its_namespace_and_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert readable(node(), queue(), pod("p", "lots"), pod("p", namespace="team-b")) == ["node-1", "team-a", "p"]
    assert "Pod default/p" in capsys.readouterr().err


def test_what_is_wrong_only_then_is_left_out_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert readable(node("bad", "lots"), queue(), pod("p", on="bad")) == ["team-a"]
    assert [line.split(": ")[2] for line in capsys.readouterr().err.splitlines()] == ["Node bad", "Pod default/p"]


def test_a_plan_is_left_out_by_its_name_although_it_has_no_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    promise = {"pod": "p", "node": "node-1", "shape": "square"}
    plan: Json = {"apiVersion": "gpuyard.io/v1alpha1", "kind": "Plan", "metadata": {"name": "x"}}
    assert readable(node(), queue(), plan | {"spec": {"promises": [promise]}}) == ["node-1", "team-a"]
    assert "Plan" in capsys.readouterr().err


def test_a_sound_cluster_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert readable(node(), queue(), pod()) == ["node-1", "team-a", "p"]
    assert capsys.readouterr().err == ""


HEAD = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n"


@pytest.mark.parametrize("asked", [("explain", "pod/p"), ("top",), ("plan", "--live")])
def test_the_cluster_is_asked_about_by_the_settings_of_its_extender(tmp_path: Path, asked: tuple[str, ...]) -> None:
    given = (node(), queue(limit=1), pod("p", 2, None))
    with cluster(tmp_path, *given, config=HEAD + "defaultQueue: team-a") as kubeconfig:
        told = run(*asked, "--kubeconfig", kubeconfig)
    assert (told.code, "OverLimit" in told.out) == (0, True)


def test_settings_that_cannot_be_read_are_named_and_the_defaults_stand(tmp_path: Path) -> None:
    with cluster(tmp_path, node(), queue(), config=HEAD + "defaultQueu: x") as kubeconfig:
        told = run("top", "--kubeconfig", kubeconfig)
    assert told.code == 0
    assert "defaultQueu" in told.err
    assert "going on with the default settings" in told.err


def test_of_a_pod_that_cannot_be_read_nothing_is_said_but_why(tmp_path: Path) -> None:
    with cluster(tmp_path, node(), queue(), pod("p", "lots")) as kubeconfig:
        told = run("explain", "pod/p", "--kubeconfig", kubeconfig)
    assert told.code == 2
    assert "left out: the cluster: Pod default/p" in told.err
    assert told.err.endswith("nothing can be said of default/p until what is wrong with it is mended\n")


@pytest.mark.parametrize("asked", [("explain", "pod/p"), ("top",)])
def test_a_cluster_that_takes_too_long_ends_with_what_would_do(
    tmp_path: Path, asked: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "PATIENCE", -1)
    with cluster(tmp_path, node(), queue(), pod()) as kubeconfig:
        told = run(*asked, "--kubeconfig", kubeconfig)
    assert (told.code, "`gpuyard plan --live` takes a longer --timeout" in told.err) == (2, True)
