"""One leader at a time, by a Lease object; work stops before another can take over.

What to do next follows from what was last seen of the Lease and when. The first row that holds decides:

    we are     and                                                     action
    ---------  ------------------------------------------------------  ------------------------------------
    leading    our last good write was sent 10 s ago or earlier        STOP    the others wait 5 s longer
    leading    somebody else holds the Lease                           STOP
    leading    our last good write was sent 2 s ago or earlier         RENEW
    leading                                                            WAIT
    following  there is no Lease                                       CREATE
    following  nobody holds it, or we do (an answer to us got lost)    TAKE
    following  we have seen it unchanged for as long as it is valid    TAKE
    following                                                          WAIT

No clock is compared with another one: the leader counts from before it *sent* its write, a follower from after it
*saw* that write, so 15 s of the one end after 10 s of the other unless a clock runs half as fast again. A process
that was paused is no leader when it wakes, whatever its tasks do first: `Elector.leading` looks at the clock.

Decided in docs/decisions.md: "Leadership is asked of the clock, at each act".
"""

import asyncio
import math
import os
import random
import socket
import time
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NoReturn

import msgspec
from gpuyard.common.kube.client import Client, Json, decoded
from gpuyard.common.kube.errors import ApiError, KubeError
from gpuyard.common.kube.resources import LEASES, Address
from gpuyard.common.logs import get_logger

log = get_logger()


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long a Lease is valid, after how long without a renewal its holder stops, between attempts."""

    duration: float = 15
    deadline: float = 10
    retry: float = 2


TIMING = Timing()


def own_identity() -> str:
    """A name that no other process has: a pod that was started anew is not the holder that it was."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}-{uuid.uuid4().hex[:8]}"


class Action(Enum):
    """What the table above says."""

    WAIT = "wait"
    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class View:
    """What one elector knows of the Lease, by its own clock."""

    me: str
    timing: Timing = TIMING
    holder: str | None = None
    """None: there is no Lease."""
    version: str = ""
    valid: float = TIMING.duration
    since: float = 0
    """When this version was first seen."""
    held: float | None = None
    """When our last successful write was sent; None: we follow."""

    def leading(self, now: float) -> bool:
        """Whether we may act as the leader at this moment."""
        return self.held is not None and self.holder == self.me and now - self.held < self.timing.deadline

    def saw(self, now: float, holder: str | None, version: str, valid: float = 0) -> "View":
        """The Lease was read; the same version again changes nothing."""
        if (holder, version) == (self.holder, self.version):
            return self
        return replace(self, holder=holder, version=version, valid=valid or self.timing.duration, since=now)

    def wrote(self, sent: float, version: str) -> "View":
        """A write of ours, sent at `sent`, was accepted: we lead."""
        return replace(self, holder=self.me, version=version, valid=self.timing.duration, since=sent, held=sent)

    def stopped(self) -> "View":
        """We lead no longer."""
        return replace(self, held=None)


def step(now: float, seen: View) -> Action:
    """The table above."""
    if seen.held is not None:
        if not seen.leading(now):
            return Action.STOP
        return Action.RENEW if now - seen.held >= seen.timing.retry else Action.WAIT
    if seen.holder is None:
        return Action.CREATE
    if seen.holder in ("", seen.me) or now - seen.since >= seen.valid:
        return Action.TAKE
    return Action.WAIT


def pause(now: float, seen: View, chance: float) -> float:
    """Seconds until a follower looks again: a little more than between attempts, or until the Lease runs out."""
    usual = seen.timing.retry * (1 + chance / 5)
    left = seen.since + seen.valid - now
    return min(usual, left) if left > 0 else usual


def boot_clock() -> float:
    """Seconds since the machine started, those that it slept included where the system tells."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class _Stored(msgspec.Struct):
    """What every object that is stored has."""

    metadata: _Meta


_LEASE = msgspec.json.Decoder(Json)
_STORED = msgspec.json.Decoder(_Stored)


def _lease(address: Address, body: bytes) -> Json:
    decoded(_STORED, address, body)
    return decoded(_LEASE, address, body)


class WorkError(Exception):
    """The leader's work ended by itself."""


class StuckError(Exception):
    """Something did not end when it had to, as a leader's work: the process must."""


