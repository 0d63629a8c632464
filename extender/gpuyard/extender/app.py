"""Puts the extender together: watches feed the ledger, the verbs answer from it, the waker acts on what changed.

    caches not complete ──▶ standing by ──leading──▶ settling ──2 s──▶ serving
          Error             Error, close             Error               │
                                ▲                                        │
                                └──────────────── lease lost ────────────┘

Without a lease there is no standing by: the one extender leads as soon as its caches are complete.
"""

import asyncio
import gc
import platform
import time
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.common.cluster.changed_pods import PAGE, ChangedPodsCollector
from gpuyard.common.cluster.queue_faults import INVALID, tell
from gpuyard.common.cluster.translate import Translator
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.following import FollowedSettings
from gpuyard.common.http import LOOPBACK
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.contact import Contact, read_little
from gpuyard.common.kube.events import Recorder
from gpuyard.common.kube.reflector import Reflector
from gpuyard.common.kube.resources import PODS
from gpuyard.common.lease import Elector
from gpuyard.common.logs import get_logger
from gpuyard.common.metrics import CacheCollector, CertificateCollector, LeaseCollector
from gpuyard.common.process import Process
from gpuyard.common.settings import SettingsError
from gpuyard.common.tls import Identity
from gpuyard.extender.http.authentication import NO_CERTIFICATES, Gate, Tokens
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.http.server import Server, Unavailable, Verb
from gpuyard.extender.http.wire import BINDING, CANDIDATES, PREEMPTION, BindAnswer, FilterAnswer, PreemptAnswer
from gpuyard.extender.leadership import LEASE, take_label
from gpuyard.extender.ledger import Ledger
from gpuyard.extender.ledger.feed import Feed
from gpuyard.extender.ledger.metrics import LedgerCollector, UnreadableCollector
from gpuyard.extender.planner.decide.stepping import drain
from gpuyard.extender.planner.look.capacity import Capacity, keep_watch
from gpuyard.extender.planner.loop import Planner
from gpuyard.extender.planner.metrics import PlannerMetrics
from gpuyard.extender.planner.tell.pod_events import REASONS
from gpuyard.extender.verbs.binding import Binder
from gpuyard.extender.verbs.verbs import Verbs
from gpuyard.extender.waker import Waker

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

SETTLE = 2.0
"""Seconds in which bindings from before this extender leads still land."""

WAKER_INTERVAL = 1.0
STARTING = "gpuyard is starting: it does not know the cluster yet"
NOT_LEADER = "not leader"
OPEN = "`authentication: none`: whoever reaches the port is answered as if they were kube-scheduler"
CUT_OFF = "gpuyard has heard nothing of the API server for too long"
NO_FOLDER = (
    "the port asks its callers for a token, and no folder of it is named: name the one where Secret "
    "gpuyard-extender-token is mounted with --token, or one with certificates with --tls, or set `authentication: none`"
)

log = get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    config: Path | None
    kubeconfig: str
    context: str
    host: str | None
    port: int
    lease: str
    """The namespace of the Lease; empty: there is no other extender."""
    pod: str
    tls: Path | None = None
    """The folder of certificates; None: the port has no TLS."""
    token: Path | None = None
    """The folder of the token that callers show; None: there is none."""


