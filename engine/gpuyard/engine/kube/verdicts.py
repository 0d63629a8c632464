"""What kube-scheduler's word on a pod says about evictions: whether they would help it at all.

    0/4 nodes are available: 3 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s). …    they may
    0/4 nodes are available: 4 node(s) didn't have free ports for the requested pod ports. …         they may
    0/4 nodes are available: 4 node(s) didn't match pod affinity rules. …                            they do not
    0/4 nodes are available: persistentvolumeclaim "data" not found. …                               they do not

A list of causes begins with a number. Without a list, no node was looked at: something of the pod itself is missing.
Only of the causes named here is it known that they stay whoever leaves. Of any other, evictions may be the cure.
"""

import re

from gpuyard.engine.kube import objects

_HEAD = re.compile(r"^0/\d+ nodes are available: ")
_CAUSES = re.compile(r"(?:^|, )\d+ ")
_AFTERTHOUGHT = "preemption: 0/"
"""What follows tells why kube-scheduler itself evicts nobody: in words of its own, which say nothing of ours."""

_LASTING = tuple(
    f"node(s) {cause}"
    for cause in (
        "didn't match Pod's node affinity",
        "didn't match node selector",
        "didn't match the requested node name",
        "didn't match pod affinity rules",
        "didn't match pod topology spread constraints (missing required label)",
        "had untolerated taint",
        "had taint",
        "were unschedulable",
        "had unknown conditions",
        "had volume node affinity conflict",
        "had no available volume zone",
        "didn't find available persistent volumes to bind",
        "did not have enough free storage",
        "unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    )
)
"""So begin the causes that pods have no part in by standing there: labels, taints, volumes, pods that are missing."""

_OWN_EVICTIONS = re.compile(rf"( no new claims to deallocate,)? {_AFTERTHOUGHT}.*", re.DOTALL)

_MISSING = re.compile(r"volume|claim|storageclass|pod affinity terms conflict", re.IGNORECASE)
"""What a pod itself may lack, or ask for in vain."""


def causes(verdict: str) -> str:
    """The verdict without what kube-scheduler says of its own evictions."""
    return _OWN_EVICTIONS.sub("", verdict)


def in_vain(status: objects.PodStatus | None) -> str:
    """The causes of a verdict by which no eviction helps a pod; empty: there is none."""
    conditions = (status.conditions if status else None) or ()
    said = next((c.message or "" for c in conditions if c.type == "PodScheduled" and c.status == "False"), "")
    return "" if evictions_may_help(said) else causes(said)


def evictions_may_help(verdict: str) -> bool:
    """Whether some node lacks what pods that leave would give back; what cannot be read is not held against a pod."""
    head = _HEAD.match(verdict)
    if head is None:
        return True
    told = verdict[head.end() :].partition(_AFTERTHOUGHT)[0]
    if not told[:1].isdigit():
        return _MISSING.search(told) is None
    return any(not cause.startswith(_LASTING) for cause in _CAUSES.split(told)[1:])
