"""The demo's sandbox: its extender is one more process, which gets another port when its own is taken."""

from __future__ import annotations

import socket
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from gpuyard.sandbox import files, launch, lifecycle, ports, processes
from gpuyard.sandbox.cluster import Cluster
from gpuyard.sandbox.demo import stage
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.files import Record
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.spec import Spec

from tests.sandbox.workshop import Said

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def cluster(folder: Path, spec: Spec) -> Cluster:
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    return Cluster(folder, Record(spec, {}, {}, files.new_tokens()))


class Ups:
    """Stands for `lifecycle.up` and remembers what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.extenders: list[int] = []
        self.others: list[Iterator[int]] = []

    def __call__(self, spec: Spec, *, candidates: Iterator[int], **_: object) -> Cluster:
        made = cluster(self.folder, spec)
        self.extenders.append(stage.extender_port(made))
        self.others.append(candidates)
        return made


@pytest.fixture
def ups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ups:
    ups = Ups(tmp_path / "demo")
    monkeypatch.setattr(lifecycle, "up", ups)
    monkeypatch.setattr(Cluster, "kubectl", lambda *_: "")
    return ups


def taken(_: Cluster) -> None:
    raise launch.PortTakenError(stage.EXTENDER, 20_000, [])


def test_an_extender_whose_port_was_taken_at_the_last_moment_gets_another(
    ups: Ups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, starts = Said(), iter(["taken", "free"])

    def start(cluster: Cluster) -> None:
        if next(starts) == "taken":
            taken(cluster)

    monkeypatch.setattr(stage, "start_extender", start)
    found = stage.set_up("demo", said, folders=Folders(tmp_path))
    assert len(ups.extenders) == 2
    assert stage.extender_port(found) == ups.extenders[1]
    assert "start of gpuyard-extender: port 20000 is taken; choosing another" in said.lines


def test_where_every_port_is_taken_the_demo_gives_up(ups: Ups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "start_extender", taken)
    with pytest.raises(SandboxError, match="taken at once"):
        stage.set_up("demo", Said(), folders=Folders(tmp_path))
    assert len(ups.extenders) == lifecycle.PORT_TRIES


def test_the_control_plane_leaves_the_extender_its_two_ports(
    ups: Ups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: Any = iter([21_000, 21_000, 21_001, 21_002])
    monkeypatch.setattr(ports, "candidates", lambda: drawn)
    monkeypatch.setattr(stage, "_pair_is_free", lambda _: True)
    monkeypatch.setattr(stage, "start_extender", lambda _: None)
    stage.set_up("demo", Said(), folders=Folders(tmp_path))
    assert (ups.extenders, list(islice(ups.others[0], 1))) == ([21_000], [21_002])


def test_a_real_extender_that_finds_its_port_taken_is_told_apart(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as stranger:
        port = stranger.getsockname()[1]
        config = stage.manifests() / "kube-scheduler" / "config.yaml"
        url = f"http://127.0.0.1:{port - 1}/scheduler"
        made = cluster(tmp_path, Spec(scheduler_config=config, extender_url=url))
        made.kubeconfig.write_text(KUBECONFIG)
        with pytest.raises(launch.PortTakenError):
            stage.start_extender(made)
    assert processes.of(tmp_path) == {}


def test_an_extender_that_ends_says_where_its_log_is(tmp_path: Path) -> None:
    port = ports.free(ports.candidates())
    config = stage.manifests() / "kube-scheduler" / "config.yaml"
    spec = Spec(name="mine", scheduler_config=config, extender_url=f"http://127.0.0.1:{port - 1}/scheduler")
    made = cluster(tmp_path, spec)
    with pytest.raises(SandboxError) as failure:
        stage.start_extender(made, "--no-such-option")
    assert failure.value.remedy.startswith(f"The whole log is {made.log(stage.EXTENDER)}")


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
"""
