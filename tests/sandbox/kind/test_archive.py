"""Image archives are complete, lawful and the same every time."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.kind.archive import write_image, write_system

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "kube-thing"
    path.write_bytes(b"a program")
    return path


def write(folder: Path, program: Path, name: str = "image.tar") -> Path:
    archive = folder / name
    write_image(archive, "example.io/thing:v1", {"usr/local/bin/thing": program}, "arm64", ["/usr/local/bin/thing"])
    return archive


def parts(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]


def test_the_manifest_names_the_image_and_its_parts(tmp_path: Path, program: Path) -> None:
    content = parts(write(tmp_path, program))
    (image,) = json.loads(content["manifest.json"])
    assert image["RepoTags"] == ["example.io/thing:v1"]
    assert set(content) == {"manifest.json", image["Config"], *image["Layers"]}


def test_the_configuration_is_named_by_its_digest_and_names_the_layer_by_its_own(tmp_path: Path, program: Path) -> None:
    content = parts(write(tmp_path, program))
    (image,) = json.loads(content["manifest.json"])
    config = content[image["Config"]]
    assert image["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    layer = hashlib.sha256(content[image["Layers"][0]]).hexdigest()
    assert json.loads(config)["rootfs"]["diff_ids"] == [f"sha256:{layer}"]


def test_the_program_is_found_by_its_name_and_started_by_its_path(tmp_path: Path, program: Path) -> None:
    content = parts(write(tmp_path, program))
    (image,) = json.loads(content["manifest.json"])
    settings = json.loads(content[image["Config"]])
    assert (settings["architecture"], settings["os"]) == ("arm64", "linux")
    assert settings["config"]["Entrypoint"] == ["/usr/local/bin/thing"]
    assert "/usr/local/bin" in settings["config"]["Env"][0].removeprefix("PATH=").split(":")


def test_the_layer_holds_the_program_executable_and_owned_by_root(tmp_path: Path, program: Path) -> None:
    content = parts(write(tmp_path, program))
    (image,) = json.loads(content["manifest.json"])
    with tarfile.open(fileobj=io.BytesIO(content[image["Layers"][0]])) as layer:
        (entry,) = layer
        assert (entry.name, entry.mode, entry.uid, entry.gid) == ("usr/local/bin/thing", 0o755, 0, 0)


def test_the_same_programs_give_the_same_bytes(tmp_path: Path, program: Path) -> None:
    first = write(tmp_path, program, "a.tar").read_bytes()
    program.touch()
    assert write(tmp_path, program, "b.tar").read_bytes() == first


def test_nothing_but_the_archive_is_left(tmp_path: Path, program: Path) -> None:
    write(tmp_path, program)
    assert {path.name for path in tmp_path.iterdir()} == {"kube-thing", "image.tar"}


def test_a_program_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(tmp_path, tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_a_whole_system_is_one_layer_as_it_stands(tmp_path: Path) -> None:
    system = tmp_path / "base.tar"
    with tarfile.open(system, "w") as tar:
        tar.addfile(tarfile.TarInfo("./bin"))
    write_system(tmp_path / "image.tar", "example.io/base:v1", system, "arm64", Cmd=["bash"])
    content = parts(tmp_path / "image.tar")
    (image,) = json.loads(content["manifest.json"])
    settings = json.loads(content[image["Config"]])
    assert content[image["Layers"][0]] == system.read_bytes()
    assert (settings["architecture"], settings["config"]["Cmd"]) == ("arm64", ["bash"])
