"""The docker command: a program in its place shows what is asked of it and what we make of its answers."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.kind import docker
from gpuyard.sandbox.kind.docker import Docker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a script in docker's place; the file it returns has the arguments of each call."""
    for name in docker.LEADING:
        monkeypatch.delenv(name, raising=False)

    def make(script: str) -> Path:
        program = tmp_path / "docker"
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return tmp_path / "calls"

    return make


def test_an_engine_that_tells_its_version_answers(engine: Callable[[str], Path]) -> None:
    engine("echo 28.1")
    assert Docker().answers()


@pytest.mark.parametrize(
    ("says", "refusal"),
    [("permission denied", "it does not let this user in"), ("Cannot connect to the daemon", "none answers")],
)
def test_an_engine_that_refuses_does_not(engine: Callable[[str], Path], says: str, refusal: str) -> None:
    engine(f"echo {says} >&2; exit 1")
    assert not Docker().answers()
    assert Docker().refusal() == refusal


def test_a_machine_without_the_command_has_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not Docker().answers()
    assert Docker().refusal() == "there is no docker command"
    assert Docker().id == ""
    with pytest.raises(SandboxError, match="there is no docker command"):
        Docker().lines("ps")


def test_an_engine_that_is_silent_does_not_answer(
    engine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "ANSWER_WITHIN", 0.2)
    engine("exec sleep 30")
    assert not Docker().answers()


def test_its_variables_lead_to_the_engine(engine: Callable[[str], Path]) -> None:
    engine('echo "$DOCKER_HOST"')
    assert Docker({"DOCKER_HOST": "unix:///run/mine.sock"}).ask("info") == "unix:///run/mine.sock"


SHOWS = 'echo "$DOCKER_HOST|$DOCKER_CONTEXT|$DOCKER_TLS_VERIFY"'


def test_no_variable_of_the_environment_leads_elsewhere(
    engine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(SHOWS)
    for name, value in (("DOCKER_HOST", "tcp://far"), ("DOCKER_CONTEXT", "far"), ("DOCKER_TLS_VERIFY", "1")):
        monkeypatch.setenv(name, value)
    assert Docker().ask("info") == "tcp://far|far|1"
    assert Docker({"DOCKER_HOST": "unix:///mine"}).ask("info") == "unix:///mine||"
    assert Docker({"DOCKER_CONTEXT": "mine"}).ask("info") == "|mine|"


def test_an_engine_is_remembered_by_its_address(engine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    engine(SHOWS)
    monkeypatch.setenv("DOCKER_HOST", "tcp://far")
    monkeypatch.setenv("DOCKER_CONTEXT", "not looked at")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    pinned = Docker().pinned()
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere")
    assert pinned.ask("info") == "tcp://far||1"


def test_without_an_address_it_is_remembered_by_the_context_in_use(
    engine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = engine("echo default")
    assert Docker().pinned() == Docker({"DOCKER_CONTEXT": "default"})
    assert calls.read_text() == "context inspect --format {{.Name}}\n"
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere")
    assert "DOCKER_HOST" not in Docker({"DOCKER_CONTEXT": "default"}).environment


def test_an_engine_says_what_it_calls_itself(engine: Callable[[str], Path]) -> None:
    engine("echo ABCD:EFGH")
    assert Docker().id == "ABCD:EFGH"


@pytest.mark.parametrize("image", ["prom/prometheus:v3.5.0", "registry.k8s.io/pause:3.10", "kindest/node:v1.36.4"])
def test_no_image_gets_a_name_that_a_user_may_have_for_theirs(
    engine: Callable[[str], Path], tmp_path: Path, image: str
) -> None:
    calls = engine("")
    with pytest.raises(ValueError, match="not of ours"):
        Docker().build(tmp_path, image)
    with pytest.raises(ValueError, match="not of ours"):
        Docker().take_in(tmp_path / "base.tar", image, "amd64")
    assert not calls.exists()


def test_a_failure_tells_the_command_and_the_last_lines(engine: Callable[[str], Path]) -> None:
    engine("echo one; echo no space left >&2; exit 3")
    with pytest.raises(SandboxError) as caught:
        Docker().ask("build", ".")
    assert caught.value.step == "docker build"
    assert caught.value.log == ("one", "no space left")
    assert "`docker system df`" in caught.value.remedy


def test_a_build_gets_its_values_and_labels(engine: Callable[[str], Path], tmp_path: Path) -> None:
    calls = engine("")
    Docker().build(tmp_path, "gpuyard.io/mine:v1", {"made.by": "us"}, base="debian")
    assert calls.read_text().split() == [
        "build", "--force-rm", "--network", "host", "--tag", "gpuyard.io/mine:v1",
        "--label", "made.by=us", "--build-arg", "BASE=debian", str(tmp_path),
    ]  # fmt: skip


def test_a_pull_that_succeeds_is_true(engine: Callable[[str], Path]) -> None:
    engine("echo Pulling; echo Done")
    assert Docker().pull("an/image")


def test_a_pull_that_is_refused_is_false(engine: Callable[[str], Path]) -> None:
    engine("exit 1")
    assert not Docker().pull("an/image")


def test_a_registry_that_says_nothing_is_given_up(
    engine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "FIRST_WORD_WITHIN", 0.3)
    engine("exec sleep 30")
    begin = time.monotonic()
    assert not Docker().pull("an/image")
    assert time.monotonic() - begin < 5


def test_a_slow_pull_that_gets_on_is_waited_for(engine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "FIRST_WORD_WITHIN", 0.3)
    engine("echo Pulling; sleep 1; echo Done")
    assert Docker().pull("an/image")


def test_people_are_told_where_the_engine_is() -> None:
    assert Docker().name == "your Docker engine"
    assert Docker({"DOCKER_HOST": "unix:///run/x.sock"}).name == "unix:///run/x.sock"
