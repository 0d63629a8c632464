"""Each component is started with what it needs, and anew when anything it reads changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuyard.sandbox.components import API_SERVER, COMPONENTS, ETCD, GROUPS, KWOK, Place
from gpuyard.sandbox.spec import Spec

PROGRAM = Path("/bin/program")


def place(folder: Path, spec: Spec | None = None, **ports: int) -> Place:
    every = {name: 20_000 + number for number, name in enumerate(COMPONENTS)}
    return Place(folder, {**every, **{name.replace("_", "-"): port for name, port in ports.items()}}, spec or Spec())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for component in COMPONENTS.values():
        for name in component.reads:
            (tmp_path / name).write_text(name)
    return tmp_path


def test_each_group_needs_the_one_before_it() -> None:
    assert [[component.name for component in group] for group in GROUPS] == [
        ["etcd"],
        ["kube-apiserver"],
        ["kube-controller-manager", "kube-scheduler", "kwok"],
    ]


@pytest.mark.parametrize("name", COMPONENTS)
def test_nothing_listens_but_on_the_loopback_address(folder: Path, name: str) -> None:
    command = COMPONENTS[name].command(PROGRAM, place(folder))
    assert command[0] == str(PROGRAM)
    assert any("127.0.0.1" in flag for flag in command)
    assert not any("0.0.0.0" in flag for flag in command)  # noqa: S104 - that is what must not be


def test_every_file_of_a_component_lies_in_the_sandboxs_folder(folder: Path) -> None:
    for component in COMPONENTS.values():
        flags = component.flags(place(folder))
        paths = [value for flag in flags if (value := flag.partition("=")[2]).startswith("/")]
        assert all(Path(path).is_relative_to(folder) for path in paths), component.name


def test_the_api_server_finds_etcd_and_takes_more_flags(folder: Path) -> None:
    spec = Spec(api_server_flags=("--runtime-config=api/all=true",))
    flags = API_SERVER.flags(place(folder, spec, etcd=21_111))
    assert "--etcd-servers=http://127.0.0.1:21111" in flags
    assert flags[-1] == "--runtime-config=api/all=true"


def test_the_health_page_is_on_the_components_own_port(folder: Path) -> None:
    assert KWOK.health_url(place(folder, kwok=25_000)) == "http://127.0.0.1:25000/healthz"


def test_what_makes_no_difference_makes_the_same_digest(folder: Path) -> None:
    digests = {ETCD.digest(PROGRAM, place(folder, Spec(nodes=nodes))) for nodes in (1, 2)}
    assert len(digests) == 1


def test_another_program_flag_or_port_makes_another_digest(folder: Path) -> None:
    digests = {
        API_SERVER.digest(PROGRAM, place(folder)),
        API_SERVER.digest(Path("/bin/newer"), place(folder)),
        API_SERVER.digest(PROGRAM, place(folder, Spec(api_server_flags=("--v=4",)))),
        API_SERVER.digest(PROGRAM, place(folder, etcd=21_111)),
    }
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("name", "file"), [(component.name, file) for component in COMPONENTS.values() for file in component.reads]
)
def test_a_change_of_a_file_it_reads_makes_another_digest(folder: Path, name: str, file: str) -> None:
    before = COMPONENTS[name].digest(PROGRAM, place(folder))
    (folder / file).write_text("changed")
    assert COMPONENTS[name].digest(PROGRAM, place(folder)) != before


def test_whoever_talks_to_the_api_server_reads_its_address_from_a_file_of_its_own() -> None:
    for component in GROUPS[-1]:
        assert any(name.endswith(".kubeconfig") for name in component.reads), component.name
