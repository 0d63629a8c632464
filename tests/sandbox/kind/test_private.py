"""The engine of our own: its settings, and the wrapper around runc. Starting it is shown in tests/cluster."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from gpuyard.sandbox.kind import private
from gpuyard.sandbox.kind.docker import Docker
from gpuyard.sandbox.kind.private import PrivateEngine, settings
from gpuyard.sandbox.processes import Process

DATA, RUN = Path("/cache/data"), Path("/run/gpuyard-1")


def test_nothing_of_it_lies_where_another_engine_would_look() -> None:
    configuration = settings(DATA, RUN, limited=False)
    assert configuration["data-root"] == "/cache/data"
    assert configuration["exec-root"] == "/run/gpuyard-1/exec"
    assert configuration["hosts"] == ["unix:///run/gpuyard-1/docker.sock"]
    assert configuration["bridge"] == "none"
    assert configuration["cgroup-parent"] == "/gpuyard-1"


@pytest.mark.parametrize(("limited", "runtime"), [(False, None), (True, "limited")])
def test_only_a_machine_that_withholds_the_capability_gets_the_wrapper(limited: bool, runtime: str | None) -> None:
    configuration = settings(DATA, RUN, limited=limited)
    assert configuration.get("default-runtime") == runtime
    if runtime:
        assert configuration["runtimes"][runtime]["path"] == "/run/gpuyard-1/runtime"


def test_its_sockets_have_short_paths_however_deep_its_images_lie() -> None:
    engine = PrivateEngine(Path("/home") / ("deep/" * 50) / "engine")
    assert len(str(engine.run / "exec" / "containerd" / "containerd.sock.ttrpc")) < 100


def test_engines_with_different_images_have_nothing_in_common() -> None:
    a, b = PrivateEngine(Path("/a")), PrivateEngine(Path("/b"))
    assert a.run != b.run
    assert a.bridge != b.bridge


def test_the_bridges_name_is_short_enough_for_the_kernel() -> None:
    assert len(PrivateEngine(Path("/a")).bridge) <= 15


def test_the_docker_command_is_led_to_it() -> None:
    engine = PrivateEngine(Path("/a"))
    assert engine.docker.variables["DOCKER_HOST"] == f"unix://{engine.run}/docker.sock"


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wrapper, with a runc that only repeats its arguments."""
    (tmp_path / "runc").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "runtime").write_text(private.RUNTIME)
    for name in ("runc", "runtime"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "runtime"


CAPABILITIES = ["CAP_SYS_RESOURCE", "CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_KILL", "CAP_SYS_RESOURCE"]


@pytest.mark.parametrize("flag", ["--bundle", "-b"])
def test_the_wrapper_takes_the_capability_out_of_a_bundle(runtime: Path, tmp_path: Path, flag: str) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "config.json").write_text(json.dumps({"bounding": CAPABILITIES}, separators=(",", ":")))
    done = subprocess.run([runtime, "create", flag, bundle, "id"], capture_output=True, text=True, check=True)
    assert json.loads((bundle / "config.json").read_text()) == {"bounding": ["CAP_CHOWN", "CAP_KILL"]}
    assert done.stdout.split() == ["create", flag, str(bundle), "id"]


@pytest.mark.parametrize("flag", ["--process", "-p"])
def test_the_wrapper_takes_it_out_of_a_process_too(runtime: Path, tmp_path: Path, flag: str) -> None:
    process = tmp_path / "process.json"
    process.write_text('{"effective":["CAP_CHOWN","CAP_SYS_RESOURCE"]}')
    subprocess.run([runtime, "exec", flag, process, "id"], capture_output=True, check=True)
    assert json.loads(process.read_text()) == {"effective": ["CAP_CHOWN"]}


def test_the_wrapper_passes_everything_else_on(runtime: Path) -> None:
    done = subprocess.run([runtime, "kill", "--all", "an id", "9"], capture_output=True, text=True, check=True)
    assert done.stdout == "kill --all an id 9\n"


def test_mounts_below_a_folder_are_told_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(private, "_call", lambda *command: calls.append(command))
    monkeypatch.setattr(
        Path, "read_text", lambda _: "nsfs /run/e/netns/a nsfs rw 0 0\nx /run/ex x rw 0 0\ny /run/e y rw 0 0\n"
    )
    private._unmount(Path("/run/e"))
    assert calls == [("umount", "--lazy", "/run/e"), ("umount", "--lazy", "/run/e/netns/a")]


class Busy:
    """An engine of our own that says nothing at first; it remembers what was done to it."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.answers = iter([False, False, True])
        self.engine = PrivateEngine(home)
        monkeypatch.setattr(PrivateEngine, "run", home)
        monkeypatch.setattr(private, "POLL", 0)
        monkeypatch.setattr(private, "_call", lambda *_: "")
        monkeypatch.setattr(private, "FORWARDING", home / "forwarding")
        (home / "forwarding").write_text("1")
        (home / "docker.pid").write_text("7")
        monkeypatch.setattr("gpuyard.sandbox.processes.running", lambda: [Process(self.pid, home, "dockerd", "")])
        monkeypatch.setattr(Docker, "answers", lambda _: next(self.answers))
        monkeypatch.setattr(Docker, "lines", lambda *_: ["kind"])
        for step in ("stop", "_launch"):
            monkeypatch.setattr(PrivateEngine, step, lambda _, step=step: self.done.append(step))
        monkeypatch.setattr(PrivateEngine, "_prepare", lambda _: None)

    pid = 7


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Busy:
    return Busy(tmp_path, monkeypatch)


def test_an_engine_that_runs_and_says_nothing_yet_is_waited_for(busy: Busy) -> None:
    busy.engine.start(lambda _: None)
    assert busy.done == []


def test_an_engine_of_which_only_children_are_left_is_started_anew(busy: Busy) -> None:
    busy.pid = 8
    busy.engine.start(lambda _: None)
    assert busy.done == ["stop", "_launch"]


def test_an_engine_that_says_nothing_for_too_long_is_started_anew(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "START_WITHIN", -1)
    busy.engine.start(lambda _: None)
    assert busy.done == ["stop", "_launch"]


def test_what_was_there_before_is_noted_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrivateEngine, "run", tmp_path / "run")
    monkeypatch.setattr(private, "_call", lambda *_: "")
    monkeypatch.setattr(private, "FORWARDING", tmp_path / "forwarding")
    (tmp_path / "forwarding").write_text("1")

    def full(path: Path, target: Path) -> None:
        assert json.loads(path.read_text())["forwarding"] == "1"
        raise OSError(28, f"no room for {target}")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="no room"):
        PrivateEngine(tmp_path / "home")._prepare()
    assert not (tmp_path / "run" / "before.json").exists()


@pytest.mark.parametrize("text", ["", "{", "\0\0", '{"iptables": "'])
def test_a_note_that_was_torn_does_not_keep_the_engine_from_ending(busy: Busy, text: str) -> None:
    (busy.engine.run / "before.json").write_text(text)
    busy.engine._restore()
    assert (busy.engine.run / "forwarding").read_text() == "1"
