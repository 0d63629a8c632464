"""A kind sandbox's record and the decisions of up and down. Real clusters are in tests/cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import cluster as clusters
from gpuyard.sandbox.kind.cluster import Cluster, Record
from gpuyard.sandbox.kind.docker import Docker
from gpuyard.sandbox.kind.engines import Engine
from gpuyard.sandbox.kind.report import report, server
from gpuyard.sandbox.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuyard.sandbox.binaries import Found
    from gpuyard.sandbox.tools import Tool


ENGINE = "unix:///x"


class World:
    """Engines and clusters that only remember what was asked of them."""

    def __init__(self, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folders = folders
        self.done: list[str] = []
        self.healthy = True
        self.engine_there = True
        self.private = True
        self.networks = ["bridge"]
        self.in_network: list[str] = []
        self.starts = True
        self.answering = [Docker({"DOCKER_HOST": ENGINE})]
        self.systems: set[str] = set()
        monkeypatch.setattr("gpuyard.sandbox.kind.engines.engine", self._engine)
        monkeypatch.setattr("gpuyard.sandbox.kind.engines.again", self._again)
        monkeypatch.setattr("gpuyard.sandbox.kind.engines.answering", lambda _: self.answering)
        monkeypatch.setattr("gpuyard.sandbox.kind.engines.release", lambda *_: self.done.append("release"))
        monkeypatch.setattr("gpuyard.sandbox.kind.images.node", lambda *_: "an-image")
        monkeypatch.setattr("gpuyard.sandbox.binaries.ensure", self._ensure)
        monkeypatch.setattr(Cluster, "answers", lambda _: self.healthy)
        monkeypatch.setattr(clusters, "AGAIN_WITHIN", 0)
        monkeypatch.setattr(clusters, "POLL", 0)
        self.nodes = {"control-plane": "running"}
        monkeypatch.setattr(Cluster, "nodes", self.nodes)
        monkeypatch.setattr(Cluster, "create", lambda one, *_: self._create(one))
        monkeypatch.setattr(Cluster, "delete", lambda one: self.done.append(f"delete {one.name}"))
        monkeypatch.setattr(Docker, "lines", lambda _, *words: self.networks if "ls" in words else self.in_network)
        monkeypatch.setattr(Docker, "ask", lambda _, *words: self._ask(*words))

    def _create(self, cluster: Cluster) -> None:
        self.done.append(f"create {cluster.name}")
        (cluster.folder / "up").touch()

    def _ask(self, *words: str) -> None:
        self.done.append(" ".join(words))
        self.healthy = self.healthy or (words[0] in ("start", "unpause") and self.starts)

    def _ensure(
        self, _names: object, _folders: Folders, _say: object, *, tools: Mapping[str, Tool]
    ) -> dict[str, Found]:
        self.systems = {tool.system for tool in tools.values()}
        return {}

    def _engine(self, _: Folders, __: object) -> Engine:
        if not self.engine_there:
            raise SandboxError("Docker engine", "none answers")
        self.done.append("engine")
        return Engine(Docker({"DOCKER_HOST": ENGINE}), private=self.private, id="x")

    def _again(self, before: Engine, _: Folders, __: object) -> Engine:
        if not self.engine_there:
            raise SandboxError("Docker engine", "the engine in which this sandbox was made: none answers")
        self.done.append(f"{before.docker.name} again")
        return before

    def up(self, name: str = "mine", nodes: int = 2) -> Cluster:
        return clusters.up(Spec(name=name, nodes=nodes), folders=self.folders, say=lambda _: None)

    def down(self, name: str = "mine") -> bool:
        return clusters.down(name, folders=self.folders, say=lambda _: None)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(Folders(tmp_path), monkeypatch)


def test_a_first_up_makes_it_and_remembers_it(world: World) -> None:
    cluster = world.up()
    assert world.done == ["engine", "create mine"]
    assert clusters.find("mine", folders=world.folders) == cluster
    assert clusters.names(folders=world.folders) == ["mine"]


def test_the_programs_that_handle_it_are_for_this_machine_not_for_its_nodes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    world.up()
    assert world.systems == {"darwin"}


def test_a_second_up_does_nothing(world: World) -> None:
    world.up()
    world.done.clear()
    world.up()
    assert world.done == []


@pytest.mark.parametrize(("state", "mends"), [("exited", "start"), ("created", "start"), ("paused", "unpause")])
def test_a_node_that_stands_still_is_started_where_it_was(world: World, state: str, mends: str) -> None:
    world.up()
    world.healthy = False
    world.nodes["worker"] = state
    world.up()
    assert world.done[2:] == [f"{ENGINE} again", f"{mends} worker"]


def test_a_sandbox_that_does_not_come_to_answer_is_kept_and_the_way_on_is_told(world: World) -> None:
    world.up()
    world.healthy = world.starts = False
    world.nodes["worker"] = "exited"
    with pytest.raises(SandboxError, match="does not answer within") as refusal:
        world.up()
    assert "run `gpuyard sandbox down --name mine --ground kind` first" in refusal.value.remedy
    assert world.done[2:] == [f"{ENGINE} again", "start worker"]


def test_one_look_that_fails_removes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.up()
    looks = iter([False, False, True])
    monkeypatch.setattr(clusters, "AGAIN_WITHIN", 60)
    monkeypatch.setattr(Cluster, "answers", lambda _: next(looks))
    world.up()
    assert world.done[2:] == [f"{ENGINE} again"]


def test_the_programs_that_start_it_again_are_those_that_are_there_now(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.up()
    monkeypatch.setattr(clusters, "_programs", lambda *_: {"kubectl": Path("/now/kubectl")})
    world.healthy = False
    world.nodes["worker"] = "exited"
    assert world.up().program("kubectl") == Path("/now/kubectl")
    found = clusters.find("mine", folders=world.folders)
    assert found
    assert found.program("kubectl") == Path("/now/kubectl")


def test_a_sandbox_whose_nodes_are_all_gone_is_made_anew_where_it_was(world: World) -> None:
    world.up()
    world.healthy = False
    world.nodes.clear()
    world.up()
    assert world.done[2:] == [f"{ENGINE} again", f"{ENGINE} again", "create mine"]


def test_a_sandbox_that_was_never_finished_is_made_anew(world: World) -> None:
    (world.up().folder / "up").unlink()
    world.up()
    assert world.done.count("create mine") == 2


def test_a_sandbox_wanted_otherwise_is_kept_and_the_way_on_is_told(world: World) -> None:
    world.up(nodes=1)
    with pytest.raises(SandboxError, match="made with other settings") as refusal:
        world.up(nodes=2)
    assert "gpuyard sandbox down --name mine" in refusal.value.remedy
    assert world.done.count("create mine") == 1


def test_another_number_of_gpus_is_no_other_wish_where_the_mock_stack_brings_them(world: World) -> None:
    cluster = world.up()
    world.done.clear()
    assert clusters.up(Spec(name="mine", nodes=2, gpus=4), folders=world.folders, say=lambda _: None) == cluster
    assert world.done == []


def test_a_flag_without_a_value_is_refused_before_anything_is_done(world: World) -> None:
    spec = Spec(name="mine", api_server_flags=("--v",))
    with pytest.raises(SandboxError, match="--v has no value"):
        clusters.up(spec, folders=world.folders, say=lambda _: None)
    assert world.done == []


def test_an_up_that_finds_no_engine_leaves_nothing(world: World) -> None:
    world.engine_there = False
    with pytest.raises(SandboxError):
        world.up()
    assert clusters.names(folders=world.folders) == []


def test_down_of_the_last_one_lets_the_engine_go(world: World) -> None:
    world.up("one")
    world.up("two")
    world.done.clear()
    assert world.down("one")
    assert world.done == [f"{ENGINE} again", "delete one"]
    world.done.clear()
    assert world.down("two")
    assert world.done == [f"{ENGINE} again", "delete two", "release"]


def test_in_a_users_engine_the_network_that_we_made_goes_with_the_last_sandbox(world: World) -> None:
    world.private = False
    world.up("one")
    world.networks.append("kind")
    world.up("two")
    world.down("one")
    world.done.clear()
    world.down("two")
    assert world.done == [f"{ENGINE} again", "delete two", "network rm kind", "release"]


def test_a_network_in_which_somebody_elses_containers_are_stays(world: World) -> None:
    world.private = False
    world.up()
    world.in_network.append("theirs, stopped")
    world.done.clear()
    world.down()
    assert world.done == [f"{ENGINE} again", "delete mine", "release"]


def test_in_a_users_engine_a_network_that_was_there_stays(world: World) -> None:
    world.private = False
    world.networks.append("kind")
    world.up()
    world.done.clear()
    world.down()
    assert world.done == [f"{ENGINE} again", "delete mine", "release"]


def test_down_of_nothing_says_so_and_still_cleans_up_after_a_crash(world: World) -> None:
    assert not world.down()
    assert world.done == ["release"]


@pytest.mark.parametrize("name", ["", ".", "../x", "/x"])
def test_a_name_that_could_lead_elsewhere_is_refused(world: World, name: str) -> None:
    world.up()
    with pytest.raises(ValueError, match="lower-case letters"):
        world.down(name)
    assert clusters.names(folders=world.folders) == ["mine"]


def test_down_without_the_engine_in_which_it_was_made_removes_nothing(world: World) -> None:
    world.up()
    world.done.clear()
    world.engine_there = False
    with pytest.raises(SandboxError, match="in which this sandbox was made"):
        world.down()
    assert world.done == []
    assert clusters.names(folders=world.folders) == ["mine"]
    world.engine_there = True
    assert world.down()


def test_down_leaves_nothing(world: World) -> None:
    world.up()
    world.down()
    assert list(world.folders.root.iterdir()) == []


def test_down_leaves_the_images_of_our_own_engine(world: World) -> None:
    images = world.folders.root / "kind" / "engine" / "data"
    images.mkdir(parents=True)
    world.up()
    world.down()
    assert images.exists()


def test_a_record_that_was_never_finished_is_no_sandbox_but_can_be_removed(world: World) -> None:
    folder = world.folders.root / "kind" / "sandboxes" / "mine"
    folder.mkdir(parents=True)
    (folder / "sandbox.json").write_text("{")
    assert clusters.find("mine", folders=world.folders) is None
    assert report("mine", folders=world.folders)["state"] == "broken"
    assert world.down()


def unreadable(world: World) -> Path:
    """A sandbox whose record was written by a later version."""
    record = world.up().folder / "sandbox.json"
    values = json.loads(record.read_text())
    record.write_text(json.dumps({**values, "spec": {**values["spec"], "later": 1}}))
    world.done.clear()
    return record


def test_nodes_of_a_record_that_cannot_be_read_are_found_by_their_label(world: World) -> None:
    unreadable(world)
    world.in_network += ["a", "b"]
    assert world.down()
    assert world.done == ["rm --force --volumes a b", "release"]


def test_a_record_that_cannot_be_read_stays_while_no_engine_answers(world: World) -> None:
    record = unreadable(world)
    world.answering = []
    with pytest.raises(SandboxError, match="its record cannot be read, and no Docker engine answers"):
        world.down()
    assert world.done == []
    assert record.exists()


def test_an_extender_address_is_refused_where_the_configuration_has_no_extenders(world: World, tmp_path: Path) -> None:
    source = tmp_path / "own.yaml"
    source.write_text("kind: KubeSchedulerConfiguration")
    record = world.up().record
    spec = Spec(name="mine", scheduler_config=source, extender_url="http://127.0.0.1:8080")
    cluster = Cluster(tmp_path, msgspec.structs.replace(record, spec=spec))
    with pytest.raises(SandboxError, match=r"own\.yaml has no extenders"):
        cluster._write_settings("an-image")


def test_a_program_that_has_moved_is_one_sentence(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_programs", lambda *_: {"kubectl": Path("/nowhere/kubectl")})
    with pytest.raises(SandboxError, match="/nowhere/kubectl cannot be run: No such file"):
        world.up().kubectl("get", "pods")


def test_a_record_survives_being_written_and_read(world: World) -> None:
    cluster = world.up(nodes=7)
    found = clusters.find("mine", folders=world.folders)
    assert found
    assert found.record == cluster.record == Record(
        spec=Spec(name="mine", nodes=7), engine={"DOCKER_HOST": ENGINE}, private=True, programs={}, engine_id="x",
        token=found.record.token,
    )  # fmt: skip


def test_the_report_tells_nodes_engine_and_address(world: World) -> None:
    cluster = world.up()
    cluster.kubeconfig.write_text("clusters: [{cluster: {server: 'https://127.0.0.1:6443'}}]")
    found = report("mine", folders=world.folders)
    assert (found["state"], found["engine"], found["apiUrl"]) == ("up", "unix:///x", "https://127.0.0.1:6443")
    assert [node["name"] for node in found["components"]] == ["control-plane"]


@pytest.mark.parametrize("text", [b"", b"clusters: []", b"a: [", b"clusters: [{}]", b"\xff\xfe", b"a: 2020-13-45"])
def test_a_kubeconfig_that_is_not_whole_has_no_address(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "kubeconfig").write_bytes(text)
    assert server(tmp_path / "kubeconfig") == ""
    assert server(tmp_path / "missing") == ""