class Extender:
    """The parts of a running extender."""

    def __init__(self, process: Process, config: Path | None) -> None:
        self.ledger = Ledger()
        self._followed = _followed(config, self._set) if config else None
        self.translator = Translator(self.config().engine)
        self.feed = Feed(self.ledger, self.translator, _warn)
        self.capacity = Capacity()
        self._reading: asyncio.Future[None] | None = None
        self.serving = False
        self.contact: Contact | None = None
        """Whether the API server can be reached; None: nothing is watched yet."""
        self.elector: Elector | None = None
        metrics = VerbMetrics(process.registry)
        self._calls: Callable[[], int] = lambda: self.server.under_way
        self._plan_metrics = PlannerMetrics(process.registry)
        process.registry.register(LedgerCollector(self.ledger))
        process.registry.register(UnreadableCollector(self.feed.unreadable))
        changed = ChangedPodsCollector(lambda: self.translator.altered)
        process.registry.register(changed)
        process.publish(PAGE, changed.page)
        self.verbs = Verbs(
            self.ledger,
            self.translator,
            self.config,
            unavailable=self.unavailable,
            clock=time.monotonic,
            today=time.time,
            count=lambda reason: metrics.refusals.labels(reason).inc(),
        )
        self.binder = Binder(
            self.ledger,
            self.verbs.may_bind,
            self.verbs.strategy,
            unavailable=self.unavailable,
            clock=time.monotonic,
        )
        self.gate = Gate(lambda: self.config().authentication)
        self._host: str | None = None
        """Where the verbs listen; None: everywhere."""
        self.server = Server(
            [
                Verb("filter", CANDIDATES, self.verbs.filter, lambda why: FilterAnswer(error=why)),
                Verb("prioritize", CANDIDATES, self.verbs.prioritize, lambda _: []),
                Verb("preempt", PREEMPTION, self.verbs.preempt, lambda _: PreemptAnswer()),
                Verb("bind", BINDING, self.binder.bind, BindAnswer, from_memory=False),
            ],
            metrics,
            self.gate,
        )
        process.dump_with("extender", self.state)
        if self._followed:
            process.spawn("config", self._followed.run())

    def config(self) -> ExtenderConfig:
        """The settings in force."""
        return self._followed.current if self._followed else ExtenderConfig()

    def state(self) -> dict[str, object]:
        """What counts at this moment, for whoever asks the process with SIGUSR2."""
        return {
            "unavailable": str(self.unavailable() or ""),
            "age": round(self.contact.age(), 1) if self.contact else None,
            "pods": len(self.ledger.entries),
            "reserved": sorted(self.ledger.granted),
            "kept": dict(self.ledger.kept),
        }

    def unavailable(self) -> Unavailable | None:
        """Why nothing can be decided at this moment; None: it can."""
        if self.elector is not None and not self.elector.leading:
            return Unavailable(NOT_LEADER, away=True)
        if self.serving and (problem := self.cut_off()):
            return Unavailable(problem)
        return None if self.serving else Unavailable(STARTING)

    def cut_off(self) -> str:
        """What is told while the API server cannot be reached; empty while it can."""
        return CUT_OFF if self.contact and self.contact.is_lost() else ""

    async def watch_capacity(self) -> None:
        """See which nodes dip, whoever leads."""
        await keep_watch(
            self.capacity, lambda: self.ledger.snapshot, lambda: self.config().capacity.grace, time.monotonic
        )

    async def lead(self, client: Client, options: Options) -> None:
        """Answer kube-scheduler until cancelled, once bindings from before have landed."""
        waker = Waker(client, self.ledger, lambda: self.config().engine, now=time.monotonic, today=time.time)
        recorder = Recorder(client, "extender", options.pod or platform.node(), REASONS | {INVALID})
        planner = self._planner(client, recorder)
        try:
            if options.lease:
                await take_label(client, options.lease, options.pod)
            await asyncio.sleep(SETTLE)
            self.feed.adopt(lambda seen: time.monotonic() + self.config().ttl(claims_volumes=seen.claims_volumes))
            await planner.resume()
            # What is known by now lives on: looking through it for garbage again and again would delay answers.
            gc.freeze()
            self.binder.client = client
            self.serving = True
            log.info("serving", pods=len(self.ledger.entries), reserved=len(self.ledger.granted))
            async with asyncio.TaskGroup() as parts:
                faults = tell(lambda: self.ledger.queue_faults, recorder)
                owners = self.feed.wait_for_owners(time.monotonic, WAKER_INTERVAL)
                planning = (planner.run(), planner.elastic.run(lambda: self.config().planner.interval))
                for part in (waker.run(WAKER_INTERVAL), *planning, recorder.run(), faults, owners):
                    parts.create_task(part)
        finally:
            self.serving = False
            # Nobody is answered any more, so this need not be done in steps.
            for _ in self.ledger.expire_all(float("inf")):
                pass

    def _planner(self, client: Client, recorder: Recorder) -> Planner:
        return Planner(
            client,
            self.ledger,
            self.translator,
            self.config,
            self.verbs.precedence,
            recorder=recorder,
            capacity=self.capacity,
            metrics=self._plan_metrics,
            calls=self._calls,
            clock=time.monotonic,
            today=time.time,
            plans=lambda: self.feed.known_plans,
            queue_uids=self.feed.queue_uids,
        )

    def know_callers(self, host: str | None) -> None:
        """Note whether only kube-scheduler can call, and log it when the port is open that was not before."""
        self._host = host
        by_anyone = not self.gate.by_certificate and self.config().authentication == "none"
        is_open = by_anyone and host not in LOOPBACK
        if is_open and self.ledger.callers_are_known:
            _warn(OPEN)
        self.ledger.callers_are_known = not is_open

    def _set(self, config: ExtenderConfig) -> None:
        self.know_callers(self._host)
        log.info("settings-changed")
        self._reading = asyncio.ensure_future(self._read_again(config))

    async def _read_again(self, config: ExtenderConfig) -> None:
        """See what the pods mean by other settings, a few at a time: the verbs go on."""
        await drain(self.ledger.see_all(self.translator.set_settings(config.engine)), time.monotonic, self._calls)
        self.ledger.stir()


