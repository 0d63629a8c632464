"""A Kubernetes Pod as the engine's: its state, its place, what it asks for.

phase               bound   deleted     state
Succeeded, Failed   any     any         as the phase: it holds nothing
Pending             no      no          Pending, whatever node it asks for
Pending             yes     no          Bound
Running, Unknown    yes     no          Running
any other           yes     yes         Terminating
Pending             no      yes         Pending, and never started: it is about to go

Decided in docs/decisions.md: "A pod that names a node is bound only once somebody says so"; "A reservation pod of KAI
holds the GPU of its group, not one more".
"""

from collections.abc import Iterable
from functools import lru_cache

import msgspec
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import Complain, ignore
from gpuyard.engine.kube.meta import NO_META, bounded, meta_of, read
from gpuyard.engine.kube.parts import RESERVATIONS, may_count, named_groups
from gpuyard.engine.kube.quantity import count
from gpuyard.engine.kube.shapes import shape
from gpuyard.engine.kube.times import moment
from gpuyard.engine.model import HOLDING, NO_LABELS, Labels, Pod, Shape, State
from gpuyard.engine.model.constraints import whole_number

SUB_GROUP = "kai.scheduler/subgroup-name"
TASK_PRIORITY = "kai.scheduler/task-priority"
GPU_RESOURCE = "nvidia.com/gpu"

LEADERS = frozenset(
    {
        ("training.kubeflow.org/job-role", "master"),
        ("training.kubeflow.org/replica-type", "master"),
        ("training.kubeflow.org/replica-type", "launcher"),
        ("ray.io/node-type", "head"),
        ("leaderworkerset.sigs.k8s.io/worker-index", "0"),
    }
)
"""The labels, with their values, by which a pod is the leader of its gang."""

_TELLING = frozenset({SUB_GROUP, TASK_PRIORITY, *(key for key, _ in LEADERS)})
"""The labels by which a pod tells its part in a gang; most pods have none."""

_PHASES = {
    "Pending": State.PENDING,
    "Running": State.RUNNING,
    "Unknown": State.RUNNING,
    "Succeeded": State.SUCCEEDED,
    "Failed": State.FAILED,
}
_OVER = (State.SUCCEEDED, State.FAILED)
_KEEPS_NAMES = frozenset({"StatefulSet", "Node"})
_NO_SPEC = objects.PodSpec()
_NO_STATUS = objects.PodStatus()


def pod(seen: objects.Pod, workload: str | None, now: int, complain: Complain, devices: tuple[int, ...] = ()) -> Pod:
    """Translate a pod of the workload with this key (None: its own); without a creation time it is submitted `now`.

    `devices` are the indices of its GPUs on the node, where the caller can tell them from `device_ids`.
    """
    spec, status, meta = seen.spec or _NO_SPEC, seen.status or _NO_STATUS, seen.metadata or NO_META
    key = f"{meta.namespace or 'default'}/{meta.name or ''}"
    labels, state = meta.labels or NO_LABELS, _state(spec, status, meta, complain)
    plain = _TELLING.isdisjoint(labels)
    node = "" if state is State.PENDING else spec.node_name or ""
    created, started, deleted = _times(meta, status, now, complain)
    asked = shape(spec, meta.annotations, complain, parts=may_count(seen))
    owner = owner_of(seen) if meta.owner_references else None
    holds = state not in _OVER and bool(node)
    groups: tuple[str, ...] = ()
    if holds and asked.gpus and meta.namespace in RESERVATIONS and (groups := named_groups(labels)):
        asked = _without_gpus(asked)
    elif holds and asked.shared:
        groups = _gpu_groups(labels, asked.devices, key)
    return Pod(
        key=key,
        uid=meta.uid or "",
        workload=key if workload is None else workload,
        group="" if plain else labels.get(SUB_GROUP, ""),
        shape=asked,
        state=state,
        node=node,
        gated=state is State.PENDING and bool(spec.scheduling_gates or meta.deletion_timestamp),
        created=created,
        started=started,
        deleted_at=deleted,
        nominated=status.nominated_node_name or "" if state is State.PENDING else "",
        task_priority=0 if plain else _task_priority(labels, complain),
        leader=not plain and not LEADERS.isdisjoint(labels.items()),
        gpu_groups=groups,
        devices=devices if holds else (),
        owner=bounded(owner.uid or f"{owner.kind}/{owner.name}") if owner and owner.kind not in _KEEPS_NAMES else "",
        bare=owner is None,
        labels=labels,
        spreads=_spreads(spec) if spec.topology_spread_constraints else False,
    )


