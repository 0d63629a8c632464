"""Which Docker engine a kind cluster runs in: the one that answers, else one of our own."""

from __future__ import annotations

import contextlib
import os
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
    from pathlib import Path

    from gpuyard.sandbox.folders import Folders
    from gpuyard.sandbox.releases import Say

OTHER_GROUND = "Without Docker and root, `gpuyard sandbox up --ground processes` gives a real control plane."


@dataclass(frozen=True)
class Engine:
    """An engine that answers; `private` if we started it and may stop it, else `id` tells it from every other."""

    docker: Docker
    private: bool
    id: str = ""


def engine(folders: Folders, say: Say) -> Engine:
    """The engine to use: that which answers, else one of our own.

    Raises SandboxError that says what is missing when there is none and we cannot start one.
    """
    user = _of_user(say)
    if user:
        return user
    with _own(folders, say) as own:
        return Engine(own.start(say), private=True)


def again(before: Engine, folders: Folders, say: Say) -> Engine:
    """The engine in which a sandbox was made, and never another; one of our own is started if need be.

    Raises SandboxError if a user's does not answer, or another one does in its place.
    """
    if before.private:
        with _own(folders, say) as own:
            if not own.docker.answers():
                _need_own(say, before.docker.refusal())
            return Engine(own.start(say), private=True)
    remedy = f"Its containers are in {before.docker.name}: have that engine answer, and run the command again."
    if refusal := before.docker.refusal():
        raise SandboxError("Docker engine", f"the engine in which this sandbox was made: {refusal}", remedy=remedy)
    if before.id not in ("", before.docker.id):
        raise SandboxError("Docker engine", "this sandbox was made in another engine than now answers", remedy=remedy)
    return before


@contextlib.contextmanager
def borrowed(folders: Folders, say: Say, needed: Callable[[], object]) -> Iterator[Engine]:
    """An engine for the length of the block; one of our own is stopped at its end unless it is still `needed`."""
    user = _of_user(say)
    if user:
        yield user
        return
    with _own(folders, say) as own:
        try:
            yield Engine(own.start(say), private=True)
        finally:
            if not needed():
                own.stop()


def answering(folders: Folders) -> list[Docker]:
    """The engines that answer: a user's, and one of our own if it runs."""
    own = PrivateEngine(_home(folders)).docker
    return [docker for docker in (Docker(), own) if docker.answers()]


def release(folders: Folders, say: Say) -> None:
    """Stop our own engine, or clean up after it if it crashed."""
    with _own(folders, say) as own:
        own.stop()


@contextlib.contextmanager
def _own(folders: Folders, say: Say) -> Iterator[PrivateEngine]:
    """Our own engine, for us alone."""
    home = _home(folders)
    with held(home.with_suffix(".lock"), lambda: say("another gpuyard is at work on the Docker engine: waiting")):
        yield PrivateEngine(home)


def _home(folders: Folders) -> Path:
    return folders.root / "kind" / "engine"


def _of_user(say: Say) -> Engine | None:
    """The engine that answers; None if we have to use our own."""
    refusal = Docker().refusal()
    if refusal:
        _need_own(say, refusal)
        # The package that was just installed may have started one.
        refusal = Docker().refusal()
    if refusal:
        return None
    user = Docker().pinned()
    return Engine(user, private=False, id=user.id)


def _need_own(say: Say, refusal: str) -> None:
    """Have what an engine of our own needs; `refusal` tells why no other is there."""
    if sys.platform != "linux":
        raise SandboxError(
            "Docker engine", f"{refusal}, and only on Linux can we start one (this is {sys.platform})",
            remedy="Start Docker Desktop, or whatever engine you use, and run the command again.",
        )  # fmt: skip
    if not debian.can_install():
        lacking = "this machine has no apt-get" if os.geteuid() == 0 else "this user is not root"
        raise SandboxError(
            "Docker engine",
            f"{refusal}, and starting one of our own needs root on Debian: {lacking}",
            remedy=f"Start Docker and run the command again. {OTHER_GROUND}",
        )
    if shutil.which("dockerd", path=debian.SYSTEM) is None or shutil.which("iptables", path=debian.SYSTEM) is None:
        debian.install(("dockerd", "iptables"), say)
