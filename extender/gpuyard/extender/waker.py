"""Wakes refused pods when they could go and kube-scheduler cannot know it.

kube-scheduler asks again about a refused pod when other pods end or nodes change, but not when a queue's bound is
raised or a reservation lapses; and of a pod's end it may know before we do, and ask too early. An annotation whose
value changes wakes one pod: each that was refused for a cause that is over now gets one.

Decided in docs/decisions.md: "The waker pokes only whom the gates would pass".
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NoReturn

from gpuyard.common.effects.poke import poke
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError, KubeError
from gpuyard.common.logs import get_logger
from gpuyard.engine.model import Pod, State
from gpuyard.engine.model.results import Reason
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.model.snapshot import Snapshot
from gpuyard.engine.placing.strategies import STRATEGIES
from gpuyard.engine.rules.gates import governs
from gpuyard.engine.stepwise import in_order
from gpuyard.extender.ledger import NOT_SEEN_YET, Ledger
from gpuyard.extender.ledger.gate_check import Gatekeeper
from gpuyard.extender.verbs.node_room import NodeRoom
from gpuyard.extender.verbs.ranking import best
from msgspec.structs import replace

log = get_logger()


CROWDED = frozenset({Reason.PROMISED_TO_OTHER.value, Reason.NO_NODE_FITS.value})
"""The refusals that end when room is no longer kept, or what was in flight has landed elsewhere."""

OTHERS_CALL = frozenset({Reason.GANG_DOES_NOT_FIT.value, Reason.RECLAIM_IN_PROGRESS.value, Reason.OUTRANKED.value})
"""The refusals after which kube-scheduler asks again by itself, or the planner calls."""

LAG = 2.0
"""Seconds by which kube-scheduler may know of the end of a pod before we do."""


class Waker:
    """Looks once per interval whether something has changed that lets pods go, and pokes those.

    `now` never jumps; `today` says what time it is.
    """

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        settings: Callable[[], Settings],
        *,
        now: Callable[[], float],
        today: Callable[[], float],
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._settings = settings
        self._now = now
        self._today = today

    async def run(self, interval: float) -> NoReturn:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(interval)
            await self.look()

    async def look(self) -> None:
        """Poke those who sleep and could go, if anything has changed that kube-scheduler does not see."""
        for _ in self._ledger.expire_all(self._now()):
            await asyncio.sleep(0)
        if not self._ledger.take_news():
            return
        async for pod in self.admissible(self._ledger.take_called()):
            await self._poke(pod)

    async def admissible(self, called: AbstractSet[str] = frozenset()) -> AsyncIterator[Pod]:
        """Who would pass now, one after the other: those with a place first, then who was called, then the sleepers.

        Others may do something between two of them.
        """
        snapshot, settings, keeper = self._ledger.snapshot, self._settings(), Gatekeeper(self._ledger.promises)
        asleep, kept = dict(self._ledger.asleep), called & self._ledger.kept.keys()
        for key in sorted(kept):
            yield snapshot.pods[key]
        waiting = (
            pod for key in asleep.keys() | called if (pod := snapshot.pods.get(key)) and pod.state is State.PENDING
        )
        line = list[Ranked]()
        for step in _lined_up((pod.key not in called, *_rank(snapshot, pod)) for pod in waiting):
            line = step or line
            await asyncio.sleep(0)
        for *_, key in line:
            pod = snapshot.pods[key]
            await asyncio.sleep(0)
            if asleep.get(pod.key) == NOT_SEEN_YET:
                # Its condition says that it was not seen: whatever holds it up by now, it shall say that.
                yield pod
                continue
            workload = snapshot.workloads.get(pod.workload)
            if workload is None or not (pod.key in called or self._has_room(snapshot, pod, asleep[pod.key])):
                continue
            if not governs(settings, workload) or keeper.refusal(snapshot, settings, workload, pod) is None:
                yield pod
                snapshot = snapshot.with_pod(replace(pod, state=State.BOUND))

    def _has_room(self, snapshot: Snapshot, pod: Pod, why: str) -> bool:
        """Whether the cause of a refusal may be over, as far as it was not the pod's gates."""
        if why in OTHERS_CALL:
            return self._ledger.offered(pod, self._now() - LAG) is not None
        strategy = STRATEGIES[self._settings().placement]
        room = NodeRoom(snapshot, self._ledger, pod, strategy)
        offered = self._ledger.offered(pod, float("-inf")) or frozenset(snapshot.fleet.nodes)
        return why not in CROWDED or bool(best(snapshot, pod.shape, offered, 1, room.has_room, strategy=strategy))

    async def _poke(self, pod: Pod) -> None:
        why = self._ledger.woken(pod.key)
        try:
            await poke(self._client, pod, self._today())
            log.info("poked", pod=pod.key)
        except ApiError as error:
            if not error.not_found and not error.conflict:
                self._failed(pod, why, error)
        except KubeError as error:
            self._failed(pod, why, error)

    def _failed(self, pod: Pod, why: str | None, error: KubeError) -> None:
        """Try again in the next round."""
        log.warning("poke-failed", pod=pod.key, reason=str(error))
        self._ledger.not_woken(pod.key, why)


Ranked = tuple[bool, int, int, str]


def _lined_up(pods: Iterable[Ranked]) -> Iterator[list[Ranked] | None]:
    """The pods in their order, as the last value; None: others may do something before it goes on."""
    line = yield from in_order(pods)
    yield line


def _rank(snapshot: Snapshot, pod: Pod) -> tuple[int, int, str]:
    workload = snapshot.workloads.get(pod.workload)
    return (-workload.priority if workload else 0, pod.created, pod.key)
