"""Where Prometheus comes from: what is at hand wins, and what was unpacked once is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import prometheus
from gpuyard.sandbox.binaries import SETTING
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import debian

from tests.sandbox.workshop import install

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The packages that were asked of Debian; nothing is at hand on this machine."""
    asked: list[str] = []

    def unpack(package: str, folder: Path) -> None:
        asked.append(package)
        for name in prometheus.PROGRAMS:
            install(folder / "usr" / "bin", name, "Debian's")

    monkeypatch.setattr(debian, "unpack", unpack)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv(SETTING, raising=False)
    return asked


def found(tmp_path: Path) -> dict[str, str]:
    """The programs' contents."""
    places = prometheus.programs(Folders(tmp_path / "cache"), lambda _: None)
    return {name: path.read_text() for name, path in places.items()}


def test_debians_package_is_unpacked_once(tmp_path: Path, unpacked: list[str]) -> None:
    for _ in range(2):
        assert found(tmp_path) == dict.fromkeys(prometheus.PROGRAMS, "Debian's")
    assert unpacked == ["prometheus"]


@pytest.mark.parametrize("place", ["path", "setting"])
def test_what_is_at_hand_is_used(
    tmp_path: Path, unpacked: list[str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv(SETTING, str(tmp_path / "setting"))
    for name in prometheus.PROGRAMS:
        install(tmp_path / place, name, "the user's")
    assert found(tmp_path) == dict.fromkeys(prometheus.PROGRAMS, "the user's")
    assert unpacked == []


def test_one_of_the_two_alone_is_not_mixed_with_the_other_of_elsewhere(tmp_path: Path, unpacked: list[str]) -> None:
    install(tmp_path / "path", "prometheus", "the user's")
    assert set(found(tmp_path).values()) == {"Debian's"}
    assert unpacked == ["prometheus"]


def test_a_machine_without_apt_is_told_what_helps(
    tmp_path: Path, unpacked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unpacked == []
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(debian, "SYSTEM", str(tmp_path))
    with pytest.raises(SandboxError, match=r"no apt-get on this machine\nPut prometheus and promtool on the PATH"):
        found(tmp_path)
    assert list((tmp_path / "cache" / "bin").iterdir()) == []


def test_as_a_program_it_becomes_prometheus(tmp_path: Path) -> None:
    for name in prometheus.PROGRAMS:
        install(tmp_path, name, f'#!/bin/sh\necho {name} "$@"\n')
    done = subprocess.run(
        [sys.executable, "-m", "gpuyard.sandbox.prometheus", "--web.listen-address=localhost:9090"],
        env={**os.environ, SETTING: str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "prometheus --web.listen-address=localhost:9090\n"
