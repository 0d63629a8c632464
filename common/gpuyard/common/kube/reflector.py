"""Keeps a dictionary equal to a collection of the API server: list once, then watch.

             all pages read                          ended by the server, silent for too long, or connection lost:
    ┌──────┐ ──────────────────────────▶ ┌───────┐ ──┐ again from the last version seen
    │ LIST │                             │ WATCH │   │
    └──────┘ ◀────────────────────────── └───────┘ ◀─┘
             410, or any other refusal

Nothing is lost: a list is compared with what the cache holds, so objects that vanished unseen are reported gone.
A list alone would be correct; the watch makes it cheap. An object that cannot be decoded is reported and leaves
the last good one in place. Between attempts there is a back-off, reset by each word of a watch.

Decided in docs/decisions.md: "A cache tries again after at most three seconds".
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, NoReturn, Protocol, TypeVar

import msgspec
from gpuyard.common.kube.backoff import Backoff
from gpuyard.common.kube.changes import Batch, Change, T
from gpuyard.common.kube.client import EVERYTHING, Client, Selector
from gpuyard.common.kube.errors import ApiError, KubeError, UnreachableError, api_error
from gpuyard.common.kube.forms import JSON, Form, Unread
from gpuyard.common.kube.objects import Bare, Identity
from gpuyard.common.kube.resources import Address
from gpuyard.common.logs import get_logger

T_co = TypeVar("T_co", covariant=True)

log = get_logger()
_BARE = msgspec.json.Decoder(Bare)


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a reflector asks: objects per page, seconds until the server ends a watch (shortened by up to a fifth).

    A kind that is not there is asked for again after `absent` seconds, or after `hurry` seconds where there is cause.
    After the first list, readers get at most `batch` changes at once, and others have their turn before the next ones.
    """

    page: int = 500
    watch: float = 300
    absent: float = 30
    hurry: float = 0.2
    batch: int = sys.maxsize


TUNING = Tuning()


@dataclass(slots=True)
class Counts:
    """What happened so far, for metrics."""

    lists: int = 0
    watches: int = 0
    failures: int = 0
    undecodable: int = 0


def warn(problem: str) -> None:
    """Write a problem of a cache to the log: what processes give as `report` that have nobody else to tell."""
    log.warning("watch", reason=problem)


class Decoder(Protocol[T_co]):
    """What reads an object from JSON, as `msgspec.json.Decoder` does."""

    def decode(self, raw: Unread, /) -> T_co:
        """The object; raises `msgspec.DecodeError`."""


