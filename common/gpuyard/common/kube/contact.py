"""Whether the API server can be reached, so that what the watches have told is still true.

A quiet cluster is no fault: on a healthy watch nothing may come for two minutes. So silence alone proves nothing. Every
event and bookmark of any watch counts as a word of the API server. When none has come for `QUIET` seconds, something
small is read, and an answer counts as well. Contact is lost `LOST` seconds after the last word, when several such reads
have failed; or when the one watch that matters most cannot be opened again and its last word is as old.

Decided in docs/decisions.md: "Silence is not staleness".
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import KubeError
from gpuyard.common.kube.reflector import Reflector
from gpuyard.common.kube.resources import NAMESPACES

LOST = 75.0
"""Seconds after the API server's last word from which on nothing should be decided any more."""

QUIET = 45.0
"""Seconds without a word after which something is read: early enough for several attempts before contact is lost."""

PAUSE = 5.0
"""Seconds between two looks."""

_PATIENCE = 5.0
"""Seconds for the small read."""


async def read_little(client: Client) -> None:
    """Read one namespace: next to nothing, and what every cache of a cluster needs the right for."""
    await client.call("GET", NAMESPACES.within(), params={"limit": "1"}, total=_PATIENCE)


class Contact:
    """Watches over the caches of a process. `vital` is the one without which nothing can be decided."""

    def __init__(
        self,
        caches: Sequence[Reflector[Any]],
        vital: Reflector[Any],
        read: Callable[[], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._caches = caches
        self._vital = vital
        self._read = read
        self._clock = clock
        self._answered = clock()

    def age(self) -> float:
        """Seconds since the API server last said anything."""
        return min(self._clock() - self._answered, *(cache.age() for cache in self._caches))

    def is_lost(self) -> bool:
        """Whether the API server has not been heard for too long."""
        return self.age() > LOST or bool(self._vital.problem and self._vital.age() > LOST)

    async def run(self) -> NoReturn:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(PAUSE)
            await self.look()

    async def look(self) -> None:
        """Read something if nothing has been heard for a while."""
        if self.age() <= QUIET:
            return
        try:
            await self._read()
        except KubeError:
            return
        self._answered = self._clock()
