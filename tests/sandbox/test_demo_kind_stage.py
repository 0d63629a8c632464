"""The demo on kind: what it asks of the cluster, and when it gives up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpuyard.common.topology.reading import read
from gpuyard.sandbox.demo import kind_stage
from gpuyard.sandbox.demo.command import _end
from gpuyard.sandbox.errors import SandboxError

WORKERS = {"gpuyard-demo-worker", "gpuyard-demo-worker2", "gpuyard-demo-worker3", "gpuyard-demo-worker4"}


class Recording:
    """A kind cluster that only remembers; its kubelets offer `offered`."""

    def __init__(self, offered: str = "8 8 8 8") -> None:
        self.nodes = dict.fromkeys(["gpuyard-demo-control-plane", *WORKERS], "running")
        self.docker = None
        self.offered = offered
        self.calls: list[str] = []

    def load(self, image: str) -> None:
        self.calls.append(f"load {image}")

    def give_token(self) -> None:
        self.calls.append("the token")

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        self.calls.append(" ".join(arguments) + stdin)
        return self.offered if "jsonpath" in arguments[-1] else ""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Recording:
    made = Recording()
    monkeypatch.setattr("gpuyard.sandbox.kind.up", lambda *_, **__: made)
    monkeypatch.setattr("gpuyard.sandbox.kind.product.build", lambda *_: "the-image")
    return made


def set_up(said: list[str] | None = None) -> Any:  # noqa: ANN401 - a Recording, for the type checker a cluster
    return kind_stage.set_up("demo", (said if said is not None else []).append)


def test_the_image_is_there_before_what_runs_it_and_all_comes_with_one_apply(cluster: Recording) -> None:
    set_up()
    order = [
        next(place for place, call in enumerate(cluster.calls) if text in call)
        for text in (
            "load the-image",
            "the token",
            "-k",
            "condition=established",
            "topology.yml",
            "rollout status",
        )
    ]
    assert order == sorted(order)


def test_it_tells_what_is_there_when_kubelet_offers_it(cluster: Recording) -> None:
    said: list[str] = []
    assert set_up(said) is cluster
    assert said[-1].startswith("4 nodes with 8 mock GPUs each")


def test_kubelets_that_offer_too_little_are_a_failure_that_says_where_to_look(
    cluster: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind_stage, "OFFERED_WITHIN", 0)
    cluster.offered = "8"
    with pytest.raises(SandboxError, match=r"kubelet does not offer them(.|\n)*gpuyard-mock"):
        set_up()


def test_every_worker_gets_its_gpus_and_the_control_plane_none() -> None:
    recording: Any = Recording()
    made: Any = kind_stage.topology(recording)
    document = json.loads(made["data"]["topology.yml"])
    assert {node: len(each["gpus"]) for node, each in document["nodes"].items()} == dict.fromkeys(WORKERS, 8)


def test_the_topology_is_one_that_the_mock_reads() -> None:
    recording: Any = Recording()
    made: Any = kind_stage.topology(recording)
    assert set(read(made["data"]["topology.yml"]).nodes) == WORKERS


@pytest.mark.parametrize(
    ("name", "on_kind", "told"),
    [
        ("demo", False, "make demo-down"),
        ("demo", True, "make demo-down GROUND=kind"),
        ("mine", False, "gpuyard demo --name mine --down"),
        ("mine", True, "gpuyard demo --ground kind --name mine --down"),
    ],
)
def test_its_end_is_told_for_its_ground(name: str, on_kind: bool, told: str) -> None:
    assert _end(name, on_kind=on_kind) == told
