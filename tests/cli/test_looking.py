"""A look at a cluster of which not everything can be read: what is bad is named, the rest is answered."""

import json

import pytest
from gpuyard.cli.looking import sound

from tests.engine.kube.written import Json, node, pod, queue


def bad_queue(name: str = "bad") -> Json:
    made = queue(name)
    made["spec"]["resources"]["gpu"]["quota"] = "many"
    return made


def names(document: bytes) -> list[str]:
    return [thing["metadata"]["name"] for thing in json.loads(document)["items"]]


def test_an_object_that_cannot_be_read_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(sound([node(), queue(), bad_queue(), pod()])) == ["node-1", "team-a", "p"]
    assert capsys.readouterr().err.startswith("left out: the cluster: Queue bad: spec.resources.gpu.quota")


def test_a_pod_is_left_out_by_its_namespace_and_name(capsys: pytest.CaptureFixture[str]) -> None:
    found = sound([node(), queue(), pod("p", "lots"), pod("p", 1, namespace="team-b")])
    assert names(found) == ["node-1", "team-a", "p"]
    assert "Pod default/p" in capsys.readouterr().err


def test_what_is_wrong_only_then_is_left_out_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(sound([node("bad", "lots"), queue(), pod("p", on="bad")])) == ["team-a"]
    assert [line.split(": ")[2] for line in capsys.readouterr().err.splitlines()] == ["Node bad", "Pod default/p"]


def test_a_plan_is_left_out_by_its_name_although_it_has_no_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    promise = {"pod": "p", "node": "node-1", "shape": "square"}
    plan: Json = {"apiVersion": "gpuyard.io/v1alpha1", "kind": "Plan", "metadata": {"name": "x"}}
    assert names(sound([node(), queue(), plan | {"spec": {"promises": [promise]}}])) == ["node-1", "team-a"]
    assert "Plan" in capsys.readouterr().err


def test_a_sound_cluster_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(sound([node(), queue(), pod()])) == ["node-1", "team-a", "p"]
    assert capsys.readouterr().err == ""
