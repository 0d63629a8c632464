"""A Queue as the engine's, and the past use of queues. Units as in KAI: GPUs, millicores, 10^6 bytes.

Decided in docs/decisions.md: "The history of queues has a form of its own".
"""

from collections.abc import Mapping

from gpuyard.engine.kube import objects, quantity
from gpuyard.engine.kube.faults import Complain
from gpuyard.engine.kube.meta import created, name_of, notes_of, read
from gpuyard.engine.model import RESOURCES, SCALE, UNLIMITED, Amounts, Queue
from gpuyard.engine.model.settings import duration

DIGITS = {"gpu": 3, "cpu": 0, "memory": 6}
"""Powers of ten between the unit of a Queue and that of the engine."""

_SCALE_DIGITS = 6
_UNBOUNDED = objects.QueueResource(quota=UNLIMITED, limit=UNLIMITED)


def queue(seen: objects.Queue, now: int, complain: Complain) -> Queue:
    """Translate a queue. An absent cpu or memory block is unlimited; inside a block an absent bound is 0."""
    spec = seen.spec or objects.QueueSpec()
    if spec.resources is None:
        complain("spec.resources", "missing; a queue says what it may use, as gpu: {quota: 8, limit: -1}")
    blocks = _blocks(spec.resources or objects.QueueResources())
    return Queue(
        name=name_of(seen),
        parent=spec.parent_queue or "",
        priority=100 if spec.priority is None else spec.priority,
        quota=_bounds(blocks, "quota", complain),
        limit=_bounds(blocks, "limit", complain),
        weight=_weights(blocks, complain),
        unset=tuple(f"{r}.{b}" for r in RESOURCES for b in ("quota", "limit") if getattr(blocks[r], b) is None),
        created=created(seen, now, complain),
        preempt_min_runtime=read(duration, spec.preempt_min_runtime, "spec.preemptMinRuntime", complain, None),
        reclaim_min_runtime=read(duration, spec.reclaim_min_runtime, "spec.reclaimMinRuntime", complain, None),
        display=notes_of(seen).display or spec.display_name or "",
    )


def history(seen: objects.QueueUsage, complain: Complain) -> dict[str, Amounts]:
    """The past use of each queue that a QueueUsage names, as a share of the cluster in `SCALE`."""
    return {name: _usage(name, use, complain) for name, use in (seen.queues or {}).items()}


def _blocks(seen: objects.QueueResources) -> Mapping[str, objects.QueueResource]:
    return {
        "gpu": seen.gpu or objects.QueueResource(),
        "cpu": seen.cpu or _UNBOUNDED,
        "memory": seen.memory or _UNBOUNDED,
    }


def _bounds(blocks: Mapping[str, objects.QueueResource], name: str, complain: Complain) -> Amounts:
    def bound(resource: str) -> int:
        value = getattr(blocks[resource], name)
        if value is not None and value == UNLIMITED:
            return UNLIMITED
        field = f"spec.resources.{resource}.{name}"
        return read(lambda v: quantity.scaled(v, DIGITS[resource]), value, field, complain, 0)

    return Amounts(bound("gpu"), bound("cpu"), bound("memory"))


def _weights(blocks: Mapping[str, objects.QueueResource], complain: Complain) -> Amounts:
    def weight(resource: str) -> int:
        field = f"spec.resources.{resource}.overQuotaWeight"
        value = blocks[resource].over_quota_weight
        return read(lambda v: quantity.scaled(v, _SCALE_DIGITS), value, field, complain, SCALE)

    return Amounts(weight("gpu"), weight("cpu"), weight("memory"))


def _usage(name: str, use: objects.Usage, complain: Complain) -> Amounts:
    def share(resource: str) -> int:
        value, field = getattr(use, resource), f"queues.{name}.{resource}"
        return read(lambda v: quantity.scaled(v, _SCALE_DIGITS), value, field, complain, 0)

    return Amounts(share("gpu"), share("cpu"), share("memory"))
