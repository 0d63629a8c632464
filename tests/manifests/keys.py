"""The keys of pods and PodGroups by which the engine counts, taken from the engine's own constants."""

from __future__ import annotations

import msgspec
from gpuyard.engine.kube import gangs, objects, parts, pods, workloads

NO_LABELS = {pods.GPU_RESOURCE, gangs.DEFAULT_PART, gangs.LWS}
"""A resource, the name of a sub-group, a kind."""

LABELS = {
    value
    for module in (gangs, pods, workloads)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str) and value not in NO_LABELS
} | {parts.GPU_GROUP, *(key for key, _ in pods.LEADERS)}
"""The labels that are read of pods."""

DISPLAY_NAME = "gpuyard.io/display-name"
"""Shown to people, and nothing else follows from it."""

ANNOTATIONS = {field.encode_name for field in msgspec.structs.fields(objects.Notes)} - {DISPLAY_NAME}
"""The annotations that are read of pods."""

GROUP_LABELS = {
    workloads.QUEUE,
    workloads.RUNAI_QUEUE,
    workloads.PRIORITY_CLASS,
    workloads.PREEMPTIBILITY,
}
"""The labels that are read of PodGroups."""

GROUP_FIELDS = {"queue", "priorityClassName", "preemptibility"}
"""The fields of a PodGroup's `spec` that say the same."""
