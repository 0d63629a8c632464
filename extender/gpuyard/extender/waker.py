"""Wakes refused pods when they could go and kube-scheduler cannot know it.

kube-scheduler asks again about a refused pod when other pods end or nodes change, but not when a queue's bound is
raised or a reservation lapses; and of a pod's end it may know before we do, and ask too early. An annotation whose
value changes wakes one pod: each that would pass now gets one.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NoReturn

from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError, KubeError
from gpuyard.common.kube.resources import PODS
from gpuyard.common.logs import get_logger
from gpuyard.engine.model import Pod, State
from gpuyard.engine.settings import Settings
from gpuyard.engine.snapshot import Snapshot
from gpuyard.extender.gatekeeper import Gatekeeper
from gpuyard.extender.ledger import Ledger
from msgspec.structs import replace

POKE = "gpuyard.io/poke"
"""The annotation; its value says when."""

log = get_logger()


def admissible(snapshot: Snapshot, settings: Settings, asleep: Iterable[str]) -> list[Pod]:
    """Those of the pods with these keys that would pass their gates now, one after the other, the best first."""
    keeper, found = Gatekeeper(), []
    waiting = (pod for key in asleep if (pod := snapshot.pods.get(key)) and pod.state is State.PENDING)
    for pod in sorted(waiting, key=lambda pod: _rank(snapshot, pod)):
        workload = snapshot.workloads.get(pod.workload)
        if workload and keeper.refusal(snapshot, settings, workload, pod) is None:
            found.append(pod)
            snapshot = snapshot.with_pod(replace(pod, state=State.BOUND))
    return found


def _rank(snapshot: Snapshot, pod: Pod) -> tuple[int, int, str]:
    workload = snapshot.workloads.get(pod.workload)
    return (-workload.priority if workload else 0, pod.created, pod.key)


class Waker:
    """Looks once per interval whether bounds or reservations have changed, and pokes whom that may help."""

    def __init__(
        self, client: Client, ledger: Ledger, settings: Callable[[], Settings], *, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._settings = settings
        self._clock = clock

    async def run(self, interval: float) -> NoReturn:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(interval)
            await self.look()

    async def look(self) -> None:
        """Poke those who sleep and could go, if anything has changed that kube-scheduler does not see."""
        if not self._ledger.take_news():
            return
        snapshot = self._ledger.snapshot
        called = [pod for key in sorted(self._ledger.take_called()) if (pod := snapshot.pods.get(key))]
        for pod in (*called, *admissible(snapshot, self._settings(), self._ledger.asleep)):
            self._ledger.woken(pod.key)
            await self._poke(pod)

    async def _poke(self, pod: Pod) -> None:
        namespace, _, name = pod.key.partition("/")
        patch = {"metadata": {"uid": pod.uid, "annotations": {POKE: f"{self._clock():.3f}"}}}
        try:
            await self._client.patch(PODS.named(name, namespace), patch)
            log.info("poked", pod=pod.key)
        except ApiError as error:
            if not error.not_found and not error.conflict:
                self._failed(pod, error)
        except KubeError as error:
            self._failed(pod, error)

    def _failed(self, pod: Pod, error: KubeError) -> None:
        """Try again in the next round."""
        log.warning("poke-failed", pod=pod.key, reason=str(error))
        self._ledger.call(pod.key)