async def serve(process: Process, options: Options) -> None:
    """Start everything; returns when the caches are complete."""
    extender = Extender(process, options.config)
    tls = _tls(process, options.tls)
    _authenticate(process, extender, options)
    await process.enter(extender.server.listening(options.port, options.host, tls=tls))
    access = await find_access(options.kubeconfig, options.context)
    client = await process.enter(Client(access, agent=process.component))
    caches = extender.feed.reflectors(client)
    process.registry.register(CacheCollector(caches))
    pods = next(cache for cache in caches if cache.address == PODS.within())
    extender.contact = Contact(caches, pods, partial(read_little, client))
    process.ready_if("API server", extender.cut_off)
    process.spawn("contact", extender.contact.run())
    for cache in caches:
        process.ready_if(cache.address.about, partial(_unsynced, cache))
        process.spawn(cache.address.about, cache.run())
    if not options.lease:
        process.ready_if("verbs", lambda: "" if extender.serving else STARTING)
    for cache in caches:
        await cache.wait_synced()
    extender.translator.settle()
    process.spawn("capacity", extender.watch_capacity())
    if options.lease:
        extender.elector = elector = Elector(client, LEASE, options.lease, str(uuid.uuid4()))
        process.registry.register(LeaseCollector([elector]))
        work = partial(extender.lead, client.fenced(lambda: elector.leading), options)
        process.spawn("election", elector.run(work))
    else:
        process.spawn("lead", extender.lead(client, options))


def _authenticate(process: Process, extender: Extender, options: Options) -> None:
    """Let the port know its callers; raises `SettingsError` where that cannot be as it is set."""
    gate, mode = extender.gate, extender.config().authentication
    gate.by_certificate = options.tls is not None
    if options.token and not gate.by_certificate:
        gate.tokens = Tokens(options.token, changed=lambda _: log.info("tokens-changed"), refused=_warn)
        process.spawn("tokens", gate.tokens.run())
    elif not gate.by_certificate and mode == "token":
        raise SettingsError(NO_FOLDER)
    if not gate.by_certificate and mode == "mtls":
        raise SettingsError(NO_CERTIFICATES)
    process.ready_if("authentication", gate.problem)
    extender.know_callers(options.host)


def _tls(process: Process, folder: Path | None) -> "ssl.SSLContext | None":
    """What the port listens with; it follows the folder for as long as the process lives."""
    if folder is None:
        return None
    identity = Identity(folder, changed=lambda _: log.info("certificates-changed"), refused=_warn)
    process.spawn("certificates", identity.run())
    process.registry.register(CertificateCollector(lambda: identity.ends))
    return identity.context


def _unsynced(cache: Reflector[Any]) -> str:
    return "" if cache.synced else cache.problem


def _followed(file: Path, changed: "Callable[[ExtenderConfig], None]") -> FollowedSettings[ExtenderConfig]:
    return FollowedSettings(
        file,
        ExtenderConfig,
        changed=changed,
        refused=_warn,
        warned=lambda warning: log.warning("setting-removed", warning=warning),
    )


def _warn(problem: str) -> None:
    log.warning("unusable", problem=problem)
