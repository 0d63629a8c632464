"""Which engine is used, and what somebody without one is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import engines
from gpuyard.sandbox.kind.docker import Docker
from gpuyard.sandbox.kind.private import PrivateEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OURS = Docker({"DOCKER_HOST": "unix:///ours"})
USERS = Docker({"DOCKER_CONTEXT": "default"})


class Machine:
    """A machine with or without an engine, root, Debian; it remembers what was done to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.users_engine = False
        self.silence = "none answers"
        self.id = "an engine"
        self.root_on_debian = True
        self.root = True
        self.has_dockerd = True
        self.package_starts_one = False
        self.platform = "linux"
        self.done: list[str] = []
        monkeypatch.setattr(Docker, "refusal", lambda _: "" if self.users_engine else self.silence)
        monkeypatch.setattr(Docker, "id", property(lambda _: self.id))
        monkeypatch.setattr(Docker, "pinned", lambda _: USERS)
        monkeypatch.setattr("os.geteuid", lambda: 0 if self.root else 1000)
        monkeypatch.setattr("gpuyard.sandbox.kind.debian.can_install", lambda: self.root_on_debian)
        monkeypatch.setattr("gpuyard.sandbox.kind.debian.install", self._install)
        monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/sbin/it" if self.has_dockerd else None)
        monkeypatch.setattr(PrivateEngine, "start", lambda *_: self._do("start", OURS))
        monkeypatch.setattr(PrivateEngine, "stop", lambda *_: self._do("stop", None))

    def _do(self, what: str, answer: Docker | None) -> Docker | None:
        self.done.append(what)
        return answer

    def _install(self, programs: tuple[str, ...], _: object) -> None:
        self.done.append(f"install {' '.join(programs)}")
        self.users_engine = self.package_starts_one


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.fixture
def find(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., engines.Engine]:
    def call(before: engines.Engine | None = None) -> engines.Engine:
        monkeypatch.setattr("sys.platform", machine.platform)
        folders = Folders(tmp_path)
        return engines.again(before, folders, print) if before else engines.engine(folders, print)

    return call


def test_the_engine_that_answers_is_used_and_nothing_is_started(
    machine: Machine, find: Callable[..., engines.Engine]
) -> None:
    machine.users_engine = True
    assert find() == engines.Engine(USERS, private=False, id="an engine")
    assert machine.done == []


def test_root_on_debian_gets_one_of_our_own(machine: Machine, find: Callable[..., engines.Engine]) -> None:
    assert find() == engines.Engine(OURS, private=True)
    assert machine.done == ["start"]


def test_what_it_needs_is_installed_first(machine: Machine, find: Callable[..., engines.Engine]) -> None:
    machine.has_dockerd = False
    find()
    assert machine.done == ["install dockerd iptables", "start"]


def test_an_engine_that_the_package_started_is_used(machine: Machine, find: Callable[..., engines.Engine]) -> None:
    machine.has_dockerd = False
    machine.package_starts_one = True
    assert not find().private
    assert machine.done == ["install dockerd iptables"]


def test_a_cluster_in_our_engine_stays_there_though_another_answers_now(
    machine: Machine, find: Callable[..., engines.Engine]
) -> None:
    machine.users_engine = True
    assert find(engines.Engine(OURS, private=True)) == engines.Engine(OURS, private=True)


def test_a_cluster_in_an_engine_of_the_users_is_looked_for_there(
    machine: Machine, find: Callable[..., engines.Engine]
) -> None:
    machine.users_engine = True
    before = engines.Engine(Docker({"DOCKER_HOST": "tcp://far"}), private=False, id="an engine")
    assert find(before) == before
    assert machine.done == []


def test_a_cluster_in_an_engine_that_is_gone_is_not_looked_for_elsewhere(
    machine: Machine, find: Callable[..., engines.Engine]
) -> None:
    with pytest.raises(SandboxError, match="in which this sandbox was made: none answers"):
        find(engines.Engine(USERS, private=False, id="an engine"))
    assert machine.done == []


def test_another_engine_at_the_same_address_is_not_taken_for_that_of_the_cluster(
    machine: Machine, find: Callable[..., engines.Engine]
) -> None:
    machine.users_engine = True
    machine.id = "another engine"
    with pytest.raises(SandboxError, match="made in another engine than now answers"):
        find(engines.Engine(USERS, private=False, id="an engine"))
    assert machine.done == []


def test_somebody_who_is_not_root_is_told_of_the_other_ground(
    machine: Machine, find: Callable[..., engines.Engine]
) -> None:
    machine.root_on_debian = machine.root = False
    machine.silence = "it does not let this user in"
    wanted = r"does not let this user in(.|\n)*needs root on Debian: this user is not root(.|\n)*--ground processes"
    with pytest.raises(SandboxError, match=wanted):
        find()


def test_root_elsewhere_is_told_what_lacks_and_of_the_other_ground(
    machine: Machine, find: Callable[..., engines.Engine]
) -> None:
    machine.root_on_debian = False
    with pytest.raises(SandboxError, match=r"this machine has no apt-get(.|\n)*--ground processes"):
        find()


def test_on_another_system_an_engine_has_to_be_started_by_hand(
    machine: Machine, find: Callable[..., engines.Engine]
) -> None:
    machine.platform = "darwin"
    with pytest.raises(SandboxError, match=r"only on Linux(.|\n)*Docker Desktop"):
        find()


@pytest.mark.parametrize(("needed", "done"), [(True, ["start"]), (False, ["start", "stop"])])
def test_a_borrowed_engine_is_stopped_unless_a_sandbox_needs_it(
    machine: Machine, tmp_path: Path, needed: bool, done: list[str]
) -> None:
    with engines.borrowed(Folders(tmp_path), lambda _: None, lambda: needed) as engine:
        assert engine.private
    assert machine.done == done


@pytest.mark.parametrize("broken", [SandboxError("docker build", "it failed"), KeyboardInterrupt()])
def test_a_borrowed_engine_is_stopped_also_when_the_work_in_it_breaks_off(
    machine: Machine, tmp_path: Path, broken: BaseException
) -> None:
    with pytest.raises(type(broken)), engines.borrowed(Folders(tmp_path), lambda _: None, lambda: False):
        raise broken
    assert machine.done == ["start", "stop"]


def test_an_engine_of_the_users_is_borrowed_and_left_alone(machine: Machine, tmp_path: Path) -> None:
    machine.users_engine = True
    with engines.borrowed(Folders(tmp_path), lambda _: None, lambda: False) as engine:
        assert not engine.private
    assert machine.done == []


@pytest.mark.parametrize(("answers", "found"), [(True, 2), (False, 0)])
def test_the_engines_that_may_have_a_lost_sandbox_are_those_that_answer(
    machine: Machine, tmp_path: Path, answers: bool, found: int
) -> None:
    machine.users_engine = answers
    assert len(engines.answering(Folders(tmp_path))) == found
