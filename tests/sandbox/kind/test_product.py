"""The product image's wheels, and when it is built again. That it runs is shown in tests/cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuyard.common.version import __version__
from gpuyard.sandbox.kind import product

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize(("arch", "machine"), [("amd64", "x86_64"), ("arm64", "aarch64")])
def test_wheels_are_taken_for_the_processor_and_no_newer_c_library_than_the_bases(arch: str, machine: str) -> None:
    names = product.platforms(arch)
    assert {f"manylinux_2_17_{machine}", f"manylinux_2_28_{machine}", f"manylinux2014_{machine}"} <= set(names)
    assert f"manylinux_2_39_{machine}" not in names
    assert all(name.endswith(machine) for name in names)


def test_pip_would_prefer_the_newest_first() -> None:
    names = product.platforms("amd64")[:-1]
    assert names == sorted(names, key=lambda name: -int(name.split("_")[2]))


def test_the_image_is_named_by_the_version() -> None:
    assert f"gpuyard.io/gpuyard:{__version__}" == product.IMAGE


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in (
        "Dockerfile",
        "pyproject.toml",
        "requirements/base.txt",
        "gfd/gpuyard/gfd/labels.py",
        "tests/test_x.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("name", ["Dockerfile", "pyproject.toml", "requirements/base.txt", "gfd/gpuyard/gfd/labels.py"])
def test_a_change_of_what_goes_in_makes_a_new_image(repository: Path, name: str) -> None:
    before = product._content(repository, "amd64")
    (repository / name).write_text("changed")
    assert product._content(repository, "amd64") != before


def test_a_file_that_is_renamed_makes_a_new_image(repository: Path) -> None:
    before = product._content(repository, "amd64")
    (repository / "gfd/gpuyard/gfd/labels.py").rename(repository / "gfd/gpuyard/gfd/names.py")
    assert product._content(repository, "amd64") != before


def test_another_processor_has_an_image_of_its_own(repository: Path) -> None:
    assert product._content(repository, "amd64") != product._content(repository, "arm64")


@pytest.mark.parametrize("name", ["tests/test_x.py", "docs/start.md", "gfd/gpuyard/gfd/__pycache__/labels.pyc"])
def test_what_does_not_go_in_changes_nothing(repository: Path, name: str) -> None:
    before = product._content(repository, "amd64")
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text("changed")
    assert product._content(repository, "amd64") == before


def test_the_dockerfile_fetches_nothing_and_ends_without_root() -> None:
    steps = (REPOSITORY / "Dockerfile").read_text()
    assert not any(word in steps for word in ("apt", "curl", "pip install", "ADD "))
    assert "USER 65532:65532" in steps.rpartition("FROM $BASE")[2]
