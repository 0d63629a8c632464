"""Tells users, as Events on their pods: who was evicted and why, and why a pod waits, once per cause."""

from collections.abc import Mapping

from gpuyard.common.kube.events import Recorder
from gpuyard.common.kube.objects import ObjectReference
from gpuyard.common.kube.resources import PODS
from gpuyard.engine.model import Pod
from gpuyard.engine.result import Reason, Waiting
from gpuyard.engine.sentences import told
from gpuyard.extender.planner.plans import Plan, Victim

EVICTED = "Evicted"
MOVED = "Moved"
REASONS = frozenset({EVICTED, MOVED, *(reason.value for reason in Reason)})
"""All reasons that users may see."""


class Teller:
    """Speaks of pods."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told: dict[str, Reason] = {}

    def evicted(self, plan: Plan, victim: Victim) -> None:
        """A pod loses its place."""
        note = f"{victim.reason}; plan {plan.name}"
        self._recorder.emit(_about(victim.pod, victim.uid), EVICTED, note, action=plan.spec.phase, kind="Warning")

    def moved(self, plan: Plan, victim: Victim, node: str) -> None:
        """A moved pod has been made anew."""
        note = f"made anew for {node}, since it had to leave {victim.node}: {victim.reason}; plan {plan.name}"
        self._recorder.emit(_about(victim.pod, ""), MOVED, note, action=plan.spec.phase)

    def waiting(self, pods: Mapping[str, Pod], reasons: Mapping[str, Waiting]) -> None:
        """Why these pods wait, told once for each cause; of those that do not wait any more nothing is remembered."""
        for key, why in reasons.items():
            if self._told.get(pods[key].uid) is not why.reason:
                about = _about(key, pods[key].uid)
                self._recorder.emit(about, why.reason.value, told(why), action="Wait")
        self._told = {pods[key].uid: why.reason for key, why in reasons.items()}


def _about(pod: str, uid: str) -> ObjectReference:
    namespace, _, name = pod.partition("/")
    return ObjectReference(PODS.api_version, PODS.kind, name, namespace, uid)
