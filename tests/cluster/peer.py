"""What a user of KAI Scheduler has in a cluster before gpuyard comes: its CRDs, and objects made under them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

TEXT, WHOLE, NUMBER, YES_NO = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
COUNT = {"type": "integer", "format": "int32"}
AT_LEAST_ONE = COUNT | {"minimum": 1}
TIME = {"type": "string", "format": "date-time"}
QUANTITIES = {
    "type": "object",
    "additionalProperties": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
}


def fields(**properties: Json) -> Json:
    """An object of which the API server keeps these fields, and drops all others."""
    return {"type": "object", "properties": properties}


def many(item: Json) -> Json:
    return {"type": "array", "items": item}


BOUNDS = fields(quota=NUMBER, limit=NUMBER, overQuotaWeight=NUMBER)
QUEUE = fields(
    displayName=TEXT,
    parentQueue=TEXT,
    priority=WHOLE,
    preemptMinRuntime=TEXT,
    reclaimMinRuntime=TEXT,
    resources=fields(cpu=BOUNDS, gpu=BOUNDS, memory=BOUNDS),
)
QUEUE_STATUS = fields(
    childQueues=many(TEXT),
    conditions=many(
        fields(type=TEXT, status=TEXT, reason=TEXT, message=TEXT, lastProbeTime=TIME, lastTransitionTime=TIME)
    ),
    allocated=QUANTITIES,
    allocatedNonPreemptible=QUANTITIES,
    requested=QUANTITIES,
)
TOPOLOGY = fields(topology=TEXT, requiredTopologyLevel=TEXT, preferredTopologyLevel=TEXT)
POD_GROUP = fields(
    queue=TEXT,
    minMember=AT_LEAST_ONE,
    priorityClassName=TEXT,
    preemptibility=TEXT | {"enum": ["preemptible", "non-preemptible"]},
    backoffLimit=COUNT,
    completions=COUNT,
    parallelism=COUNT,
    schedulingBackoff=COUNT,
    markUnschedulable=YES_NO,
    topologyConstraint=TOPOLOGY,
    subGroups=many(fields(name=TEXT, parent=TEXT, minMember=AT_LEAST_ONE, topologyConstraint=TOPOLOGY)),
)
POD_GROUP_STATUS = fields(
    phase=TEXT,
    pending=COUNT,
    running=COUNT,
    failed=COUNT,
    schedulingConditions=many(
        fields(type=TEXT, status=TEXT, nodePool=TEXT, transitionID=TEXT, lastTransitionTime=TIME)
    ),
    resourcesStatus=fields(allocated=QUANTITIES, allocatedNonPreemptible=QUANTITIES, requested=QUANTITIES),
)


def crd(kind: str, version: str, scope: str, spec: Json, status: Json) -> Json:
    """A CRD of the peer, as far as the API server acts by it."""
    plural = f"{kind.lower()}s"
    schema = fields(apiVersion=TEXT, kind=TEXT, metadata={"type": "object"}, spec=spec, status=status)
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.scheduling.run.ai"},
        "spec": {
            "group": "scheduling.run.ai",
            "scope": scope,
            "names": names,
            "versions": [served | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


CRDS = (
    crd("Queue", "v2", "Cluster", QUEUE, QUEUE_STATUS),
    crd("PodGroup", "v2alpha2", "Namespaced", POD_GROUP, POD_GROUP_STATUS),
)
NO_BOUND = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
LIMIT = 3


def queue(name: str, gpu: Json, **spec: object) -> Json:
    resources = {"cpu": NO_BOUND, "memory": NO_BOUND, "gpu": gpu}
    made = {"priority": 100, **spec, "resources": resources}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": made}


def gang(name: str, size: int) -> Json:
    """A PodGroup as the peer's own controller writes it, with what it noted about it."""
    spec = {"queue": "research-a", "minMember": size, "priorityClassName": "train", "markUnschedulable": True}
    seen = {"type": "UnschedulableOnNodePool", "status": "True", "nodePool": "default", "transitionID": "1"}
    status = {"phase": "Pending", "pending": size, "schedulingConditions": [seen]}
    meta = {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": "research-a"}}
    made = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta}
    return made | {"spec": spec | {"backoffLimit": 1, "schedulingBackoff": 1}, "status": status}


OBJECTS = (
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "train"}, "value": 50},
    queue("research", NO_BOUND, displayName="Research"),
    queue(
        "research-a",
        {"quota": 2, "limit": LIMIT, "overQuotaWeight": 2},
        parentQueue="research",
        reclaimMinRuntime="1m0s",
    ),
    gang("whole", LIMIT),
    gang("short", LIMIT),
)


def pod(name: str, group: str = "") -> Json:
    """A pod as the peer's users submit it; its controller has noted which group it is of."""
    meta = {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": "research-a"}}
    container = {"name": "main", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"schedulerName": "kai-scheduler", "terminationGracePeriodSeconds": 1, "containers": [container]}
    notes = {"annotations": {"pod-group-name": group}} if group else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta | notes, "spec": spec}
