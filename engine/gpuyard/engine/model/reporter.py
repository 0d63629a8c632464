"""What the engine tells whoever watches it decide: nobody in the hot path, a recorder for `explain` and tests."""

from typing import Protocol

import msgspec
from gpuyard.engine.model.results import Waiting
from gpuyard.engine.model.settings import Phase


class Reporter(Protocol):
    """Told of each step as it is taken. Implementations must not change anything."""

    def refused(self, workload: str, why: Waiting) -> None:
        """A gate does not let a workload through."""

    def placed(self, pod: str, node: str, *, now: bool) -> None:
        """A place was found for a pod, free now or later."""

    def no_room(self, pod: str) -> None:
        """No place was found for a pod."""

    def tried(self, phase: Phase, workload: str, victims: tuple[str, ...], *, success: bool) -> None:
        """A set of victims was tried for a workload."""

    def dropped(self, phase: Phase, workload: str, victim: str) -> None:
        """A victim was left out again: the plan works without it."""

    def skipped(self, phase: Phase, workload: str, like: str) -> None:
        """No victims were tried for a workload, as there are none for `like`, which asks for no more."""

    def paused(self) -> None:
        """A cycle that is run at once has taken some more small steps, whatever came of them."""


class Silent:
    """Hears nothing, at no cost."""

    def refused(self, workload: str, why: Waiting) -> None:
        """See `Reporter`."""

    def placed(self, pod: str, node: str, *, now: bool) -> None:
        """See `Reporter`."""

    def no_room(self, pod: str) -> None:
        """See `Reporter`."""

    def tried(self, phase: Phase, workload: str, victims: tuple[str, ...], *, success: bool) -> None:
        """See `Reporter`."""

    def dropped(self, phase: Phase, workload: str, victim: str) -> None:
        """See `Reporter`."""

    def skipped(self, phase: Phase, workload: str, like: str) -> None:
        """See `Reporter`."""

    def paused(self) -> None:
        """See `Reporter`."""


class Step(msgspec.Struct, frozen=True):
    """One thing that a `Recorder` was told: which, about whom, and the rest."""

    what: str
    about: str
    detail: tuple[object, ...] = ()


class Recorder:
    """Remembers every step, in order, and tells `watch` of it as well."""

    def __init__(self, watch: Reporter | None = None) -> None:
        self.steps: list[Step] = []
        self._watch = watch or Silent()

    def refused(self, workload: str, why: Waiting) -> None:
        """See `Reporter`."""
        self._watch.refused(workload, why)
        self.steps.append(Step("refused", workload, (why,)))

    def placed(self, pod: str, node: str, *, now: bool) -> None:
        """See `Reporter`."""
        self._watch.placed(pod, node, now=now)
        self.steps.append(Step("placed", pod, (node, now)))

    def no_room(self, pod: str) -> None:
        """See `Reporter`."""
        self._watch.no_room(pod)
        self.steps.append(Step("no room", pod))

    def tried(self, phase: Phase, workload: str, victims: tuple[str, ...], *, success: bool) -> None:
        """See `Reporter`."""
        self._watch.tried(phase, workload, victims, success=success)
        self.steps.append(Step("tried", workload, (phase, victims, success)))

    def dropped(self, phase: Phase, workload: str, victim: str) -> None:
        """See `Reporter`."""
        self._watch.dropped(phase, workload, victim)
        self.steps.append(Step("dropped", workload, (phase, victim)))

    def skipped(self, phase: Phase, workload: str, like: str) -> None:
        """See `Reporter`."""
        self._watch.skipped(phase, workload, like)
        self.steps.append(Step("skipped", workload, (phase, like)))

    def paused(self) -> None:
        """See `Reporter`; it is no step."""
        self._watch.paused()
