"""What kube-scheduler's word on a pod says about evictions: whether they would help it at all.

    0/4 nodes are available: 3 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s). …    they may
    0/4 nodes are available: 4 node(s) didn't match pod affinity rules. …                            they do not
    0/4 nodes are available: persistentvolumeclaim "data" not found. …                               they do not

A list of causes begins with a number. Without a list, no node was looked at: something of the pod itself is missing.
"""

import re

_HEAD = re.compile(r"^0/\d+ nodes are available: ")
_CAUSES = re.compile(r"(?:^|, )\d+ ")
_AFTERTHOUGHT = "preemption: 0/"
"""What follows tells why kube-scheduler itself evicts nobody: in words of its own, which say nothing of ours."""

_OF_NODE = "node(s) "
"""So begins every cause that other pods' GPUs have no part in: taints, labels, volumes, ports, affinity."""


def evictions_may_help(verdict: str) -> bool:
    """Whether some node lacks what pods that leave would give back; what cannot be read is not held against a pod."""
    head = _HEAD.match(verdict)
    if head is None:
        return True
    told = verdict[head.end() :].partition(_AFTERTHOUGHT)[0]
    if not told[:1].isdigit():
        return False
    return any(not cause.startswith(_OF_NODE) for cause in _CAUSES.split(told)[1:])