def _spreads(spec: objects.PodSpec) -> bool:
    return any(one.when_unsatisfiable == "ScheduleAnyway" for one in spec.topology_spread_constraints or ())


def _times(
    meta: objects.Meta, status: objects.PodStatus, now: int, complain: Complain
) -> tuple[int, int | None, int | None]:
    """When a pod was made, started and will be gone."""
    born, began, ends = meta.creation_timestamp, status.start_time, meta.deletion_timestamp
    try:
        return (
            now if born is None else moment(born),
            None if began is None else moment(began),
            None if ends is None else moment(ends),
        )
    except ValueError:  # only now is it worth while to look at each, and say which
        return (
            read(moment, born, "metadata.creationTimestamp", complain, now),
            read(moment, began, "status.startTime", complain, None),
            read(moment, ends, "metadata.deletionTimestamp", complain, None),
        )


def owner_of(seen: objects.Object) -> objects.Owner | None:
    """The owner that looks after the pod: its controller, else the first one named."""
    owners = meta_of(seen).owner_references
    if not owners:
        return None
    if len(owners) == 1:
        return owners[0]
    return next((o for o in owners if o.controller), owners[0])


def device_ids(seen: objects.Pod) -> tuple[str, ...]:
    """The ids of the GPUs that kubelet gave to the pod's containers."""
    status = seen.status or _NO_STATUS
    ids: tuple[str, ...] = ()
    for containers in (status.init_container_statuses, status.container_statuses):
        for container in containers or ():
            if container.allocated_resources_status:
                ids += _gpu_ids(container.allocated_resources_status)
    return ids


def _gpu_ids(resources: Iterable[objects.AllocatedResource]) -> tuple[str, ...]:
    return tuple(d.resource_id for r in resources if r.name == GPU_RESOURCE for d in r.resources or ())


def _state(spec: objects.PodSpec, status: objects.PodStatus, meta: objects.Meta, complain: Complain) -> State:
    phase = status.phase or "Pending"
    state = _PHASES.get(phase)
    if state is None:
        complain("status.phase", f"{phase!r} is none of {', '.join(_PHASES)}")
        return State.PENDING
    if state in _OVER:
        return state
    if not spec.node_name:
        if state is State.RUNNING:
            complain("spec.nodeName", f"missing, though status.phase is {phase}")
        return State.PENDING
    if meta.deletion_timestamp is not None:
        return State.TERMINATING
    if state is State.PENDING:
        return State.BOUND if _is_bound(status) else State.PENDING
    return state


def holds(seen: objects.Pod) -> bool:
    """Whether a pod takes up room on its node."""
    return _state(seen.spec or _NO_SPEC, seen.status or _NO_STATUS, seen.metadata or NO_META, ignore) in HOLDING


def _is_bound(status: objects.PodStatus) -> bool:
    """Whether a node named in the spec is more than a wish: binding sets the condition, kubelet the start."""
    scheduled = any(c.type == "PodScheduled" and c.status == "True" for c in status.conditions or ())
    return scheduled or status.start_time is not None


def past_its_queue(seen: objects.Pod) -> bool:
    """Whether nobody asks kube-scheduler about this pod once it is submitted: it names its node itself."""
    if seen.spec is None or not seen.spec.node_name:
        return False
    status, meta = seen.status or _NO_STATUS, seen.metadata or NO_META
    if status.phase or status.start_time or status.conditions:  # kubectl writes an empty status into a draft
        return False
    return not (meta.uid or meta.owner_references)


def _task_priority(labels: Labels, complain: Complain) -> int:
    text = labels.get(TASK_PRIORITY, "0")
    number = whole_number(text)
    if number is None:
        complain(f"metadata.labels.{TASK_PRIORITY}", f"{text[:80]!r} is not a whole number")
    return number or 0


def _gpu_groups(labels: Labels, devices: int, key: str) -> tuple[str, ...]:
    """The shared GPUs by name. A placed pod that names none has some of its own, shared with nobody."""
    named = named_groups(labels)
    if named:
        return named
    return (key,) if devices == 1 else tuple(f"{key}/{n}" for n in range(devices))


@lru_cache(maxsize=1 << 8)
def _without_gpus(shape: Shape) -> Shape:
    """The shape of a reservation pod: its GPU counts once, as the GPU of its group."""
    return msgspec.structs.replace(shape, gpus=0)


def minimum(text: str) -> int:
    """A gang's minimum as an annotation gives it; raises `ValueError`."""
    return max(1, count(text))
