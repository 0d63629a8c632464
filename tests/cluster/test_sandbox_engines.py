"""Docker engines: a user's is as it was when we are gone, one of our own leaves nothing, however it ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import SandboxError, Spec, kind
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import debian, engines, images, product
from gpuyard.sandbox.kind.docker import HOST, OURS, Docker
from gpuyard.sandbox.kind.private import NETWORK, PrivateEngine
from gpuyard.sandbox.progress import Progress

from tests.cluster.machine import inventory, traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.ground("kind"), pytest.mark.timeout(1800)]

THEIRS = "prom/prometheus:v3.5.0"
"""An image's name that a user may well have; what it holds is theirs."""


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Docker]:
    """The engine of this machine's user; where there is none, one that plays it, with things of theirs in it."""
    if Docker().answers():
        yield Docker().pinned()
        return
    stock = stocked(tmp_path / "images.tar")
    engine = PrivateEngine(tmp_path / "engine")
    docker = engine.start(Progress())
    try:
        docker.ask("network", "rm", NETWORK)  # kind makes it, as in any engine of a user
        docker.ask("network", "create", "theirs")
        docker.ask("load", "--input", str(stock))
        stock.unlink()
        docker.ask("tag", debian.base(docker, Folders.of_user(), Progress()), THEIRS)
        docker.ask("run", "--detach", "--name", "theirs", "--network", "theirs", THEIRS, "sleep", "infinity")
        yield docker
    finally:
        with contextlib.suppress(SandboxError):
            docker.ask("rm", "--force", "theirs")
            docker.ask("network", "rm", "theirs")
        engine.stop()
        shutil.rmtree(engine.home)


def stocked(archive: Path) -> Path:
    """Save the images from which everything is made, so that another engine need not make them again."""
    folders, say = Folders.of_user(), Progress()
    with engines.borrowed(folders, say, kind.names) as engine:
        made = images.node(engine, folders, say), images.python(engine.docker, folders, say)
        engine.docker.ask("save", "--output", str(archive), *made)
    return archive


def test_an_engine_of_a_user_is_used_and_what_is_theirs_is_as_it_was(
    users: Docker, sandbox_names: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, before = next(sandbox_names), inventory(users)
    for variable, value in users.variables.items():
        monkeypatch.setenv(variable, value)
    try:
        cluster = kind.up(Spec(name=name, nodes=0))
        cluster.load(product.build(cluster.docker, Folders.of_user(), Progress()))
        assert (cluster.record.private, cluster.docker.id) == (False, users.id)
    finally:
        # Whatever engine the environment leads to by now, it is not that in which the sandbox is.
        monkeypatch.setenv(HOST, "unix:///nobody/listens/here.sock")
        assert kind.down(name)
    after = inventory(users)
    more = [image.split()[1] for image in after["images"] if image not in before["images"]]
    assert [image for image in more if not image.startswith(OURS)] == []
    assert set(before["images"]) <= set(after["images"])
    assert {**after, "images": []} == {**before, "images": []}


def test_what_a_crashed_engine_leaves_is_removed_too(tmp_path: Path) -> None:
    if Docker().answers():  # then one of our own is never started
        assert not engines.engine(Folders.of_user(), Progress()).private
        return
    before = traces()
    engine = PrivateEngine(tmp_path / "engine")
    docker = engine.start(Progress())
    base = debian.base(docker, Folders.of_user(), Progress())
    docker.ask("run", "--detach", "--network", "kind", "--publish", "127.0.0.1::80", base, "sleep", "infinity")
    os.kill(int((engine.run / "docker.pid").read_text()), signal.SIGKILL)
    engine.stop()
    assert traces() == before
    shutil.rmtree(engine.home)
