"""Tells users, as Events on their pods: who was evicted and why, who is back, why a pod waits."""

from gpuyard.common.kube.events import Recorder
from gpuyard.common.kube.objects import ObjectReference
from gpuyard.common.kube.resources import PODS
from gpuyard.engine.model import Pod
from gpuyard.engine.result import Reason, Waiting
from gpuyard.engine.sentences import told
from gpuyard.extender.planner.plans import Plan, Victim

EVICTED = "Evicted"
MOVED = "Moved"
WITHDRAWN = "PlanWithdrawn"
REASONS = frozenset({EVICTED, MOVED, WITHDRAWN, *(reason.value for reason in Reason)})
"""All reasons that users may see."""


class Teller:
    """Speaks of pods."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def evicted(self, plan: Plan, victim: Victim) -> None:
        """A pod loses its place."""
        note = f"{victim.reason}; plan {plan.name}"
        self._recorder.emit(_about(victim.pod, victim.uid), EVICTED, note, action=plan.spec.phase, kind="Warning")

    def moved(self, plan: Plan, victim: Victim, node: str) -> None:
        """A moved pod has been made anew."""
        note = f"made anew for {node}, since it had to leave {victim.node}: {victim.reason}; plan {plan.name}"
        self._recorder.emit(_about(victim.pod, ""), MOVED, note, action=plan.spec.phase)

    def withdrawn(self, plan: Plan) -> None:
        """What was planned for some pods has come to nothing."""
        for place in plan.spec.promises:
            if not plan.is_moved(place):
                note = f"its place on {place.node} is kept no longer: {plan.status.message}; plan {plan.name}"
                self._recorder.emit(
                    _about(place.pod, place.uid), WITHDRAWN, note, action=plan.spec.phase, kind="Warning"
                )

    def waits(self, pod: Pod, why: Waiting) -> None:
        """A pod has no place, and this is why."""
        self._recorder.emit(_about(pod.key, pod.uid), why.reason.value, told(why), action="Wait")


def _about(pod: str, uid: str) -> ObjectReference:
    namespace, _, name = pod.partition("/")
    return ObjectReference(PODS.api_version, PODS.kind, name, namespace, uid)
