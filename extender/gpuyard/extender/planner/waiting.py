"""Why pods wait, told once per cause: a few at a time, who was not heard of for longest first."""

import asyncio
from collections.abc import Callable, Iterator

import msgspec
from gpuyard.engine import reasons
from gpuyard.engine.model import Pod
from gpuyard.engine.plan import Cycle
from gpuyard.engine.result import Reason
from gpuyard.engine.scratch import Status
from gpuyard.extender.planner.telling import Teller

BUDGET = 0.05
"""Seconds of work on reasons after one cycle."""


class _Told(msgspec.Struct, frozen=True):
    reason: Reason
    at: float


class WaitingRoom:
    """Remembers what was told to whom."""

    def __init__(self, teller: Teller, clock: Callable[[], float]) -> None:
        self._teller = teller
        self._clock = clock
        self._told: dict[str, _Told] = {}

    async def tell(self, cycle: Cycle) -> bool:
        """Tell those who wait at the end of a cycle; False: there was no time for all."""
        waiting = list(_waiting(cycle))
        self._told = {pod.uid: self._told[pod.uid] for pod in waiting if pod.uid in self._told}
        why = reasons.Teller(cycle)
        spent = 0.0
        for pod in sorted(waiting, key=lambda pod: self._told[pod.uid].at if pod.uid in self._told else 0):
            if spent >= BUDGET:
                return False
            begun = self._clock()
            self._look(pod, why)
            spent += self._clock() - begun
            await asyncio.sleep(0)
        return True

    def _look(self, pod: Pod, why: reasons.Teller) -> None:
        found = why.why(pod)
        if pod.uid not in self._told or self._told[pod.uid].reason is not found.reason:
            self._teller.waits(pod, found)
        self._told[pod.uid] = _Told(found.reason, self._clock())


def _waiting(cycle: Cycle) -> Iterator[Pod]:
    """The governed pods that get no place by this cycle now."""
    for workloads in cycle.snapshot.waiting.values():
        for key in workloads:
            for pod in cycle.snapshot.members[key]:
                if cycle.scratch.status(pod) in (Status.WAITING, Status.NOMINATED):
                    yield pod
