"""How long a kind sandbox takes to come and to go, its images at hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from gpuyard.sandbox import SandboxError, Spec, kind
from gpuyard.sandbox.folders import Folders
from gpuyard.sandbox.kind import engines, images
from gpuyard.sandbox.progress import Progress

from tests.cluster.share import others_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.ground("kind"), pytest.mark.timeout(1800), pytest.mark.alone]

UP_WITHIN = 75
DOWN_WITHIN = 15


@pytest.fixture
def name(sandbox_names: Iterator[str]) -> Iterator[str]:
    """The name of a sandbox whose images are there; whatever happens, it is gone at the end."""
    folders, say = Folders.of_user(), Progress()
    try:
        with engines.borrowed(folders, say, kind.names) as engine:
            images.node(engine, folders, say)
    except SandboxError as error:
        pytest.fail(f"ground kind cannot be had: {error}", pytrace=False)
    yield (name := next(sandbox_names))
    kind.down(name)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def test_two_workers_are_up_within_75_seconds_and_gone_within_15(name: str) -> None:
    share = others_share()
    up = seconds(lambda: kind.up(Spec(name=name, nodes=2)))
    down = seconds(lambda: kind.down(name))
    print(f"kind: up {up:.0f} s, down {down:.0f} s")  # noqa: T201 - the figures are wanted
    assert up <= UP_WITHIN * share
    assert down <= DOWN_WITHIN * share
