"""Puts the extender together: watches feed the ledger, the verbs answer from it, the waker acts on what changed."""

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpuyard.common.http import listening
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.reflector import Reflector
from gpuyard.common.logs import get_logger
from gpuyard.common.metrics import CacheCollector
from gpuyard.common.process import Process
from gpuyard.common.settings import Reloaded
from gpuyard.extender.config import ExtenderConfig
from gpuyard.extender.feed import Feed
from gpuyard.extender.ledger import Ledger
from gpuyard.extender.metrics import LedgerCollector, VerbMetrics
from gpuyard.extender.server import Verb, application
from gpuyard.extender.translate import Translator
from gpuyard.extender.verbs import Verbs
from gpuyard.extender.waker import Waker
from gpuyard.extender.wire import CANDIDATES, PREEMPTION, FilterAnswer, PreemptAnswer

SETTLE = 2.0
"""Seconds after the caches are complete in which bindings from before the start still land."""

WAKER_INTERVAL = 1.0
STARTING = "gpuyard is starting: it does not know the cluster yet"

log = get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    config: Path | None
    kubeconfig: str
    host: str | None
    port: int


class Extender:
    """The parts of a running extender."""

    def __init__(self, process: Process, config: Path | None) -> None:
        self.ledger = Ledger()
        self._reloaded = Reloaded(config, ExtenderConfig, changed=self._set, refused=_warn) if config else None
        self.translator = Translator(self.config().engine)
        self.feed = Feed(self.ledger, self.translator, _warn)
        self.problem = STARTING
        metrics = VerbMetrics(process.registry)
        process.registry.register(LedgerCollector(self.ledger))
        self.verbs = Verbs(
            self.ledger,
            self.translator,
            self.config,
            unavailable=lambda: self.problem,
            clock=time.monotonic,
            today=time.time,
            count=lambda reason: metrics.refusals.labels(reason).inc(),
        )
        self.web = application(
            [
                Verb("filter", CANDIDATES, self.verbs.filter, lambda why: FilterAnswer(error=why)),
                Verb("prioritize", CANDIDATES, self.verbs.prioritize, lambda _: []),
                Verb("preempt", PREEMPTION, self.verbs.preempt, lambda _: PreemptAnswer()),
            ],
            metrics,
        )
        if self._reloaded:
            process.spawn("config", self._reloaded.run())

    def config(self) -> ExtenderConfig:
        """The settings in force."""
        return self._reloaded.current if self._reloaded else ExtenderConfig()

    async def start(self, caches: list[Reflector[Any]]) -> None:
        """Begin to answer: the caches are complete, and bindings from before the start have landed."""
        for cache in caches:
            await cache.wait_synced()
        await asyncio.sleep(SETTLE)
        now = time.monotonic()
        self.feed.adopt(now + self.config().reservation.ttl)
        self.problem = ""
        log.info("serving", pods=len(self.ledger.entries), reserved=self.ledger.reserved)

    def _set(self, config: ExtenderConfig) -> None:
        log.info("settings-changed")
        for seen in self.translator.set_settings(config.engine):
            self.ledger.see(seen)


async def serve(process: Process, options: Options) -> None:
    """Start everything; returns when the verbs are answered."""
    extender = Extender(process, options.config)
    process.ready_if("verbs", lambda: extender.problem)
    await process.enter(listening(extender.web, options.port, options.host))
    client = await process.enter(Client(await find_access(options.kubeconfig), agent=process.component))
    caches = extender.feed.reflectors(client)
    process.registry.register(CacheCollector(caches))
    for cache in caches:
        process.ready_if(cache.address.about, partial(_unsynced, cache))
        process.spawn(cache.address.about, cache.run())
    await extender.start(caches)
    waker = Waker(client, extender.ledger, lambda: extender.config().engine, clock=time.time)
    process.spawn("waker", waker.run(WAKER_INTERVAL))


def _unsynced(cache: Reflector[Any]) -> str:
    return "" if cache.synced else cache.problem


def _warn(problem: str) -> None:
    log.warning("unusable", problem=problem)
