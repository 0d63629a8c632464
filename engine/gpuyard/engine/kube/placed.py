"""What counts of a pod that has a node, or is on its way to one: it stays as it was when the pod was let through.

Labels and annotations of a running pod can be edited, its GPUs cannot: what it takes of its queue is what it was let
through with. The overlay `admission` refuses such edits, so that an extender that starts anew finds the same.
"""

from typing import TypeVar

from gpuyard.engine.kube import objects
from gpuyard.engine.kube.gangs import LWS_INDEX, LWS_NAME
from gpuyard.engine.kube.meta import NO_META, NO_NOTES
from gpuyard.engine.kube.parts import GPU_GROUP
from gpuyard.engine.kube.pods import LEADERS, SUB_GROUP, TASK_PRIORITY
from gpuyard.engine.kube.workloads import PREEMPTIBILITY, PRIORITY_CLASS, QUEUE, RUNAI_QUEUE
from gpuyard.engine.model import NO_LABELS, Labels
from msgspec.structs import fields, replace

P = TypeVar("P", bound=objects.Pod)

FIXED_LABELS = frozenset({QUEUE, RUNAI_QUEUE, PREEMPTIBILITY, PRIORITY_CLASS, SUB_GROUP, TASK_PRIORITY})
FIXED_LABELS |= {LWS_NAME, LWS_INDEX, *(key for key, _ in LEADERS)}
"""Labels that count in a queue or a gang; those of `runai-gpu-group` are fixed beside them, by their beginning."""

FIXED_NOTES = tuple(one.name for one in fields(objects.Notes) if one.name != "display")
"""The fields of the annotations that count so: all that are read, but the name that is shown to people."""


def has_node(pod: objects.Pod) -> bool:
    """Whether a pod was bound."""
    return bool(pod.spec and pod.spec.node_name)


def as_placed(seen: P, before: P) -> tuple[P, tuple[str, ...]]:
    """A pod with what counted before, when it had its node already; and the keys by which it says otherwise now.

    Its owners are kept as well, but not named: controllers adopt and release running pods.
    """
    now, then = seen.metadata or NO_META, before.metadata or NO_META
    if (now.labels, now.annotations, now.owner_references) == (then.labels, then.annotations, then.owner_references):
        return seen, ()
    labels = _labels(now.labels or NO_LABELS, then.labels or NO_LABELS)
    notes, earlier = now.annotations or NO_NOTES, then.annotations or NO_NOTES
    kept = replace(notes, **{name: getattr(earlier, name) for name in FIXED_NOTES})
    changed = [*_differing(labels, now.labels or NO_LABELS), *_notes_differing(kept, notes)]
    if not changed and now.owner_references == then.owner_references:
        return seen, ()
    meta = replace(now, labels=labels, annotations=kept, owner_references=then.owner_references)
    return replace(seen, metadata=meta), tuple(changed)


def _labels(now: Labels, then: Labels) -> dict[str, str]:
    """The labels of now, with the fixed ones of then; shared GPUs that were not named yet may be named now."""
    named = any(_is_group(key) for key in then)
    fixed = {key: value for key, value in then.items() if key in FIXED_LABELS or _is_group(key)}
    free = {key: value for key, value in now.items() if key not in FIXED_LABELS and not (named and _is_group(key))}
    return free | fixed


def _is_group(key: str) -> bool:
    return key.partition("/")[0] == GPU_GROUP


def _differing(kept: Labels, now: Labels) -> list[str]:
    return sorted(key for key in kept.keys() | now.keys() if kept.get(key) != now.get(key))


def _notes_differing(kept: objects.Notes, now: objects.Notes) -> list[str]:
    spelt = {one.name: one.encode_name for one in fields(objects.Notes)}
    return sorted(spelt[name] for name in FIXED_NOTES if getattr(kept, name) != getattr(now, name))
