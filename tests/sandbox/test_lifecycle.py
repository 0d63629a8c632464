"""What `up` and `down` do before and beside the processes; the rest is in tests/cluster/test_sandbox_processes.py."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import binaries, files, lifecycle, ports, processes, removal
from gpuyard.sandbox.cluster import Cluster
from gpuyard.sandbox.components import COMPONENTS
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.locks import held
from gpuyard.sandbox.spec import Spec

from tests.sandbox.workshop import Said, raising

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_other_systems_are_told_that_the_ground_needs_linux_and_offered_kind() -> None:
    lifecycle.need_linux("linux")
    with pytest.raises(SandboxError) as failure:
        lifecycle.need_linux("darwin")
    assert str(failure.value) == (
        "ground processes: it needs Linux: Kubernetes has no kube-scheduler for darwin\n"
        "Start Docker and use the ground kind instead: `make demo GROUND=kind`, `gpuyard sandbox up --ground kind`."
    )


def test_where_nothing_is_there_is_nothing_to_find_or_remove(folders: Folders) -> None:
    assert lifecycle.names(folders=folders) == []
    assert lifecycle.find("mine", folders=folders) is None
    assert lifecycle.down("mine", folders=folders) is False
    assert list(folders.root.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/x", "a/b", "A"])
def test_a_name_that_could_lead_elsewhere_is_refused_before_anything_is_touched(folders: Folders, name: str) -> None:
    (folders.sandboxes / "mine").mkdir(parents=True)
    before = sorted(folders.root.rglob("*"))
    for command in (lifecycle.down, lifecycle.find):
        with pytest.raises(ValueError, match="lower-case letters"):
            command(name, folders=folders)
    assert sorted(folders.root.rglob("*")) == before


def test_a_folder_that_is_no_sandboxs_name_is_not_listed(folders: Folders) -> None:
    (folders.sandboxes / "No Sandbox").mkdir(parents=True)
    assert lifecycle.names(folders=folders) == []


def test_without_binaries_nothing_is_begun(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "ensure", raising(SandboxError("binaries", "none to be had")))
    with pytest.raises(SandboxError, match="none to be had"):
        lifecycle.up(Spec(name="mine"), folders=folders, say=Said())
    assert not processes.of(folders.sandboxes / "mine")
    assert list(folders.sandboxes.iterdir()) == []


def test_a_file_that_cannot_be_written_is_told_with_the_folder_and_the_remedy(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "ensure", raising(OSError(28, "No space left on device")))
    with pytest.raises(SandboxError) as failure:
        lifecycle.up(Spec(name="mine"), folders=folders, say=Said())
    assert "files of sandbox mine: [Errno 28] No space left on device" in str(failure.value)
    assert f"Make {folders.sandboxes / 'mine'} writable" in failure.value.remedy


def test_the_rest_of_a_sandbox_without_a_record_is_cleared_before_a_new_one(folders: Folders) -> None:
    folder = folders.sandboxes / "mine"
    (folder / "etcd").mkdir(parents=True)
    (folder / "etcd" / "half").touch()
    lifecycle._record(Spec(name="mine"), folder, {}, ports.candidates())
    assert not folder.exists()


def test_a_new_record_keeps_the_tokens_and_the_free_ports_of_the_old_one(folders: Folders) -> None:
    folder = folders.sandboxes / "mine"
    old = lifecycle._record(Spec(name="mine"), folder, {}, ports.candidates())
    files.write(Cluster(folder, old).place, old)
    new = lifecycle._record(Spec(name="mine", nodes=9), folder, {}, ports.candidates())
    assert (new.tokens, new.ports, new.spec.nodes) == (old.tokens, old.ports, 9)


def test_no_port_is_given_twice(folders: Folders) -> None:
    spare = [ports.free(ports.candidates()) for _ in range(20)]
    doubled = (port for port in dict.fromkeys(spare) for _ in range(2))
    record = lifecycle._record(Spec(name="mine"), folders.sandboxes / "mine", {}, doubled)
    assert len(set(record.ports.values())) == len(COMPONENTS)


def test_down_says_that_it_waits_for_an_up(folders: Folders) -> None:
    said, folder, told = Said(), folders.sandboxes / "mine", threading.Event()
    folder.mkdir(parents=True)

    def say(text: str) -> None:
        said(text)
        told.set()

    thread = threading.Thread(target=lambda: lifecycle.down("mine", folders=folders, say=say))
    with held(removal.lock(folder)):
        thread.start()
        assert told.wait(10)
    thread.join(10)
    assert said.lines == ["another command is at work on sandbox mine: waiting"]
    assert not folder.exists()


def test_a_sandbox_is_listed_while_its_folder_is_there(folders: Folders) -> None:
    (folders.sandboxes / "mine").mkdir(parents=True)
    assert lifecycle.names(folders=folders) == ["mine"]
    assert lifecycle.down("mine", folders=folders)
    assert lifecycle.names(folders=folders) == []
