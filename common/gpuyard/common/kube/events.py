"""Tells users what happened to their objects, as Kubernetes Events, without ever holding the teller up.

`emit` only notes; `run` writes. The same event told again within six minutes becomes a series of the first one:
one object with a count, written at most every ten seconds. What cannot be kept is counted as dropped.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Literal, NoReturn

from gpuyard.common.kube.backoff import Backoff
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import ApiError, KubeError
from gpuyard.common.kube.objects import ObjectReference
from gpuyard.common.kube.resources import EVENTS
from gpuyard.common.logs import get_logger

MAX_NOTE = 1024
SERIES_ENDS = 360.0
SERIES_WRITES = 10.0

Kind = Literal["Normal", "Warning"]
log = get_logger()


@dataclass(frozen=True, slots=True)
class Told:
    """An event as its teller means it; equal ones form a series."""

    regarding: ObjectReference
    reason: str
    action: str
    note: str
    kind: Kind


@dataclass(slots=True)
class _Series:
    """How often an event was told, and how much of that is written."""

    first: datetime
    last: datetime
    told_at: float
    count: int = 1
    written: int = 0
    written_at: float = float("-inf")
    name: str = ""
    """Of the object; empty until it is created."""

    def due(self, now: float) -> bool:
        return self.written < self.count and now - self.written_at >= (SERIES_WRITES if self.written else 0)


def reporter(component: str) -> str:
    """By what name a component signs its Events."""
    return f"gpuyard.io/{component}"


class Recorder:
    """Writes events for one component. `reasons` is the closed set of those that users may see."""

    def __init__(  # noqa: PLR0913 - who speaks to whom, and its chance and clocks
        self,
        client: Client,
        component: str,
        instance: str,
        reasons: Collection[str],
        *,
        capacity: int = 1000,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.dropped = 0
        self._client = client
        self._component = component
        self._instance = instance
        self._reasons = frozenset(reasons)
        self._capacity = capacity
        self._clock = clock
        self._wall = wall
        self._chance = chance
        self._backoff = Backoff(chance, first=0.5, longest=10)
        self._series: dict[Told, _Series] = {}
        self._news = asyncio.Event()

    def emit(
        self, regarding: ObjectReference, reason: str, note: str, *, action: str = "", kind: Kind = "Normal"
    ) -> None:
        """Tell it. Never blocks and never fails, except for a reason that is not in the closed set."""
        if reason not in self._reasons:
            raise ValueError(
                f"{reason} is not one of this component's event reasons: {', '.join(sorted(self._reasons))}"
            )
        told = Told(regarding, reason, action or reason, _fitted(note), kind)
        series = self._series.get(told)
        if series and not self._over(series):
            series.count, series.last, series.told_at = series.count + 1, self._wall(), self._clock()
        elif series or self._make_room():
            self._series[told] = _Series(self._wall(), self._wall(), self._clock())
        else:
            self.dropped += 1
        self._news.set()

    async def run(self) -> NoReturn:
        """Write what was told until cancelled."""
        while True:
            self._news.clear()
            await self._flush()
            waiting = any(series.written < series.count for series in self._series.values())
            try:
                await asyncio.wait_for(self._news.wait(), 1 if waiting else None)
            except TimeoutError:
                continue

    async def _flush(self) -> None:
        for told, series in [(told, one) for told, one in self._series.items() if one.due(self._clock())]:
            try:
                await self._write(told, series)
                self._backoff.reset()
            except KubeError as error:
                if _final(error):
                    log.warning("event-refused", about=told.regarding.name, reason=str(error))
                    self.dropped += 1
                    series.written = series.count
                    continue
                log.warning("events-not-written", waiting=len(self._series), reason=str(error))
                await asyncio.sleep(self._backoff.delay())
                return

    async def _write(self, told: Told, series: _Series) -> None:
        count = series.count
        if not (series.name and await self._extend(told, series)):
            await self._create(told, series)
        series.written, series.written_at = count, self._clock()

    async def _create(self, told: Told, series: _Series) -> None:
        name = _name(told, series, self._chance())
        await self._client.create(EVENTS.within(_namespace(told)), self._body(told, series, name))
        series.name = name

    async def _extend(self, told: Told, series: _Series) -> bool:
        """Write the count; whether the object is still there, since the server keeps events for an hour only."""
        change = {"series": {"count": series.count, "lastObservedTime": _micro(series.last)}}
        try:
            await self._client.patch(EVENTS.named(series.name, _namespace(told)), change)
        except ApiError as error:
            if not error.not_found:
                raise
            return False
        return True

    def _body(self, told: Told, series: _Series, name: str) -> Json:
        body: Json = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": _namespace(told)},
            "eventTime": _micro(series.first),
            "reportingController": reporter(self._component),
            "reportingInstance": self._instance,
            "action": told.action,
            "reason": told.reason,
            "regarding": told.regarding,
            "note": told.note,
            "type": told.kind,
        }
        if series.count > 1:
            body["series"] = {"count": series.count, "lastObservedTime": _micro(series.last)}
        return body

    def _over(self, series: _Series) -> bool:
        """Whether the series is written and was not told again for so long that the next one is a new event."""
        return series.written == series.count and self._clock() - series.told_at > SERIES_ENDS

    def _make_room(self) -> bool:
        """Whether another series fits, once those that are over are forgotten."""
        if len(self._series) >= self._capacity:
            self._series = {told: series for told, series in self._series.items() if not self._over(series)}
        return len(self._series) < self._capacity


def _final(error: KubeError) -> bool:
    """Whether the server has an opinion about this event, which saying it again would not change."""
    return isinstance(error, ApiError) and error.status < HTTPStatus.INTERNAL_SERVER_ERROR and not error.busy


def _name(told: Told, series: _Series, chance: float) -> str:
    """A name that no other event has, within the length of names."""
    moment = f"{round(series.first.timestamp() * 1e6):x}{int(chance * 4096):03x}"
    return f"{told.regarding.name[:220].rstrip('-.')}.{moment}"


def _fitted(note: str) -> str:
    """At most as many bytes as the API server takes."""
    raw = note.encode()
    return note if len(raw) <= MAX_NOTE else raw[: MAX_NOTE - 3].decode(errors="ignore") + "..."


def _namespace(told: Told) -> str:
    """Events about cluster-scoped objects live in `default`."""
    return told.regarding.namespace or "default"


def _micro(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
