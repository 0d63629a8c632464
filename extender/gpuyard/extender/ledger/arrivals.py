"""Calls that wait for the watch: kube-scheduler may know of a pod, or of its newest version, a moment before us.

    the watch shows that version within 100 ms   the call goes on at once
    it does not                                  the call goes on with what is known; for a second no call waits

kube-scheduler asks about one pod after the other, so the second rule keeps a watch that lags, or a caller that invents
pods, from slowing it down. `preempt` waits for up to a second, then not for ten: a poke makes kube-scheduler ask again
only about pods that filter refused, and on a full cluster filter is not asked at all.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple

LONGEST_WAIT = 0.1
"""Seconds that a call waits at most."""

PAUSE = 10
"""So many times as long as a call has waited in vain no call waits."""

MOST = 64
"""Calls that wait at the same time at most."""

PATIENCE = 1.0
"""Seconds that a patient call waits at most: half the time after which kube-scheduler gives up."""


class _Waiter(NamedTuple):
    version: int
    shown: asyncio.Future[None]


class Arrivals:
    """The calls that wait, by the UID of their pod. Times are seconds of the ledger's clock."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[_Waiter]] = {}
        self._count = 0
        self._paused_until: dict[float, float] = {}

    def longest_wait(self, now: float, *, patient: bool = False) -> float:
        """Seconds that one more call may wait; 0: it may not."""
        longest = PATIENCE if patient else LONGEST_WAIT
        paused = now < self._paused_until.get(longest, float("-inf"))
        return 0 if paused or self._count >= MOST else longest

    async def wait(self, uid: str, version: int, now: float, longest: float) -> bool:
        """Wait until the watch has shown this version of a pod; False: it has not within the time."""
        waiter = _Waiter(version, asyncio.get_running_loop().create_future())
        self._waiters.setdefault(uid, []).append(waiter)
        self._count += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(longest):
                    await waiter.shown
                return True
            self.pause(now + longest + PAUSE * longest, longest)
            return False
        finally:
            self._count -= 1
            self._remove(uid, waiter)

    def pause(self, until: float, longest: float = LONGEST_WAIT) -> None:
        """Let no call that would wait for so long wait until then."""
        self._paused_until[longest] = until

    def show(self, uid: str, version: int) -> None:
        """The watch shows this version of a pod."""
        for waiter in self._waiters.get(uid, ()):
            if waiter.version <= version and not waiter.shown.done():
                waiter.shown.set_result(None)

    def _remove(self, uid: str, waiter: _Waiter) -> None:
        others = [one for one in self._waiters[uid] if one is not waiter]
        if others:
            self._waiters[uid] = others
        else:
            del self._waiters[uid]
