"""Why pods wait: a few at a time, who was not heard of for longest first.

another reason      told at once
other numbers       told a minute after the last word at the earliest, and to `MANY` pods a minute
nothing new         told every half an hour: the API server keeps an Event for one
"""

import asyncio
from collections.abc import Callable, Generator, Iterator

import msgspec
from gpuyard.engine.explain.sentences import told
from gpuyard.engine.model import Pod, Workload
from gpuyard.engine.model.counting import UNUSED
from gpuyard.engine.model.results import Waiting
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.scratch import Status
from gpuyard.engine.rules import gates
from gpuyard.engine.rules.accounts import Accounts
from gpuyard.engine.rules.gangs import Team
from gpuyard.engine.search import reasons
from gpuyard.engine.search.cycle import Cycle
from gpuyard.engine.stepwise import paused
from gpuyard.extender.planner.tell.pod_events import Teller

BUDGET = 0.05
"""Seconds of work on reasons after one cycle."""

AGAIN = 1800.0
"""Seconds after which the same is told again."""

A_MINUTE = 60.0

MANY = 100
"""So many pods a minute may hear other numbers; the rest hear them when they would be told again."""


class _Told(msgspec.Struct, frozen=True):
    why: Waiting
    said: float
    """When it was told."""
    at: float
    """When it was last looked at."""


class WaitingRoom:
    """Remembers what was told to whom."""

    def __init__(self, teller: Teller, clock: Callable[[], float]) -> None:
        self._teller = teller
        self._clock = clock
        self._told: dict[str, _Told] = {}
        self._strangers: dict[str, _Told] = {}
        self._due = float("inf")
        self._minute = float("-inf")
        self._numbers = 0

    def is_due(self) -> bool:
        """Whether somebody is to be told again; asked once, since by then nobody may wait any more."""
        if self._clock() < self._due:
            return False
        self._due = float("inf")
        return True

    async def tell(self, cycle: Cycle) -> bool:
        """Tell those who wait at the end of a cycle; False: there was no time for all."""
        waiting = list(_waiting(cycle))
        self._told = {pod.uid: self._told[pod.uid] for pod in waiting if pod.uid in self._told}
        why = reasons.Teller(cycle)
        spent = 0.0
        for pod in sorted(waiting, key=lambda pod: self._told[pod.uid].at if pod.uid in self._told else 0):
            if spent >= BUDGET:
                return False
            steps = why.steps(pod)
            while True:
                begun = self._clock()
                is_done = self._step(pod, steps)
                spent += self._clock() - begun
                await asyncio.sleep(0)
                if is_done:
                    break
        return True

    def turn_away(self, snapshot: Snapshot, settings: Settings) -> Iterator[None]:
        """Tell those who wait although no queue of ours decides about them, in steps: they are in no cycle."""
        before, self._strangers = self._strangers, {}
        for found in _strangers(snapshot, settings):
            if found is None:
                yield
                continue
            pod, workload = found
            question = gates.Question(snapshot, Accounts({}), settings, Team(workload, (pod,), {}))
            why = gates.refusal(question, gates.IN_LINE)
            if why is not None:
                self._strangers[pod.uid] = self._hear(pod, why, before.get(pod.uid))

    def _step(self, pod: Pod, steps: Generator[None, None, Waiting]) -> bool:
        """Take one step towards the reason of a pod; True: it is found, and told if it has to be."""
        try:
            next(steps)
        except StopIteration as end:
            self._told[pod.uid] = self._hear(pod, end.value, self._told.get(pod.uid))
            return True
        return False

    def _hear(self, pod: Pod, why: Waiting, before: _Told | None) -> _Told:
        now = self._clock()
        if before is None or self._is_to_be_told(why, before, now):
            self._teller.waits(pod, why)
            before = _Told(why, now, now)
        self._due = min(self._due, before.said + AGAIN)
        return _Told(before.why, before.said, now)

    def _is_to_be_told(self, why: Waiting, before: _Told, now: float) -> bool:
        if why.reason is not before.why.reason or now >= before.said + AGAIN:
            return True
        if why == before.why or told(why) == told(before.why):
            return False
        if now >= before.said + A_MINUTE and self._may_tell_numbers(now):
            return True
        self._due = min(self._due, max(before.said, self._minute) + A_MINUTE)
        return False

    def _may_tell_numbers(self, now: float) -> bool:
        if now >= self._minute + A_MINUTE:
            self._minute, self._numbers = now, 0
        self._numbers += 1
        return self._numbers <= MANY


def _waiting(cycle: Cycle) -> Iterator[Pod]:
    """The governed pods that get no place by this cycle now."""
    for workloads in cycle.snapshot.waiting.values():
        for key in workloads:
            for pod in cycle.snapshot.members[key]:
                if cycle.scratch.status(pod) in (Status.WAITING, Status.NOMINATED):
                    yield pod


def _strangers(snapshot: Snapshot, settings: Settings) -> Iterator[tuple[Pod, Workload] | None]:
    """The waiting pods for another scheduler that name a queue all the same, and those that have to name one."""
    use = snapshot.own.get("", UNUSED)
    if use.requested == use.allocated:
        # Nearly always: there are none, and thousands of pods need no look.
        return
    for pod in paused(snapshot.pods.values()):
        if pod is None:
            yield None
            continue
        workload = snapshot.workloads.get(pod.workload) if pod.waits else None
        if workload is None or workload.governed:
            continue
        if workload.queue is not None or (settings.pods_without_queue == "refuse" and not workload.scheduler):
            yield pod, workload
