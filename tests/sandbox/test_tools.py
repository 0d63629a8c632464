"""A tool's folder pins it: its files name its place in the cache, and describe what it is made of."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import msgspec
import pytest
from gpuyard.sandbox import binaries, components, golang, tools

from tests.sandbox.workshop import tool

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("file", ["tool.toml", "go.mod", "go.sum"])
def test_a_change_of_any_lock_file_is_a_new_place_in_the_cache(tmp_path: Path, file: str) -> None:
    thing = tool(tmp_path, "thing")["thing"]
    before = thing.slot
    path = thing.folder / file
    path.write_text(path.read_text() + "\n")
    assert thing.slot != before


def test_a_change_of_a_source_of_our_own_is_a_new_place_in_the_cache(tmp_path: Path) -> None:
    thing = tool(tmp_path, "thing")["thing"]
    before = thing.slot
    (thing.folder / "main.go").write_text("package main\n")
    assert thing.slot != before


def test_the_place_in_the_cache_tells_tool_version_and_processor(tmp_path: Path) -> None:
    assert tool(tmp_path, "thing")["thing"].slot.startswith(f"thing-v1.2.3-linux-{tools.architecture()}-")


def test_templates_are_filled_with_version_number_processor_and_binary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    thing = tool(tmp_path, "thing")["thing"]
    assert thing.fill("{version} {number} {arch} {binary}", "thing") == "v1.2.3 1.2.3 arm64 thing"


def test_programs_for_this_machine_itself_are_those_of_its_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    kind, kubectl = (tools.catalogue(system="darwin")[name] for name in ("kind", "kubectl"))
    assert kind.release
    assert kubectl.release
    assert kind.fill(kind.release.url, "kind").endswith("/kind-darwin-arm64")
    assert kubectl.fill(kubectl.release.url, "kubectl").endswith("/bin/darwin/arm64/kubectl")
    assert kind.fill(kind.release.checksum, "kind").endswith("/kind-darwin-arm64.sha256sum")
    assert kind.slot.startswith(f"kind-{kind.version}-darwin-arm64-")
    assert tools.catalogue()["kind"].slot.startswith(f"kind-{kind.version}-linux-arm64-")


def test_a_misspelt_key_is_refused(tmp_path: Path) -> None:
    folder = tool(tmp_path, "thing")["thing"].folder
    text = (folder / "tool.toml").read_text()
    (folder / "tool.toml").write_text(f'tgas = ["none"]\n{text}')
    with pytest.raises(msgspec.ValidationError, match="tgas"):
        tools.read(folder)


def test_every_program_of_the_ground_has_a_tool() -> None:
    known = tools.catalogue()
    assert set(components.PROGRAMS) <= set(known)


@pytest.mark.parametrize("folder", sorted({each.folder for each in tools.catalogue().values()}), ids=lambda it: it.name)
def test_the_lock_files_of_each_tool_agree_with_each_other(folder: Path) -> None:
    each = tools.read(folder)
    modules = (folder / "go.mod").read_text()
    assert all(binary.package in modules for binary in each.binaries.values())
    assert f" {each.version}" in modules
    assert f" {each.version} h1:" in (folder / "go.sum").read_text()


def test_the_go_that_pip_fetches_builds_every_tool() -> None:
    pinned = tools.numbers(golang.REQUIREMENT.read_text().split("==")[1].split()[0])
    assert all(each.go_version <= pinned for each in tools.catalogue().values())


def test_nothing_is_fetched_from_anywhere_but_the_projects_own_release_pages() -> None:
    urls = [each.release.url for each in tools.catalogue().values() if each.release]
    assert {url.split("/")[2] for url in urls} == {"dl.k8s.io", "github.com"}
    assert all(url.startswith("https://") for url in urls)


def test_only_the_tests_of_kubernetes_have_no_release_and_are_always_built() -> None:
    assert [name for name, each in tools.catalogue().items() if each.release is None] == ["scheduling-e2e"]


def test_the_tests_of_kubernetes_belong_to_the_kubernetes_that_runs() -> None:
    known = tools.catalogue()
    assert known["scheduling-e2e"].version == known["kube-apiserver"].version


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ("Kubernetes v1.36.4", True),
        ("etcd Version: 1.36.4\nGit SHA: none", True),
        ('Client Version: version.Info{GitVersion:"v1.36.4"}', True),
        ("Client Version: v1.36.4-dispatcher", False),
        ("Kubernetes v1.36.40", False),
        ("", False),
    ],
)
def test_only_the_very_version_counts(answer: str, *, fits: bool) -> None:
    assert binaries.is_version(answer, "v1.36.4") is fits
