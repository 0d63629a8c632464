"""`gpuyard sandbox`: what it prints, and how it ends, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from gpuyard.sandbox import cli, files, lifecycle, processes
from gpuyard.sandbox.cluster import Cluster
from gpuyard.sandbox.components import COMPONENTS
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.files import Record
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.processes import Process
from gpuyard.sandbox.spec import Spec

from tests.sandbox.workshop import raising

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Folders.of_user()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.sandbox, arguments)


def made(home: Folders, name: str = "mine") -> Cluster:
    """A sandbox of which only the files are there."""
    folder = home.sandboxes / name
    folder.mkdir(parents=True)
    programs = {each: folder / each for each in COMPONENTS}
    record = Record(Spec(name=name), dict.fromkeys(COMPONENTS, 20_000), programs, files.new_tokens())
    cluster = Cluster(folder, record)
    files.write(cluster.place, record)
    return cluster


def replace_up(monkeypatch: pytest.MonkeyPatch, up: Any) -> None:  # noqa: ANN401 - any function
    ground = cli.GROUNDS["processes"]
    monkeypatch.setitem(
        cli.GROUNDS, "processes", cli.Ground(up, ground.down, ground.names, ground.report, ground.nodes)
    )


def test_up_prints_what_a_shell_can_evaluate(home: Folders, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted: list[Spec] = []
    config = tmp_path / "scheduler.yaml"
    config.write_text("{}")

    def up(spec: Spec) -> Cluster:
        wanted.append(spec)
        return made(home, spec.name)

    replace_up(monkeypatch, up)
    done = run("up", "--name", "mine", "--gpus", "2", "--scheduler-config", str(config), "--api-server-flag", "--v=4")
    assert done.output == f"export KUBECONFIG={home.sandboxes / 'mine' / 'kubeconfig'}\n"
    assert wanted == [Spec(name="mine", nodes=4, gpus=2, scheduler_config=config, api_server_flags=("--v=4",))]


@pytest.mark.parametrize(
    "wrong", [["--name", "No"], ["--nodes", "-1"], ["--audit-policy", "/not/there"], ["--gpu", "1"]]
)
def test_bad_input_ends_with_2(wrong: list[str]) -> None:
    assert run("up", *wrong).exit_code == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--extender-url", "http://x"), "--extender-url: needs a --scheduler-config that has extenders"),
        (("--nodes", "-1"), "--nodes: -1 is less than 0"),
    ],
)
def test_bad_input_is_told_in_the_words_of_the_options(wrong: tuple[str, str], said: str) -> None:
    assert f"Error: {said}\n" in run("up", *wrong).output


def test_a_path_with_blanks_is_quoted_for_the_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    replace_up(monkeypatch, lambda spec: made(Folders.of_user(), spec.name))
    assert run("up").output == f"export KUBECONFIG='{tmp_path}/my cache/gpuyard/sandboxes/default/kubeconfig'\n"


def test_a_sandbox_that_cannot_be_had_ends_with_3_and_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_up(monkeypatch, raising(SandboxError("start of etcd", "the process ended", remedy="Do this.")))
    done = run("up")
    assert done.exit_code == 3
    assert done.output == "Error: start of etcd: the process ended\nDo this.\n"


def test_up_tells_programs_what_status_tells_them(home: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_up(monkeypatch, lambda spec: made(home, spec.name))
    monkeypatch.setattr(processes, "of", lambda _: {})
    told = json.loads(run("up", "--name", "mine", "-o", "json").stdout)
    assert [told] == json.loads(run("status", "-o", "json").stdout)


def test_down_says_whether_there_was_anything(home: Folders) -> None:
    made(home)
    assert run("down", "--name", "mine").output == "sandbox mine is removed\n"
    assert run("down", "--name", "mine").output == "there is no sandbox mine\n"
    assert lifecycle.names() == []
    assert json.loads(run("down", "--name", "mine", "-o", "json").stdout) == {"name": "mine", "removed": False}


@pytest.mark.parametrize("name", ["", ".", "../x", "VICTIM"])
@pytest.mark.parametrize("ground", [(), ("--ground", "processes"), ("--ground", "kind")], ids=["any", "proc", "kind"])
def test_down_removes_no_folder_that_is_not_a_sandboxs(
    home: Folders, tmp_path: Path, ground: tuple[str, ...], name: str
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    made(home)
    done = run("down", *ground, "--name", str(victim) if name == "VICTIM" else name)
    assert done.exit_code == 2
    assert "is not made of lower-case letters" in done.output
    assert victim.exists()
    assert lifecycle.names() == ["mine"]


@pytest.mark.parametrize("command", [("up",), ("down",)], ids=["up", "down"])
@pytest.mark.parametrize("ground", ["processes", "kind"])
def test_a_cache_that_cannot_be_written_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ground: str, command: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    done = run(*command, "--ground", ground)
    assert done.exit_code == 3
    assert "files of sandbox default" in done.output
    assert "Not a directory" in done.output
    assert "run the command again" in done.output


def test_status_of_a_sandbox_that_is_not_there_is_a_no() -> None:
    assert run("status").exit_code == 0
    done = run("status", "--name", "mine")
    assert (done.exit_code, done.output) == (1, "there is no sandbox\n")


@pytest.mark.parametrize(
    ("alive", "state"), [(COMPONENTS, "up"), ([*COMPONENTS][:-1], "degraded"), ([], "degraded")], ids=["all", "4", "0"]
)
def test_status_says_up_only_if_every_component_runs(
    home: Folders, monkeypatch: pytest.MonkeyPatch, alive: list[str], state: str
) -> None:
    folder = made(home).folder
    running = {name: Process(number, folder, name, "d") for number, name in enumerate(alive, 4_000_000)}
    monkeypatch.setattr(processes, "of", lambda _: running)
    (report,) = json.loads(run("status", "-o", "json").output)
    assert report["state"] == state
    assert [each["state"] for each in report["components"]].count("running") == len(alive)
    assert {each["pid"] for each in report["components"] if each["pid"]} == {each.pid for each in running.values()}


def test_status_knows_every_process_of_the_sandbox(home: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = made(home)
    extender = Process(4_000_000, cluster.folder, "gpuyard-extender", "d")
    monkeypatch.setattr(processes, "of", lambda _: {"gpuyard-extender": extender})
    (report,) = json.loads(run("status", "-o", "json").output)
    assert report["components"][-1] == {
        "name": "gpuyard-extender",
        "state": "running",
        "pid": 4_000_000,
        "port": None,
        "program": None,
        "log": str(cluster.log("gpuyard-extender")),
    }
    assert (
        f"gpuyard-extender        running   4000000      -  {cluster.log('gpuyard-extender')}" in run("status").output
    )


def test_status_can_be_asked_of_one_ground(home: Folders) -> None:
    made(home)
    assert run("status", "--ground", "processes").output.startswith("sandbox mine (processes)")
    assert run("status", "--ground", "kind").output == "there is no sandbox\n"
    assert run("status", "--ground", "kind", "--name", "mine").exit_code == 1


def test_the_table_has_what_the_json_has(home: Folders) -> None:
    made(home)
    (report,) = json.loads(run("status", "-o", "json").output)
    text = run("status").output
    assert text.startswith("sandbox mine (processes): degraded\n")
    assert all(report[key] in text for key in ("kubeconfig", "apiUrl", "auditLog"))
    assert all(each["name"] in text and each["log"] in text for each in report["components"])


def test_a_sandbox_without_its_record_is_called_broken_with_the_remedy(home: Folders) -> None:
    (home.sandboxes / "mine").mkdir(parents=True)
    assert "`gpuyard sandbox down --name mine` removes the rest" in run("status").output
