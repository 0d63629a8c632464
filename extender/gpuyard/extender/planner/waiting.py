"""Why pods wait, told once per cause: a few at a time, who was not heard of for longest first."""

import asyncio
from collections.abc import Callable, Iterator

import msgspec
from gpuyard.engine import gates, reasons
from gpuyard.engine.accounts import Accounts
from gpuyard.engine.model import Pod, Workload
from gpuyard.engine.plan import Cycle
from gpuyard.engine.result import Reason
from gpuyard.engine.scratch import Status
from gpuyard.engine.settings import Settings
from gpuyard.engine.snapshot import UNUSED, Snapshot
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
        self._strangers: dict[str, Reason] = {}

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

    def turn_away(self, snapshot: Snapshot, settings: Settings) -> None:
        """Tell those who wait although no queue of ours decides about them: they are in no cycle."""
        told, self._strangers = self._strangers, {}
        for pod, workload in _strangers(snapshot, settings):
            why = gates.admission(snapshot, Accounts({}), settings, workload)
            if why is not None:
                self._strangers[pod.uid] = why.reason
                if told.get(pod.uid) is not why.reason:
                    self._teller.waits(pod, why)

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


def _strangers(snapshot: Snapshot, settings: Settings) -> Iterator[tuple[Pod, Workload]]:
    """The waiting pods for another scheduler that name a queue all the same, and those that have to name one."""
    use = snapshot.own.get("", UNUSED)
    if use.requested == use.allocated:
        # Nearly always: there are none, and thousands of pods need no look.
        return
    for pod in snapshot.pods.values():
        workload = snapshot.workloads.get(pod.workload) if pod.waits else None
        if workload is None or workload.governed:
            continue
        if workload.queue is not None or (settings.pods_without_queue == "refuse" and not workload.scheduler):
            yield pod, workload
