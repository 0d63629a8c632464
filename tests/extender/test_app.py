"""How the extender is put together: when it begins to answer, and what new settings change."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.extender import app
from gpuyard.extender.app import STARTING, Extender
from gpuyard.extender.config import ExtenderConfig
from gpuyard.extender.ledger import Phase
from prometheus_client import CollectorRegistry

from tests.extender.builders import pod, typed

if TYPE_CHECKING:
    from gpuyard.common.kube.reflector import Reflector
    from gpuyard.common.process import Process

CONFIG = "apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n"


class Parts:
    """Stands in for the process: takes what is spawned and runs none of it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.spawned: list[str] = []

    def spawn(self, name: str, part: Coroutine[Any, Any, object]) -> None:
        part.close()
        self.spawned.append(name)


class Cache:
    """A cache that is complete when a test says so."""

    def __init__(self) -> None:
        self.complete = asyncio.Event()

    async def wait_synced(self) -> None:
        await self.complete.wait()


def extender(config: Path | None = None) -> Extender:
    return Extender(cast("Process", Parts()), config)


async def test_it_begins_to_answer_when_every_cache_is_complete_and_bindings_have_landed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "SETTLE", 0.05)
    made, caches = extender(), [Cache(), Cache()]
    starting = asyncio.create_task(made.start(cast("list[Reflector[Any]]", caches)))
    caches[0].complete.set()
    await asyncio.sleep(0)
    assert made.problem == STARTING
    made.ledger.see(made.translator.put_pod(typed(pod("p", "team"))))
    caches[1].complete.set()
    await asyncio.sleep(0.01)
    assert made.problem == STARTING
    await starting
    assert made.problem == ""
    assert made.ledger.entries["ns/p"].phase is Phase.RESERVED


def test_without_a_file_the_defaults_are_in_force() -> None:
    assert extender().config() == ExtenderConfig()


def test_new_settings_change_what_pods_mean(tmp_path: Path) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(CONFIG)
    made = extender(file)
    made.ledger.see(made.translator.put_pod(typed(pod("p"))))
    assert made.ledger.snapshot.workloads["ns/p"].queue is None
    file.write_text(CONFIG + "defaultQueue: rest\n")
    assert made._reloaded
    made._reloaded.poll()
    assert made.config().default_queue == "rest"
    assert made.ledger.snapshot.workloads["ns/p"].queue == "rest"


def test_settings_with_a_fault_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(CONFIG + "defaultQueue: rest\n")
    made = extender(file)
    file.write_text(CONFIG + "defaultQueue: {}\n")
    assert made._reloaded
    made._reloaded.poll()
    assert made.config().default_queue == "rest"
