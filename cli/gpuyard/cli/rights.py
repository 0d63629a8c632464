"""`gpuyard doctor`: may the extender do what its work is?"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.patient import ACCOUNT, DOCS, NAMESPACE, Patient
from gpuyard.common.kube.resources import Resource

GRANTED = "the extender has its rights"
REVIEWS = Resource("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview")
_READ = ("list", "watch")


class Right(NamedTuple):
    """Something that an account may do."""

    verb: str
    group: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        place = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{place}"


NEEDED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "": {"pods": (*_READ, "patch", "create"), "nodes": _READ, "namespaces": _READ, "pods/eviction": ("create",)},
    "apps": {"controllerrevisions": ("get", "create", "delete")},
    "gpuyard.io": {"plans": ("list", "create", "delete"), "plans/status": ("patch",)},
    "scheduling.run.ai": {"queues": _READ, "podgroups": _READ, "queues/status": ("patch",)},
    "events.k8s.io": {"events": ("create", "patch")},
    "policy": {"poddisruptionbudgets": _READ},
    "scheduling.k8s.io": {"priorityclasses": _READ},
}
"""By API group and resource what the extender does in all namespaces."""


def rights() -> Iterator[Right]:
    """All that the extender does."""
    for group, resources in NEEDED.items():
        for resource, verbs in resources.items():
            yield from (Right(verb, group, resource) for verb in verbs)
    yield from (Right(verb, "coordination.k8s.io", "leases", NAMESPACE) for verb in ("get", "create", "update"))


async def granted(patient: Patient) -> list[Finding]:
    """Which of them the account lacks."""
    if not patient.has_account:
        return []
    wanted = list(rights())
    allowed = await asyncio.gather(*(_allowed(patient, each) for each in wanted))
    missing = [str(right) for right, yes in zip(wanted, allowed, strict=True) if not yes]
    if missing:
        seen = f"ServiceAccount {NAMESPACE}/{ACCOUNT} may not {', '.join(missing)}"
        return [Finding(GRANTED, Status.FAIL, seen, f"apply its ClusterRole and binding again, {DOCS}")]
    return [Finding(GRANTED, Status.OK, f"ServiceAccount {NAMESPACE}/{ACCOUNT} may do all {len(wanted)} things")]


async def _allowed(patient: Patient, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    named = {"name": ACCOUNT} if right.group == "coordination.k8s.io" and right.verb != "create" else {}
    asked = {"verb": right.verb, "group": right.group, "resource": resource, "namespace": right.namespace}
    review = {
        "user": f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"],
        "resourceAttributes": asked | ({"subresource": part} if part else {}) | named,
    }
    body = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind, "spec": review}
    answer = await patient.client.create(REVIEWS.within(), body)
    return bool(answer["status"].get("allowed"))
