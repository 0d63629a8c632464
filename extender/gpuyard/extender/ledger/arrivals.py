"""Calls that wait for the watch: kube-scheduler may know of a pod, or of its newest version, a moment before us.

    the watch shows that version within 100 ms   the call goes on at once
    it does not                                  the call goes on with what is known; for a second no call waits

kube-scheduler asks about one pod after the other, so the second rule keeps a watch that lags, or a caller that invents
pods, from slowing it down. Where `preempt` has answered without the pod, the pod is remembered and woken when the watch
shows it: kube-scheduler writes nothing into the pod that would tell.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple

LONGEST_WAIT = 0.1
"""Seconds that a call waits at most."""

PAUSE = 1.0
"""Seconds after a vain wait in which no call waits."""

MOST = 64
"""Calls that wait at the same time at most."""

MISSED = 1000
"""Pods that are remembered at most."""


class _Waiter(NamedTuple):
    version: int
    shown: asyncio.Future[None]


class Arrivals:
    """The calls that wait, by the UID of their pod. Times are seconds of the ledger's clock."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[_Waiter]] = {}
        self._missed: dict[str, None] = {}
        self._count = 0
        self._paused_until = float("-inf")

    def may_wait(self, now: float) -> bool:
        """Whether one more call may wait."""
        return now >= self._paused_until and self._count < MOST

    async def wait(self, uid: str, version: int, now: float) -> bool:
        """Wait until the watch has shown this version of a pod; False: it has not within the time."""
        waiter = _Waiter(version, asyncio.get_running_loop().create_future())
        self._waiters.setdefault(uid, []).append(waiter)
        self._count += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_WAIT):
                    await waiter.shown
                return True
            self.pause(now + LONGEST_WAIT + PAUSE)
            return False
        finally:
            self._count -= 1
            self._remove(uid, waiter)

    def pause(self, until: float) -> None:
        """Let no call wait until then."""
        self._paused_until = until

    def show(self, uid: str, version: int) -> None:
        """The watch shows this version of a pod."""
        for waiter in self._waiters.get(uid, ()):
            if waiter.version <= version and not waiter.shown.done():
                waiter.shown.set_result(None)

    def miss(self, uid: str) -> None:
        """A call about this pod was answered before the watch showed the pod."""
        self._missed[uid] = None
        if len(self._missed) > MISSED:
            del self._missed[next(iter(self._missed))]

    def was_missed(self, uid: str) -> bool:
        """Whether a call missed this pod, which the watch shows now; True once."""
        return self._missed.pop(uid, self) is None

    def _remove(self, uid: str, waiter: _Waiter) -> None:
        others = [one for one in self._waiters[uid] if one is not waiter]
        if others:
            self._waiters[uid] = others
        else:
            del self._waiters[uid]
