"""The command `gpuyard demo`: what it says when it cannot, and how to go on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from gpuyard.cli.demo import demo
from gpuyard.sandbox.demo import command, kind_stage, stage
from gpuyard.sandbox.demo.command import how_to_go_on
from gpuyard.sandbox.demo.objects import Scene
from gpuyard.sandbox.errors import SandboxError

from tests.sandbox.test_demo_telling import node, pod, queue
from tests.sandbox.workshop import raising

if TYPE_CHECKING:
    from collections.abc import Callable


class Standing:
    """A cluster that was set up."""

    name = "demo"
    kubeconfig = Path("/cache/demo/kubeconfig")
    record = SimpleNamespace(spec=SimpleNamespace(extender_url="http://127.0.0.1:20000/scheduler"))

    def program(self, name: str) -> Path:
        return Path("/cache/bin") / name


def test_a_failure_is_one_message_and_the_code_of_an_unreachable_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_name: str, _say: object) -> None:
        raise SandboxError("start of etcd", "the process ended", remedy="Look at the log.")

    monkeypatch.setattr(command, "set_up", fail)
    result = CliRunner().invoke(demo)
    assert result.exit_code == 3
    assert "start of etcd: the process ended" in result.output
    assert "Traceback" not in result.output


def test_down_says_whether_there_was_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([True, False])
    monkeypatch.setattr("gpuyard.sandbox.kind.names", list)
    monkeypatch.setattr("gpuyard.sandbox.lifecycle.names", list)
    monkeypatch.setattr("gpuyard.sandbox.lifecycle.down", lambda _name: next(found))
    assert CliRunner().invoke(demo, "--down").output == "the demo demo is removed\n"
    assert CliRunner().invoke(demo, "--down").output == "there is no demo demo\n"


def test_for_programs_the_end_is_one_document_and_the_story_goes_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(_cluster: object, _sample: Path, say: Callable[[str], None]) -> Scene:
        say("p runs on n")
        return Scene([node("n")], [queue("red")], [pod("p", node="n")])

    monkeypatch.setattr(command, "_stage", lambda *_: Standing())
    monkeypatch.setattr(command, "play", play)
    done = CliRunner().invoke(demo, ["-o", "json"])
    found = json.loads(done.stdout)
    assert found["pods"] == [{"name": "p", "queue": "red", "gpus": 2, "node": "n", "waits": ""}]
    assert (found["queues"][0]["limit"], found["nodes"][0]["gpus"], found["kubeconfig"]) == (
        16,
        8,
        "/cache/demo/kubeconfig",
    )
    assert "p runs on n" in done.stderr


@pytest.mark.parametrize(
    ("asked", "there", "ended"),
    [
        ((), ["kind"], ["kind"]),
        ((), ["lifecycle"], ["lifecycle"]),
        ((), ["kind", "lifecycle"], ["kind", "lifecycle"]),
        (("--ground", "kind"), ["kind", "lifecycle"], ["kind"]),
    ],
)
def test_down_ends_the_demo_wherever_it_runs_unless_a_ground_is_named(
    monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], there: list[str], ended: list[str]
) -> None:
    done: list[str] = []

    def down(ground: str) -> bool:
        done.append(ground)
        return True

    for ground in ("kind", "lifecycle"):
        monkeypatch.setattr(f"gpuyard.sandbox.{ground}.names", lambda found=ground in there: ["demo"] * found)
        monkeypatch.setattr(f"gpuyard.sandbox.{ground}.down", lambda _name, ground=ground: down(ground))
    result = CliRunner().invoke(demo, [*asked, "--down"])
    assert (result.output, done) == ("the demo demo is removed\n", ended)


@pytest.mark.parametrize("down", [(), ("--down",)], ids=["up", "down"])
@pytest.mark.parametrize("ground", ["processes", "kind"])
@pytest.mark.parametrize("name", ["", "../../../x", "/x", "A_B"])
def test_a_name_that_could_lead_elsewhere_is_bad_input(ground: str, name: str, down: tuple[str, ...]) -> None:
    result = CliRunner().invoke(demo, ["--ground", ground, "--name", name, *down])
    assert (result.exit_code, "is not made of lower-case letters" in result.output) == (2, True)


@pytest.mark.parametrize("arguments", [(), ("--down",)], ids=["up", "down"])
@pytest.mark.parametrize("ground", ["processes", "kind"])
def test_a_cache_that_cannot_be_written_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ground: str, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    result = CliRunner().invoke(demo, ["--ground", ground, *arguments])
    assert (result.exit_code, "files of sandbox demo" in result.output) == (3, True)


def test_how_to_go_on_names_the_kubeconfig_and_no_line_is_wider_than_a_terminal() -> None:
    text = how_to_go_on(Standing(), Path.cwd() / "manifests/samples/quickstart")  # type: ignore[arg-type]
    assert "export KUBECONFIG=/cache/demo/kubeconfig" in text
    assert "kubectl apply --server-side -f manifests/samples/quickstart/2-pods.yaml" in text
    assert "gpuyard doctor --extender http://127.0.0.1:20001\n" in text
    assert text.endswith("End it with: make demo-down")
    assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith("  export "))


@pytest.mark.parametrize(("ground", "end"), [("processes", "make demo-down"), ("kind", "make demo-down GROUND=kind")])
def test_who_interrupts_it_is_told_what_stays_and_how_to_end_it(
    monkeypatch: pytest.MonkeyPatch, ground: str, end: str
) -> None:
    for place in (command, kind_stage):
        monkeypatch.setattr(place, "set_up", raising(KeyboardInterrupt()))
    result = CliRunner().invoke(demo, ["--ground", ground])
    assert result.exit_code == 130
    assert f"what runs by now stays. `{end}` ends it" in result.output


def test_paths_with_blanks_are_quoted_for_the_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    standing = Standing()
    standing.kubeconfig = Path("/my cache/kubeconfig")
    assert "export KUBECONFIG='/my cache/kubeconfig'\n" in how_to_go_on(standing, tmp_path)  # type: ignore[arg-type]


def test_whoever_has_not_the_programs_is_told_where_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    text = how_to_go_on(Standing(), tmp_path)  # type: ignore[arg-type]
    assert "export PATH=/cache/bin:$PATH" in text
    assert f"export PATH={Path(sys.executable).parent}:$PATH" in text


def test_the_manifests_of_this_checkout_are_found() -> None:
    assert (stage.manifests() / "kube-scheduler" / "config.yaml").is_file()
