"""`gpuyard doctor`: may the extender do what its work is?"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from typing import NamedTuple

from gpuyard.cli.findings import Finding, Status
from gpuyard.cli.live import OWNERS, settings
from gpuyard.cli.patient import ACCOUNT, DOCS, NAMESPACE, Patient
from gpuyard.cli.schemas import CRDS
from gpuyard.common.kube.resources import TOPOLOGIES, Resource
from gpuyard.engine.model.settings import Settings

GRANTED = "the extender has its rights"
REVIEWS = Resource("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview")
_READ = ("list", "watch")
_WHO = f"ServiceAccount {NAMESPACE}/{ACCOUNT}"
_AGAIN = f"apply its ClusterRole and binding again, {DOCS}"


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
    "": {"pods": (*_READ, "get", "patch"), "nodes": _READ, "namespaces": _READ, "pods/eviction": ("create",)},
    "gpuyard.io": {"plans": (*_READ, "create", "delete"), "plans/status": ("patch",)},
    "scheduling.run.ai": {"queues": _READ, "podgroups": _READ, "queues/status": ("patch",)},
    "events.k8s.io": {"events": ("create", "patch")},
    "policy": {"poddisruptionbudgets": _READ},
    "scheduling.k8s.io": {"priorityclasses": _READ},
}
"""By API group and resource what the extender does in all namespaces, however it is set."""

OPTIONAL = tuple(
    Right(verb, one.api_version.partition("/")[0], one.plural) for one in (*OWNERS, TOPOLOGIES) for verb in _READ
)
"""Owners tell how many pods start together, topologies where gangs may stand; a kind may be missing in a cluster."""

PAST_BUDGETS = (Right("delete", "", "pods"),)
"""Only with `honorDisruptionBudgets: false`."""

TO_MOVE = (
    Right("create", "", "pods"),
    *(Right(verb, "apps", "controllerrevisions") for verb in ("get", "create", "delete")),
)
"""Only with `moveBarePods: true`."""

_SETTINGS = {
    TO_MOVE: ("moveBarePods: true", "kubectl apply -k manifests/overlays/move-bare-pods"),
    PAST_BUDGETS: ("honorDisruptionBudgets: false", "kubectl apply -k manifests/overlays/ignore-budgets"),
}
"""The settings that need rights of their own, and what binds these."""


def rights() -> Iterator[Right]:
    """All that the extender does, as it is set by default."""
    yield from needed(Settings())


def needed(by: Settings) -> Iterator[Right]:
    """All that the extender does with these settings."""
    for group, resources in NEEDED.items():
        for resource, verbs in resources.items():
            yield from (Right(verb, group, resource) for verb in verbs)
    yield from (Right(verb, "coordination.k8s.io", "leases", NAMESPACE) for verb in ("get", "create", "update"))
    yield from OPTIONAL
    yield from TO_MOVE if by.move_bare_pods else ()
    yield from () if by.honor_disruption_budgets else PAST_BUDGETS


async def granted(patient: Patient) -> list[Finding]:
    """Which of them the account lacks."""
    if not patient.has_account:
        return []
    wanted = [*needed(await settings(patient.client))]
    allowed = await asyncio.gather(*(_allowed(patient, each) for each in wanted))
    missing = [right for right, yes in zip(wanted, allowed, strict=True) if not yes]
    found = [finding async for finding in _told(patient, missing)]
    return found or [Finding(GRANTED, Status.OK, f"{_WHO} may do all {len(wanted) - len(missing)} things")]


async def _told(patient: Patient, missing: Collection[Right]) -> AsyncIterator[Finding]:
    """What becomes of it; an owner that the cluster has no kind of is not missed."""
    optional = {*OPTIONAL, *TO_MOVE, *PAST_BUDGETS}
    if lacking := [str(right) for right in missing if right not in optional]:
        yield Finding(GRANTED, Status.FAIL, f"{_WHO} may not {', '.join(lacking)}", _AGAIN)
    for needed_for, (setting, remedy) in _SETTINGS.items():
        if lacking := [str(right) for right in missing if right in needed_for]:
            seen = f"{_WHO} may not {', '.join(lacking)}, which {setting} needs"
            yield Finding(GRANTED, Status.FAIL, seen, f"{remedy}, or take the setting back")
    if unseen := [str(right) for right in missing if right in OPTIONAL and await _is_kind(patient, right)]:
        seen = f"{_WHO} may not {', '.join(unseen)}: gangs of these start pod by pod"
        yield Finding(GRANTED, Status.WARN, seen, _AGAIN)


async def _is_kind(patient: Patient, right: Right) -> bool:
    """Whether the cluster has such owners: Jobs it always has."""
    return right.group == "batch" or await patient.get(CRDS.named(f"{right.resource}.{right.group}")) is not None


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
