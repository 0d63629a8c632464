"""Programs are found in a fixed order, and got whole or not at all."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import binaries, golang
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.locks import held

from tests.sandbox import workshop
from tests.sandbox.workshop import ReleasePage, Said, raising, serving

if TYPE_CHECKING:
    from pathlib import Path


PIP_WITHOUT_NETWORK = "for n in 1 2 3 4 5 6; do echo WARNING: Retrying >&2; done; echo ERROR: No route >&2; exit 1"


class Machine:
    """An empty machine: nothing set, nothing on the PATH, an empty cache, no network."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.path = home / "path"
        self.path.mkdir()
        self.folders = Folders(home / "cache")
        self.said = Said()
        self.tools = workshop.tool(home / "tools", "one", "two")
        self.slot = self.folders.binaries / self.tools["one"].slot
        monkeypatch.setenv("PATH", f"{self.path}:/bin")
        monkeypatch.delenv(binaries.SETTING, raising=False)
        monkeypatch.setattr(golang, "_pip_install", lambda: ["/bin/sh", "-c", PIP_WITHOUT_NETWORK])

    def released_at(self, page: ReleasePage) -> None:
        self.tools = workshop.tool(self.home / "page", "one", "two", url=page.url + "/{binary}")
        self.slot = self.folders.binaries / self.tools["one"].slot

    def ensure(self, *names: str, given: Path | None = None) -> dict[str, binaries.Found]:
        return binaries.ensure(names or ["one"], self.folders, self.said, given=given, tools=self.tools)

    def leftovers(self) -> list[str]:
        wanted = {self.slot.name, "one", "two"}
        return [path.name for path in self.folders.binaries.rglob("*") if path.name not in wanted]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_order_is_setting_path_cache_release_build(machine: Machine) -> None:
    with serving(ReleasePage({"/one": workshop.program().encode()})) as page:
        machine.released_at(page)
        workshop.go(machine.path)
        sources = [machine.ensure()["one"].source, machine.ensure()["one"].source]
        assert page.asked == ["/one"]
        workshop.install(machine.path, "one", workshop.program())
        sources.append(machine.ensure()["one"].source)
        given = workshop.install(machine.home / "given", "one", workshop.program()).parent
        sources.append(machine.ensure(given=given)["one"].source)
    assert sources == ["cache", "cache", "PATH", "setting"]
    assert not (machine.path / "builds").exists()


def test_the_setting_can_come_from_the_environment(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workshop.install(machine.home / "given", "one", workshop.program())
    monkeypatch.setenv(binaries.SETTING, str(path.parent))
    assert machine.ensure()["one"].path == path


def test_a_given_program_may_have_another_version(machine: Machine) -> None:
    given = workshop.install(machine.home / "given", "one", workshop.program("thing v1.9.0-rc.1")).parent
    assert machine.ensure(given=given)["one"].version == "v1.9.0-rc.1"


def test_a_given_program_that_does_not_run_is_named(machine: Machine) -> None:
    path = workshop.install(machine.home / "given", "one", "not a program")
    with pytest.raises(SandboxError, match=str(path)):
        machine.ensure(given=path.parent)


def test_another_version_on_the_path_does_not_count(machine: Machine) -> None:
    workshop.install(machine.path, "one", workshop.program("thing version v1.2.4"))
    workshop.go(machine.path)
    assert machine.ensure()["one"].path == machine.slot / "one"


def test_without_a_release_page_all_missing_programs_are_built_together(machine: Machine) -> None:
    workshop.go(machine.path)
    found = machine.ensure("one", "two")
    assert {each.path for each in found.values()} == {machine.slot / "one", machine.slot / "two"}
    assert len((machine.path / "builds").read_text().splitlines()) == 1
    assert "download of http://127.0.0.1:9/v1.2.3/one: Connection refused" in machine.said.text


def test_what_was_downloaded_before_the_page_broke_off_is_not_built(machine: Machine) -> None:
    workshop.go(machine.path)
    with serving(ReleasePage({"/one": workshop.program().encode()})) as page:
        machine.released_at(page)
        machine.ensure("one", "two")
    assert "cmd/one" not in (machine.path / "builds").read_text()


def test_a_download_of_another_version_is_not_taken(machine: Machine) -> None:
    workshop.go(machine.path)
    with serving(ReleasePage({"/one": workshop.program("thing v0.0.1").encode()})) as page:
        machine.released_at(page)
        machine.ensure()
    assert "what arrived does not say that it is v1.2.3" in machine.said.text
    assert workshop.VERSION in (machine.slot / "one").read_text()


def test_a_file_that_a_killed_run_left_half_written_never_counts(machine: Machine) -> None:
    workshop.go(machine.path)
    workshop.install(machine.slot, "one.partial", "#!/bin/sh\nhalf")
    workshop.install(machine.slot / "build.partial", "one", "half")
    assert (machine.ensure()["one"].path).read_text() == workshop.program()
    assert machine.leftovers() == []


def test_a_disk_that_is_full_leaves_nothing_behind(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop.go(machine.path)
    full = OSError(28, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(binaries, "_sync", raising(full))
        with pytest.raises(OSError, match="No space left"):
            machine.ensure()
    assert machine.leftovers() == []
    assert not (machine.slot / "one").exists()
    assert machine.ensure()["one"].path.exists()


def test_two_runs_at_once_build_once(machine: Machine) -> None:
    workshop.go(machine.path)
    lock = machine.slot.with_name(machine.slot.name + ".lock")
    with held(lock):
        runs = [threading.Thread(target=machine.ensure) for _ in range(3)]
        for run in runs:
            run.start()
    for run in runs:
        run.join(20)
    assert len((machine.path / "builds").read_text().splitlines()) == 1
    assert machine.leftovers() == []


def test_whoever_waits_for_another_run_says_so(machine: Machine) -> None:
    workshop.go(machine.path)
    told = threading.Event()

    def say(text: str) -> None:
        if "another gpuyard is getting thing: waiting" in text:
            told.set()

    def ensure() -> None:
        binaries.ensure(["one"], machine.folders, say, tools=machine.tools)

    run = threading.Thread(target=ensure)
    with held(machine.slot.with_name(machine.slot.name + ".lock")):
        run.start()
        assert told.wait(10)
    run.join(20)
    assert (machine.slot / "one").exists()


def test_what_is_nowhere_to_be_had_is_said_in_one_sentence_with_the_remedy(machine: Machine) -> None:
    other = workshop.tool(machine.home / "other tools", "three", version="v4.5.6")
    with pytest.raises(SandboxError) as failure:
        binaries.ensure(["one", "two", "three"], machine.folders, machine.said, tools=machine.tools | other)
    (sentence,) = str(failure.value).splitlines()
    assert sentence.startswith("binaries: missing are one, two v1.2.3, three v4.5.6: one can be neither downloaded")
    assert "Connection refused" in sentence
    assert "pip could not fetch one: No route" in sentence
    assert "put them into a folder and name it with GPUYARD_BIN=FOLDER" in sentence


def test_what_is_there_is_not_called_missing(machine: Machine) -> None:
    workshop.install(machine.path, "one", workshop.program())
    with pytest.raises(SandboxError, match=r"missing are two v1\.2\.3: two can be neither"):
        machine.ensure("one", "two")


def test_what_goes_wrong_in_a_build_is_shown(machine: Machine) -> None:
    workshop.go(machine.path, fails_with="main.go:7: undefined: x")
    with pytest.raises(SandboxError) as failure:
        machine.ensure("one")
    assert failure.value.log == ("main.go:7: undefined: x",)
    assert "Go module proxy" in failure.value.remedy
