"""Which Docker engine a kind cluster runs in: the one that answers, else one of our own."""

from __future__ import annotations

import contextlib
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuyard.sandbox.errors import SandboxError
from gpuyard.sandbox.kind import debian
from gpuyard.sandbox.kind.docker import Docker
from gpuyard.sandbox.kind.private import PrivateEngine
from gpuyard.sandbox.locks import held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuyard.sandbox.folders import Folders
    from gpuyard.sandbox.releases import Say

OTHER_GROUND = "Without Docker and root, `gpuyard sandbox up --ground processes` gives a real control plane."


@dataclass(frozen=True)
class Engine:
    """An engine that answers; `private` if we started it and may stop it."""

    docker: Docker
    private: bool


def engine(folders: Folders, say: Say, *, private: bool | None = None) -> Engine:
    """The engine to use. `private` asks for a certain one: that in which a cluster was made.

    Raises SandboxError that says what is missing when there is none and we cannot start one.
    """
    user = _of_user(say, private=private)
    if user:
        return user
    with _own(folders, say) as own:
        return Engine(own.start(say), private=True)


@contextlib.contextmanager
def borrowed(folders: Folders, say: Say, needed: Callable[[], object]) -> Iterator[Engine]:
    """An engine for the length of the block; one of our own is stopped at its end unless it is still `needed`."""
    user = _of_user(say)
    if user:
        yield user
        return
    with _own(folders, say) as own:
        yield Engine(own.start(say), private=True)
        if not needed():
            own.stop()


def release(folders: Folders, say: Say) -> None:
    """Stop our own engine, or clean up after it if it crashed."""
    with _own(folders, say) as own:
        own.stop()


@contextlib.contextmanager
def _own(folders: Folders, say: Say) -> Iterator[PrivateEngine]:
    """Our own engine, for us alone."""
    home = folders.root / "kind" / "engine"
    with held(home.with_suffix(".lock"), lambda: say("another gpuyard is at work on the Docker engine: waiting")):
        yield PrivateEngine(home)


def _of_user(say: Say, *, private: bool | None = None) -> Engine | None:
    """The engine that answers; None if we have to use our own."""
    user = Docker()
    if private is not True and user.answers():
        return Engine(user, private=False)
    if private is False:
        raise SandboxError(
            "Docker engine", "the engine in which this sandbox was made does not answer", remedy="Start Docker again."
        )
    _need_own(say)
    # The package that was just installed may have started one.
    return Engine(user, private=False) if private is None and user.answers() else None


def _need_own(say: Say) -> None:
    if sys.platform != "linux":
        raise SandboxError(
            "Docker engine", f"none answers, and only on Linux can we start one (this is {sys.platform})",
            remedy="Start Docker Desktop, or whatever engine you use, and run the command again.",
        )  # fmt: skip
    if not debian.can_install():
        raise SandboxError(
            "Docker engine",
            "none answers, and starting one of our own needs root on Debian",
            remedy=f"Start Docker and run the command again. {OTHER_GROUND}",
        )
    if shutil.which("dockerd", path=debian.SYSTEM) is None or shutil.which("iptables", path=debian.SYSTEM) is None:
        debian.install(("dockerd", "iptables"), say)