class Reflector(Generic[T]):
    """A cache of one collection. `store` maps `namespace/name` to the typed object; read it, never write it.

    Subscribe before `run` is started, so that the first batch is the whole list. With `absent` the kind need not be
    there, or not be ours to read: then the cache is empty, and `absent` is called whenever the server says so.
    A watch may come in a form that is `better` than JSON, where that is given with what reads an object in it.
    """

    def __init__(  # noqa: PLR0913 - what it follows and how, and its chance and clock
        self,
        client: Client,
        address: Address,
        decoder: Decoder[T],
        *,
        better: Mapping[Form, Callable[[Unread], T]] = MappingProxyType({}),
        selector: Selector = EVERYTHING,
        tuning: Tuning = TUNING,
        report: Callable[[str], None] = lambda _: None,
        absent: Callable[[], None] | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store: dict[str, T] = {}
        self.unreadable: set[str] = set()
        """The objects that cannot be read as they are now; of these `store` has the last good state, if any."""
        self.address = address
        self.counts = Counts()
        self.problem = "not listed yet"
        """Why the last attempt to read or to watch the collection failed; empty: it did not."""
        self._client = client
        self._forms = {**better, JSON: decoder.decode}
        self._selector = selector
        self._tuning = tuning
        self._report = report
        self._absent = absent
        self._hurry = asyncio.Event()
        self._chance = chance
        self._clock = clock
        self._backoff = Backoff(chance)
        self._readers: list[Callable[[Batch[T]], None]] = []
        self._synced = asyncio.Event()
        self._version = ""
        self._heard = clock()

    @property
    def synced(self) -> bool:
        """Whether the whole collection has been read at least once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the whole collection has been read."""
        await self._synced.wait()

    def age(self) -> float:
        """Seconds since the server last said something; on a quiet collection two minutes and a half are normal."""
        return self._clock() - self._heard

    def subscribe(self, reader: Callable[[Batch[T]], None]) -> None:
        """Call `reader` with each batch, right after the store has it; it must be quick and must not raise."""
        self._readers.append(reader)

    async def run(self) -> NoReturn:
        """Keep the store up to date until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except KubeError as error:
                await self._pause(error)

    def hurry(self) -> None:
        """The kind may be there by now: do not wait to look."""
        self._hurry.set()

    async def _go_without(self, told: Callable[[], None], error: ApiError) -> None:
        """The server has no such kind, or none for us: an empty collection, until that changes."""
        await self._replace([])
        self._version, self._heard = "", self._clock()
        self._tell("" if error.not_found else str(error))
        told()
        await asyncio.sleep(self._tuning.hurry)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), self._tuning.absent)
        self._hurry.clear()

    async def _pause(self, error: KubeError) -> None:
        if self._absent is not None and isinstance(error, ApiError) and (error.not_found or error.forbidden):
            await self._go_without(self._absent, error)
            return
        self.counts.failures += 1
        patience = 0.0
        if isinstance(error, ApiError):
            patience = error.retry_after
            if not error.busy:
                self._version = ""
        self._tell(str(error))
        await asyncio.sleep(self._backoff.delay(patience))

    def _tell(self, problem: str) -> None:
        """Keep the problem for who asks, and report it once, not at each attempt."""
        if problem and problem != self.problem:
            self._report(problem)
        self.problem = problem

    async def _list(self) -> None:
        self.counts.lists += 1
        try:
            version, items = await self._read(self._tuning.page)
        except ApiError as error:
            if not error.expired:
                raise
            # The pages outlived the server's memory; a list in one piece cannot.
            version, items = await self._read(0)
        self._heard = self._clock()
        await self._replace(items)
        self._version = version

    async def _read(self, limit: int) -> tuple[str, list[msgspec.Raw]]:
        version, items = "", list[msgspec.Raw]()
        async for page in self._client.pages(self.address, self._selector, limit):
            version = page.metadata.resource_version
            items += page.items or ()
        return version, items

    async def _watch(self) -> None:
        self.counts.watches += 1
        started, heard = self._clock(), False
        params = self._selector.params() | {
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(self._tuning.watch * (1 - self._chance() / 5))),
        }
        async with aclosing(self._client.watch(self.address, params, tuple(self._forms))) as watch:
            async for form, frames in watch:
                await self._take(form, frames)
                if frames:
                    heard = True
                    # Not earlier: where only lists are allowed, that would be one after the other without a pause.
                    self._backoff.reset()
        if not heard and self._clock() - started < 1:
            raise UnreachableError(f"{self.address.about}: the watch ended as soon as it began")

    async def _take(self, form: Form, frames: list[bytes]) -> None:
        """Take the events of one network read in, as one batch or a few; those before a bad one still count."""
        self._heard = self._clock()
        self._tell("")
        few = self._tuning.batch
        for start in range(0, len(frames), few):
            if start:
                await asyncio.sleep(0)
            self._take_some(form, frames[start : start + few])

    def _take_some(self, form: Form, frames: list[bytes]) -> None:
        changes: list[Change[T]] = []
        try:
            for frame in frames:
                changes += self._event(form, frame)
        except msgspec.DecodeError as error:
            self._version = ""
            raise UnreachableError(f"{self.address.about}: the watch sent what is no event: {error}") from None
        finally:
            if changes:
                self._deliver(Batch(changes))

    def _event(self, form: Form, frame: bytes) -> list[Change[T]]:
        event = form.event(frame)
        if event.type == "ERROR":
            raise api_error(f"watch of {self.address.about}", 0, bytes(event.object))
        meta, new = self._read_object(event.object, form)
        self._version = meta.resource_version or self._version
        if event.type == "BOOKMARK":
            return []
        return self._remove(meta) if event.type == "DELETED" else self._put(meta, new)

    async def _replace(self, items: list[msgspec.Raw]) -> None:
        """Make the store equal to a list, and tell what changed on the way, what is gone first.

        The first time all at once: nobody relies on the cache before. Later others have their turn in between.
        """
        few = self._tuning.batch if self.synced else sys.maxsize
        read: dict[str, tuple[Identity, T | None]] = {}
        self.unreadable.clear()
        for n, item in enumerate(items, 1):
            meta, new = self._read_object(item)
            read[meta.key] = (meta, new)
            if n % few == 0:
                await asyncio.sleep(0)
        gone = [old.metadata for key, old in self.store.items() if key not in read]
        todo = [*((meta, None, True) for meta in gone), *((meta, new, False) for meta, new in read.values())]
        changes: list[Change[T]] = []
        for n, (meta, new, is_gone) in enumerate(todo, 1):
            changes += self._remove(meta) if is_gone else self._put(meta, new)
            if n % few == 0:
                if changes:
                    self._deliver(Batch(changes))
                changes = []
                await asyncio.sleep(0)
        self._synced.set()
        self._deliver(Batch(changes, listed=True))

    def _read_object(self, raw: Unread, form: Form = JSON) -> tuple[Identity, T | None]:
        """The object's name and version, and the object, or None if only those can be read."""
        try:
            new = self._forms[form](raw)
        except msgspec.ValidationError as error:
            meta = _BARE.decode(raw).metadata
            if meta.name:
                self.counts.undecodable += 1
                self.unreadable.add(meta.key)
                self._report(f"{self.address.about}: {meta.key} cannot be read, its last good state stays: {error}")
            return meta, None
        self.unreadable.discard(new.metadata.key)
        return new.metadata, new

    def _put(self, meta: Identity, new: T | None) -> list[Change[T]]:
        old = self.store.get(meta.key)
        if new is None or (old is not None and old.metadata.resource_version == meta.resource_version):
            return []
        self.store[meta.key] = new
        if old is not None and old.metadata.uid != meta.uid:
            return [Change(old, None), Change(None, new)]
        return [Change(old, new)]

    def _remove(self, meta: Identity) -> list[Change[T]]:
        self.unreadable.discard(meta.key)
        old = self.store.pop(meta.key, None)
        return [] if old is None else [Change(old, None)]

    def _deliver(self, batch: Batch[T]) -> None:
        for reader in self._readers:
            reader(batch)
