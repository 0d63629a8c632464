"""Tells users, as Events on their pods and queues: who was evicted and why, who is back, why a pod waits.

On a queue they are alike for all of its pods that fare alike, so that many of them are one Event with a count.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gpuyard.common.kube.events import Kind, Recorder
from gpuyard.common.kube.objects import ObjectReference
from gpuyard.common.kube.resources import PLANS, PODS, QUEUES
from gpuyard.common.plans.plan import Plan, Victim
from gpuyard.engine.explain.sentences import sentence, told
from gpuyard.engine.model import Pod
from gpuyard.engine.model.results import Bound, NoQueue, Reason, Share, Waiting

EVICTED = "Evicted"
MOVED = "Moved"
MOVE_REFUSED = "MoveRefused"
WITHDRAWN = "PlanWithdrawn"
REASONS = frozenset({EVICTED, MOVED, MOVE_REFUSED, WITHDRAWN, *(reason.value for reason in Reason)})
"""All reasons that users may see."""


class Teller:
    """Speaks of pods and of their queues; those it has to be told: their UIDs, and which one a pod is of."""

    def __init__(
        self,
        recorder: Recorder,
        queue_uids: Mapping[str, str] = MappingProxyType({}),
        queue_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._recorder = recorder
        self._queue_uids = queue_uids
        self._queue_of = queue_of

    def begun(self, plan: Plan) -> None:
        """Room is being made for somebody of a queue."""
        if plan.spec.evictions:
            count = len(plan.spec.evictions)
            note = f"room is made for {plan.spec.workload}: {count} to leave by {plan.spec.phase}; plan {plan.name}"
            self._of_queue(plan.spec.queue, Reason.RECLAIM_IN_PROGRESS, note, action=plan.spec.phase)

    def evicted(self, plan: Plan, victim: Victim) -> None:
        """A pod loses its place."""
        note = f"{victim.reason}; plan {plan.name}"
        self._recorder.emit(_about(victim.pod, victim.uid), EVICTED, note, action=plan.spec.phase, kind="Warning")
        for_whom = f" for {plan.spec.workload}" if plan.spec.workload else ""
        of_it = f"pods of it have to leave: {plan.spec.phase}{for_whom}; plan {plan.name}"
        self._of_queue(self._queue_of(victim.pod), EVICTED, of_it, action=plan.spec.phase, kind="Warning")

    def moved(self, plan: Plan, victim: Victim, node: str) -> None:
        """A moved pod has been made anew."""
        note = f"made anew for {node}, since it had to leave {victim.node}: {victim.reason}; plan {plan.name}"
        self._recorder.emit(_about(victim.pod, ""), MOVED, note, action=plan.spec.phase)

    def move_refused(self, plan: Plan, victim: Victim, why: str) -> None:
        """A moved pod is not created again, because what was kept of it cannot be trusted."""
        note = f"{why}; plan {plan.name}"
        of_plan = ObjectReference(PLANS.api_version, PLANS.kind, plan.name, "", plan.metadata.uid)
        for about in (_about(victim.pod, ""), of_plan):
            self._recorder.emit(about, MOVE_REFUSED, note, action=plan.spec.phase, kind="Warning")

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
        self._of_queue(_to_blame(why), why.reason, f"pods wait: {sentence(why)}", action="Wait")

    def _of_queue(self, queue: str, reason: str, note: str, *, action: str, kind: Kind = "Normal") -> None:
        if queue in self._queue_uids:
            about = ObjectReference(QUEUES.api_version, QUEUES.kind, queue, "", self._queue_uids[queue])
            self._recorder.emit(about, reason, note, action=action, kind=kind)


def _to_blame(why: Waiting) -> str:
    """The queue whose bounds, or whose place in the tree, keep a pod waiting; empty: it is none."""
    facts = why.facts
    if isinstance(facts, Bound | Share):
        return facts.queue
    return facts.label if isinstance(facts, NoQueue) else ""


def _about(pod: str, uid: str) -> ObjectReference:
    namespace, _, name = pod.partition("/")
    return ObjectReference(PODS.api_version, PODS.kind, name, namespace, uid)