class Elector:
    """Takes part in the election for one Lease.

    `identity` must be this process's alone: a name that a restarted process keeps would let it take itself for leader.
    """

    def __init__(  # noqa: PLR0913 - who runs for what, and its chance and clocks
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        timing: Timing = TIMING,
        clock: Callable[[], float] = boot_clock,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self._client = client
        self._address = LEASES.named(name, namespace)
        self._collection = LEASES.within(namespace)
        self._clock = clock
        self._wall = wall
        self._chance = chance
        self._view = View(identity, timing)
        self._lease: Json = {}

    @property
    def leading(self) -> bool:
        """Whether we may act as the leader right now; ask before each act, or act through `Client.fenced`."""
        return self._view.leading(self._clock())

    @property
    def holder(self) -> str:
        """Who holds the Lease, as last seen; empty: nobody."""
        return self._view.holder or ""

    @property
    def transitions(self) -> int:
        """How often the Lease changed hands, as last seen."""
        return self._spec.get("leaseTransitions") or 0

    @property
    def _spec(self) -> Json:
        return self._lease.get("spec") or {}

    async def run(self, work: Callable[[], Coroutine[Any, Any, object]]) -> NoReturn:
        """Take part until cancelled; `work` runs while we lead and is cancelled when we do no longer.

        Raises what `work` raises, `WorkError` if it ends by itself, `StuckError` if it does not end when cancelled;
        then the Lease is not given back, so that nobody begins beside it.
        """
        try:
            while True:
                await self._campaign()
                log.info("leading", lease=self.name, identity=self._view.me)
                await self._lead(work)
                log.warning("not-leading", lease=self.name, holder=self.holder)
        except StuckError:
            self._view = self._view.stopped()
            raise
        except BaseException:
            await self._release()
            raise

    async def _campaign(self) -> None:
        """Follow until we lead."""
        while not self.leading:
            try:
                await self._read()
                await self._act(step(self._clock(), self._view))
            except KubeError as error:
                log.warning("lease-not-read", lease=self.name, reason=str(error))
            if not self.leading:
                await asyncio.sleep(pause(self._clock(), self._view, self._chance()))

    async def _lead(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run the work for as long as we lead."""
        working, holding = asyncio.create_task(work()), asyncio.create_task(self._hold())
        try:
            await asyncio.wait((working, holding), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
                raise WorkError(f"the work under lease {self.name} ended by itself")
            await holding
        finally:
            try:
                # Told to stop, we hold the Lease until the work has ended.
                await self._end(working)
            finally:
                holding.cancel()
                await asyncio.wait((holding,))
            self._view = self._view.stopped()

    async def _end(self, working: asyncio.Task[object]) -> None:
        """Cancel the work and see it end before another leader may begin."""
        timing = self._view.timing
        working.cancel()
        _, running = await asyncio.wait((working,), timeout=(timing.duration - timing.deadline) / 2)
        if running:
            raise StuckError(f"the work under lease {self.name} does not end; this process must")

    async def _hold(self) -> None:
        """Renew until the table says stop."""
        while (action := step(self._clock(), self._view)) is not Action.STOP:
            try:
                await self._act(action)
            except KubeError as error:
                log.warning("lease-not-renewed", lease=self.name, reason=str(error))
            if step(self._clock(), self._view) is not Action.STOP:
                await asyncio.sleep(min(self._view.timing.retry, self._left()))

    def _left(self) -> float:
        """Seconds until we must stop; a call or a pause must not last longer."""
        timing = self._view.timing
        return timing.deadline if self._view.held is None else max(0, self._view.held + timing.deadline - self._clock())

    async def _act(self, action: Action) -> None:
        """Write what the action asks for; who loses the race for it reads the winner's record."""
        if action is Action.WAIT:
            return
        try:
            await self._write(action)
        except ApiError as error:
            if not (error.conflict or error.already_exists or error.not_found):
                raise
            await self._read()

    async def _write(self, action: Action) -> None:
        body = self._next(self._view.me, self._view.timing.duration)
        sent = self._clock()
        await self._put(body, create=action is Action.CREATE)
        self._view = self._view.wrote(sent, self._version)

    def _next(self, holder: str, valid: float) -> Json:
        """The Lease as it shall be; what others wrote into it stays."""
        now = self._wall().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changed = self._spec.get("holderIdentity") != self._view.me
        spec = self._spec | {"holderIdentity": holder, "leaseDurationSeconds": math.ceil(valid), "renewTime": now}
        if changed:
            spec |= {"acquireTime": now, "leaseTransitions": self.transitions + 1 if self._lease else 0}
        new = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"name": self.name}}
        return new | self._lease | {"spec": spec}

    async def _put(self, body: Json, *, create: bool = False) -> None:
        method, address = ("POST", self._collection) if create else ("PUT", self._address)
        self._lease = _lease(address, await self._client.call(method, address, body=body, total=self._limit()))

    async def _read(self) -> None:
        try:
            self._lease = _lease(self._address, await self._client.call("GET", self._address, total=self._limit()))
        except ApiError as error:
            if not error.not_found:
                raise
            self._lease = {}
        holder = self._spec.get("holderIdentity") or "" if self._lease else None
        valid = self._spec.get("leaseDurationSeconds") or 0
        self._view = self._view.saw(self._clock(), holder, self._version, valid)

    @property
    def _version(self) -> str:
        version: str = self._lease["metadata"]["resourceVersion"] if self._lease else ""
        return version

    def _limit(self) -> float:
        """Seconds for one call: half the time left, so that a hung one leaves time for a second attempt."""
        return max(self._left() / 2, 0.05)

    async def _release(self) -> None:
        """Give the Lease back, so that the next leader need not wait for it to expire."""
        try:
            if self._view.holder == self._view.me:
                await self._read()
            if self._view.holder == self._view.me:
                await self._put(self._next("", 1))
        except KubeError as error:
            log.warning("lease-not-released", lease=self.name, reason=str(error))
