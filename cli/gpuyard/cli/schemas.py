"""`gpuyard doctor`: are the CRDs there, and do they keep the fields that we read and write?"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.patient import DOCS, Patient
from gpuyard.common.kube.client import Json
from gpuyard.common.kube.resources import PLANS, POD_GROUPS, QUEUES, Resource

THERE = "the CRDs are there"
CRDS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition")

FIELDS: Mapping[Resource, tuple[str, ...]] = {
    QUEUES: (
        "spec.parentQueue",
        "spec.priority",
        "spec.preemptMinRuntime",
        "spec.reclaimMinRuntime",
        "spec.resources.gpu.quota",
        "spec.resources.gpu.limit",
        "spec.resources.gpu.overQuotaWeight",
        "status.allocated",
    ),
    POD_GROUPS: ("spec.queue", "spec.minMember", "spec.priorityClassName", "spec.subGroups"),
    PLANS: ("spec", "status"),
}
"""What we read and write of each kind: the API server drops what its CRD does not know."""

SHOWN: Mapping[Resource, tuple[str, ...]] = {QUEUES: ("status.fairShare",)}
"""What we write for people only: nothing goes wrong without it."""

_UNKNOWN = "x-kubernetes-preserve-unknown-fields"


async def there(patient: Patient) -> list[Finding]:
    """What is missing of the CRDs."""
    if not patient.has_extender:
        return []
    found = [finding for resource in FIELDS for finding in await _of(patient, resource)]
    seen = ", ".join(f"{each.plural} {each.api_version}" for each in FIELDS)
    return found or [Finding(THERE, Status.OK, seen)]


async def _of(patient: Patient, resource: Resource) -> list[Finding]:
    group, _, version = resource.api_version.partition("/")
    name = f"{resource.plural}.{group}"
    crd = await patient.get(CRDS.named(name))
    if crd is None:
        return [Finding(THERE, Status.FAIL, f"there is no CRD {name}", f"`kubectl apply -k manifests/crds`, {DOCS}")]
    served = [each for each in crd["spec"]["versions"] if each["name"] == version and each["served"]]
    if not served:
        names = ", ".join(each["name"] for each in crd["spec"]["versions"] if each["served"])
        return [Finding(THERE, Status.FAIL, f"CRD {name} serves {names}, not {version}", _AGAIN)]
    return list(_findings(name, served[0], resource))


_AGAIN = "apply manifests/crds again; of KAI Scheduler take a version that has it"


def _findings(name: str, version: Json, resource: Resource) -> Iterator[Finding]:
    for status, fields in ((Status.FAIL, FIELDS[resource]), (Status.WARN, SHOWN.get(resource, ()))):
        if missing := lacking(version, fields):
            seen = f"CRD {name}: its schema lacks {', '.join(missing)}, which the API server therefore drops"
            yield Finding(THERE, status, seen, _AGAIN if status is Status.FAIL else _ELSEWHERE)
    if resource is PLANS and _ELASTIC not in _phases(version):
        seen = f"CRD {name} is of an earlier version: it does not know the phase {_ELASTIC}"
        yield Finding(THERE, Status.FAIL, seen, _FIRST)
    if "status" not in (version.get("subresources") or {}):
        seen = f"CRD {name}: it has no sub-resource status, so that nothing can be told there"
        yield Finding(THERE, Status.FAIL, seen, _AGAIN)


_FIRST = "apply the CRDs of this version first (`kubectl apply -k manifests/crds`), then the rest"
_ELASTIC = "elastic"


def _phases(version: Json) -> list[str]:
    """The phases that a Plan may have."""
    schema = version.get("schema", {}).get("openAPIV3Schema", {})
    for name in ("spec", "phase"):
        if schema.get(_UNKNOWN):
            return [_ELASTIC]
        schema = schema.get("properties", {}).get(name, {})
    return schema.get("enum") or [_ELASTIC]


_ELSEWHERE = "`gpuyard top` and the metrics tell the fair shares all the same; manifests/crds has the field"


def lacking(version: Json, fields: tuple[str, ...]) -> list[str]:
    """The fields that the API server does not keep."""
    schema = version.get("schema", {}).get("openAPIV3Schema", {})
    return [field for field in fields if not _kept(schema, field.split("."))]


def _kept(schema: Mapping[str, Any], path: list[str]) -> bool:
    """Whether the API server keeps what is written there."""
    for name in path:
        if schema.get(_UNKNOWN) or isinstance(schema.get("additionalProperties"), dict):
            return True
        schema = schema.get("properties", {}).get(name)
        if schema is None:
            return False
    return True
