"""Kinds that own pods, as small as the API server takes them: what their real definitions have beside is not ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuyard.common.cluster.owners import KINDS
from gpuyard.common.kube.resources import JOBS, TOPOLOGIES

if TYPE_CHECKING:
    from gpuyard.common.kube.resources import Resource

    from tests.cluster.yard import Json

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(of: Resource, scope: str = "Namespaced") -> Json:
    """The CustomResourceDefinition of one kind."""
    group, _, version = of.api_version.partition("/")
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": OPEN, "status": OPEN}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{of.plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": of.kind, "plural": of.plural, "singular": of.kind.lower(), "listKind": f"{of.kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def definitions() -> list[Json]:
    """All kinds that the extender reads and that are neither Kubernetes' own nor shipped."""
    owners = [definition(kind) for kind in KINDS.values() if kind is not JOBS]
    return [*owners, definition(TOPOLOGIES, "Cluster")]
