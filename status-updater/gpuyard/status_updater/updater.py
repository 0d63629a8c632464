"""The leader's loop: look at what was touched, write what is due, at most twice a second.

Decided in docs/decisions.md: "A round of the status updater looks at 200 nodes with maps of their own".
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from gpuyard.common.kube.client import Client, Json, Patch
from gpuyard.common.kube.errors import ApiError, KubeError
from gpuyard.common.kube.events import Recorder
from gpuyard.common.kube.objects import Meta, refer
from gpuyard.common.kube.resources import CONFIG_MAPS, NODES, PODS, Resource
from gpuyard.common.logs import get_logger
from gpuyard.common.topology.maps import KEY, Sheet
from gpuyard.status_updater.attribution import MISSING, PART_REFUSED, REFUSED
from gpuyard.status_updater.desk import Desk, Due

TOPOLOGY_REFUSED = "TopologyRefused"
REASONS = frozenset({MISSING, PART_REFUSED, REFUSED, TOPOLOGY_REFUSED})
PACE = 0.5
RETRY = 2.0
AT_ONCE = 16
MEMORY = 10_000
log = get_logger()


class Updater:
    """Carries out what is due. `news` is set by the caches whenever something was touched."""

    def __init__(self, client: Client, desk: Desk, namespace: str, recorder: Recorder) -> None:
        self.news = asyncio.Event()
        self._client = client
        self._desk = desk
        self._namespace = namespace
        self._recorder = recorder
        self._awaited: dict[str, str] = {}
        self._acting = False
        self._told: set[tuple[str, str]] = set()
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> NoReturn:
        """Work until cancelled. Begins with every node: nobody knows what the last leader left undone."""
        self._acting = True
        self._desk.begin()
        self._tell_refused_maps()
        try:
            while True:
                await self._round()
        finally:
            self._acting = False

    async def _round(self) -> None:
        complete = await self._carry_out(self._desk.due())
        await asyncio.sleep(PACE)
        if not complete:
            await self._pause()
        elif not self._desk.touched:
            await self.news.wait()
        self.news.clear()

    async def _pause(self) -> None:
        """Something could not be written: look at it again, soon or when there is news."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait(), RETRY)

    def refuse(self, name: str, why: str) -> None:
        """A map cannot be read: say so on the map, each time that somebody makes the mistake."""
        sheet = self._desk.maps.sheets.get(name)
        if sheet is not None and self._acting:
            self._emit(sheet.found.metadata, CONFIG_MAPS, TOPOLOGY_REFUSED, _refusal(sheet, why))

    def _tell_refused_maps(self) -> None:
        for name, sheet in self._desk.maps.sheets.items():
            if sheet.problem:
                self.refuse(name, sheet.problem)

    async def _carry_out(self, due: Due) -> bool:
        for problem in due.problems:
            self._tell(problem.pod.metadata, PODS, problem.reason, problem.note)
        for name, why in due.refused.items():
            sheet = self._desk.maps.sheets[name]
            self._tell(sheet.found.metadata, CONFIG_MAPS, TOPOLOGY_REFUSED, _refusal(sheet, why))
        maps = [
            *((name, self._create(name, each)) for name, each in due.create.items()),
            *((name, self._delete(name, uid)) for name, uid in due.delete.items()),
            *((name, self._write(name, *each)) for name, each in due.texts.items()),
        ]
        nodes = [
            (name, self._show(name, due.marks.get(name), due.capacity.get(name)))
            for name in {**due.marks, **due.capacity}
        ]
        written = _each(maps, self._desk.touch_named), _each(nodes, self._desk.touched.add)
        return all(await asyncio.gather(*written))

    def _tell(self, meta: Meta, resource: Resource, reason: str, note: str) -> None:
        """An event on the object, once for as long as we remember."""
        if len(self._told) > MEMORY:
            self._told.clear()
        if (meta.uid, note) not in self._told:
            self._told.add((meta.uid, note))
            self._emit(meta, resource, reason, note)

    def _emit(self, meta: Meta, resource: Resource, reason: str, note: str) -> None:
        log.warning("told", about=meta.name, reason=reason, note=note)
        self._recorder.emit(refer(resource, meta), reason, note, kind="Warning")

    async def _try(self, what: str, name: str, act: Callable[[], Awaitable[object]]) -> bool:
        async with self._gate:
            try:
                await act()
            except ApiError as error:
                if error.not_found or error.conflict or error.already_exists:
                    # Somebody was faster; the watch will say what there is now.
                    log.info("overtaken", what=what, name=name)
                    return False
                log.warning("not-written", what=what, name=name, reason=str(error))
                return False
            except KubeError as error:
                log.warning("not-written", what=what, name=name, reason=str(error))
                return False
        return True

    async def _write(self, name: str, text: str, version: str) -> bool:
        """Write a map, unless our own last write to it has not come back yet: its answer is on its way."""
        if self._awaited.get(name) == version:
            return False
        address = CONFIG_MAPS.named(name, self._namespace)
        body: Json = {"metadata": {"resourceVersion": version}, "data": {KEY: text}}
        if written := await self._try("usage", name, lambda: self._client.patch(address, body)):
            self._awaited[name] = version
        return written

    async def _create(self, name: str, body: Json) -> bool:
        return await self._try("map", name, lambda: self._client.create(CONFIG_MAPS.within(self._namespace), body))

    async def _delete(self, name: str, uid: str) -> bool:
        address = CONFIG_MAPS.named(name, self._namespace)
        return await self._try("map", name, lambda: self._client.delete(address, uid=uid))

    async def _show(self, name: str, marks: Json | None, capacity: Json | None) -> bool:
        """Write on a node; its status only when the marks are there that say what of it is ours."""
        if marks is not None and not await self._node(name, marks):
            return False
        return capacity is None or await self._status(name, capacity)

    async def _node(self, name: str, body: Json) -> bool:
        return await self._try("marks", name, lambda: self._client.patch(NODES.named(name), body))

    async def _status(self, name: str, body: Json) -> bool:
        address = NODES.named(name).sub("status")
        return await self._try("capacity", name, lambda: self._client.patch(address, body, Patch.STRATEGIC))


async def _each(writes: Sequence[tuple[str, Awaitable[bool]]], again: Callable[[str], None]) -> bool:
    """Write all at once; names what was not written, and says whether all was."""
    done = await asyncio.gather(*(write for _, write in writes))
    for (name, _), written in zip(writes, done, strict=True):
        if not written:
            again(name)
    return all(done)


def _refusal(sheet: Sheet, why: str) -> str:
    still = "The last good state stays in force." if sheet.topology else "No good state of it is known."
    return f"{KEY}: {why}. {still}"
