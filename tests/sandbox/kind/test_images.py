"""Which node image is used, and what goes into the one that is built."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import tools
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import images
from gpuyard.sandbox.kind.docker import Docker
from gpuyard.sandbox.kind.engines import Engine

if TYPE_CHECKING:
    from collections.abc import Callable


class Store(Docker):
    """An engine that holds and can pull certain images."""

    def __init__(self, *held: str, pulls: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.__dict__.update(held=held, pulls=pulls, tried=[])

    def has(self, image: str) -> bool:
        return image in self.__dict__["held"]

    def pull(self, image: str) -> bool:
        self.__dict__["tried"].append(image)
        return image in self.__dict__["pulls"]

    def lines(self, *_: str) -> list[str]:
        return []

    def ask(self, *_: str) -> str:
        return ""


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of images that were built; nothing is."""
    names: list[str] = []
    monkeypatch.setattr(images, "_build", lambda _, image, *__: names.append(image))
    monkeypatch.setattr("gpuyard.sandbox.binaries.ensure", lambda *_: {})
    monkeypatch.setattr("gpuyard.sandbox.kind.debian.base", lambda *_: "a-base")
    monkeypatch.setattr("gpuyard.sandbox.golang.source", lambda *_: Path("/kind"))
    return names


@pytest.fixture
def choose(tmp_path: Path) -> Callable[..., str]:
    def call(store: Store, *, private: bool = False) -> str:
        return images.node(Engine(store, private=private), Folders(tmp_path), lambda _: None)

    return call


def test_an_engine_that_holds_the_official_image_needs_nothing(built: list[str], choose: Callable[..., str]) -> None:
    store = Store(images.OFFICIAL)
    assert choose(store) == images.OFFICIAL
    assert (store.tried, built) == ([], [])  # type: ignore[attr-defined]


def test_the_official_image_is_pulled_where_that_is_possible(built: list[str], choose: Callable[..., str]) -> None:
    assert choose(Store(pulls=(images.OFFICIAL,))) == images.OFFICIAL
    assert built == []


def test_where_it_cannot_be_pulled_one_is_built_once(built: list[str], choose: Callable[..., str]) -> None:
    image = choose(Store())
    assert built == [image]
    assert choose(Store(image)) == image
    assert built == [image]


def test_an_engine_of_our_own_takes_the_one_that_fits_it(built: list[str], choose: Callable[..., str]) -> None:
    store = Store(pulls=(images.OFFICIAL,))
    assert choose(store, private=True) == built[0]


def test_what_is_built_never_bears_a_name_of_others(built: list[str], choose: Callable[..., str]) -> None:
    choose(Store())
    assert built[0].startswith("gpuyard.io/")


def test_the_official_image_is_of_our_kubernetes_and_pinned_by_digest() -> None:
    assert re.fullmatch(rf"kindest/node:{re.escape(images.kubernetes())}@sha256:[0-9a-f]{{64}}", images.OFFICIAL)


def test_the_built_images_name_changes_with_every_recipe_and_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = images._key()
    (tmp_path / "Dockerfile").write_text("FROM scratch")
    monkeypatch.setattr(images, "RECIPES", tmp_path)
    changed = images._key()
    monkeypatch.setattr(tools.Tool, "slot", "another")
    assert len({before, changed, images._key()}) == 3


def test_components_have_the_names_and_versions_that_kubeadm_asks_for() -> None:
    kubernetes = images.kubernetes()
    assert images.references() == {
        "kube-apiserver": f"registry.k8s.io/kube-apiserver:{kubernetes}",
        "kube-controller-manager": f"registry.k8s.io/kube-controller-manager:{kubernetes}",
        "kube-scheduler": f"registry.k8s.io/kube-scheduler:{kubernetes}",
        "etcd": "registry.k8s.io/etcd:3.6.8-0",
        "coredns": "registry.k8s.io/coredns/coredns:v1.14.2",
    }


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, Path]:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in images.PROGRAMS:
        (folder / name).write_text(name)
    return {name: folder / name for name in images.PROGRAMS}


@pytest.fixture
def context(tmp_path: Path, programs: dict[str, Path]) -> Path:
    """The folder that the node image is built from."""
    files = tmp_path / "kind-files"
    for name in ("etc/containerd/config.toml", "usr/local/bin/entrypoint"):
        (files / name).parent.mkdir(parents=True)
        (files / name).write_text("x")
        (files / name).chmod(0o444)
    network = images._network_context(tmp_path / "network", programs)
    return images._node_context(tmp_path / "node", network, images.Parts("a-base", programs, files))


def test_the_nodes_programs_lie_where_they_are_looked_for(context: Path) -> None:
    assert {path.name for path in (context / "bin" / "local").iterdir()} == set(images.RUNTIME)
    assert {path.name for path in (context / "bin" / "node").iterdir()} == set(images.NODE)


def test_of_kinds_files_only_programs_are_executable(context: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in (context / "kind-files").rglob("*") if path.is_file()}
    assert modes == {"config.toml": 0o644, "entrypoint": 0o755}


def test_every_component_is_an_archive_of_its_program(context: Path) -> None:
    archives = sorted(path.stem for path in (context / "images").iterdir())
    assert archives == sorted(images.COMPONENTS)
    assert all(tarfile.is_tarfile(path) for path in (context / "images").iterdir())


def test_the_node_brings_its_pod_network_and_a_storage_class(context: Path) -> None:
    assert {path.name for path in (context / "manifests").iterdir()} == {"default-cni.yaml", "default-storage.yaml"}
    manifest = (context / "manifests" / "default-cni.yaml").read_text()
    for magic in ("would you kindly template this file", "would you kindly patch this file", "{{ .PodSubnet }}"):
        assert magic in manifest


def test_the_networks_image_holds_kube_proxy(tmp_path: Path, programs: dict[str, Path]) -> None:
    context = images._network_context(tmp_path / "n", programs)
    assert {path.name for path in context.iterdir()} >= {"Dockerfile", "kube-proxy", "pod-network"}
