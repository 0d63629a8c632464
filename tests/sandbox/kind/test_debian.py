"""The base image: its name follows from what it is made of, and it is made once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import debian, docker
from gpuyard.sandbox.kind.docker import Docker
from gpuyard.sandbox.tools import architecture

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER = "arm64" if architecture() == "amd64" else "amd64"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would have been run; debootstrap leaves a root, tar a file, docker an image."""
    done: list[list[str]] = []

    def run(command: list[str], _: object = None, folder: Path = tmp_path) -> None:
        done.append(command)
        if command[-2] == "download":
            (folder / f"{command[-1]}_1.deb").write_text("a package")
        elif command[0] == "debootstrap":
            (tmp_path / "cache").mkdir(exist_ok=True)
            _root(Path(command[-1]))
        elif command[0] == "tar":
            Path(command[-2]).write_text("a base")

    monkeypatch.setattr(debian, "_run", run)
    monkeypatch.setattr(debian, "can_install", lambda: True)
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/sbin/it")
    monkeypatch.setattr(Docker, "has", lambda *_: False)
    monkeypatch.setattr(Docker, "ask", lambda _, *arguments: done.append(list(arguments)))
    return done


def _root(root: Path) -> None:
    for name in (
        "etc/machine-id",
        "usr/share/doc/x/copyright",
        "var/cache/apt/archives/python3_1.deb",
        "debootstrap/log",
    ):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("x")


@pytest.fixture
def base(tmp_path: Path) -> Callable[..., str]:
    return lambda *arch: debian.base(Docker(), Folders(tmp_path), lambda _: None, *arch)


def names(commands: list[list[str]]) -> list[str]:
    return [command[0] for command in commands]


def test_it_is_made_and_imported(commands: list[list[str]], base: Callable[..., str]) -> None:
    image = base()
    assert names(commands) == ["debootstrap", "tar", "import"]
    assert commands[-1][-1] == image
    assert image.startswith("gpuyard.io/debian:bookworm-")


def test_what_a_killed_run_has_left_is_removed(
    tmp_path: Path, commands: list[list[str]], base: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "images" / f"bookworm-{debian._key(architecture())}.partial"
    (left / "root" / "half").mkdir(parents=True)
    (left / "root" / "proc").mkdir()
    monkeypatch.setattr(debian, "MOUNTS", tmp_path / "mounts")
    debian.MOUNTS.write_text(f"proc {left}/root/proc proc rw 0 0\nproc /proc proc rw 0 0\n")
    base()
    assert commands[0] == ["umount", "--lazy", f"{left}/root/proc"]
    assert [path.suffix for path in left.parent.iterdir()] == [".tar"]


def test_another_engine_gets_it_from_the_cache(commands: list[list[str]], base: Callable[..., str]) -> None:
    base()
    base()
    assert names(commands) == ["debootstrap", "tar", "import", "import"]


def test_an_engine_that_has_it_is_not_touched(
    commands: list[list[str]], base: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Docker, "has", lambda *_: True)
    base()
    assert commands == []


def test_for_another_processor_every_package_is_only_unpacked_and_the_image_says_so(
    commands: list[list[str]], base: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(docker, "write_system", lambda *arguments, **_: said.append(arguments[3]))
    image = base(OTHER)
    assert said == [OTHER]
    assert names(commands) == ["debootstrap", "dpkg-deb", "tar", "load"]
    assert {"--foreign", f"--arch={OTHER}"} <= set(commands[0])
    assert image != base()


def test_a_base_that_was_broken_off_does_not_count(
    commands: list[list[str]], base: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = debian._run

    def broken(command: list[str], _: object = None) -> None:
        run(command)
        if command[0] == "tar":
            raise SandboxError("tar", "no space left")

    monkeypatch.setattr(debian, "_run", broken)
    with pytest.raises(SandboxError):
        base()
    assert list((tmp_path / "images").iterdir()) == []
    monkeypatch.setattr(debian, "_run", run)
    base()
    assert names(commands).count("debootstrap") == 2


def test_without_root_it_says_what_would_help(
    commands: list[list[str]], base: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "can_install", lambda: False)
    with pytest.raises(SandboxError, match=r"root on Debian(.|\n)*--ground processes"):
        base()
    assert commands == []


def test_only_what_is_missing_is_installed(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    debian.install(("dockerd", "iptables"), lambda _: None)
    assert commands == []
    monkeypatch.setattr("shutil.which", lambda program, **_: None if program == "dockerd" else "/usr/sbin/it")
    debian.install(("dockerd", "iptables"), lambda _: None)
    assert commands == [
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-q", "-y", "--no-install-recommends", "docker.io"],
    ]


def test_a_package_is_unpacked_without_being_installed(commands: list[list[str]], tmp_path: Path) -> None:
    debian.unpack("prometheus", tmp_path / "there")
    update, download, extract = commands
    assert (update[-1], download[-2:], extract[:2]) == ("update", ["download", "prometheus"], ["dpkg-deb", "--extract"])
    assert extract[-1] == str(tmp_path / "there")
    own = [word for word in (*update, *download) if word.startswith("Dir::")]
    assert own
    assert not any(word.endswith(("=/", "=/var/lib/apt")) for word in own), "the machine's own lists stay as they are"


def test_without_apt_a_package_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(SandboxError, match="prometheus: there is no apt-get"):
        debian.unpack("prometheus", tmp_path)
