"""Evictions that the API server refuses, which nobody can know before he asks: so a test stops between two of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpuyard.sandbox import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable

    Kubectl = Callable[..., str]

NAME = "hold-back"
API = "admissionregistration.k8s.io/v1"


def hold_back(kubectl: Kubectl, *names: str) -> None:
    """Let nobody evict these pods; those that were held back before may go."""
    kinds = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
    rule = {"expression": f"!(request.name in {json.dumps(names)})", "message": "it is held back"}
    specs = {
        "ValidatingAdmissionPolicy": {"matchConstraints": {"resourceRules": [kinds]}, "validations": [rule]},
        "ValidatingAdmissionPolicyBinding": {"policyName": NAME, "validationActions": ["Deny"]},
    }
    for kind, spec in specs.items():
        body = {"apiVersion": API, "kind": kind, "metadata": {"name": NAME}, "spec": spec}
        kubectl("apply", "-f", "-", stdin=json.dumps(body))


def is_held_back(kubectl: Kubectl, name: str, namespace: str = "default") -> bool:
    """Whether the API server refuses by now to evict a pod: a policy takes a moment."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction?dryRun=All"
    try:
        kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
    except SandboxError as error:
        return "held back" in str(error)
    return False


def let_go(kubectl: Kubectl) -> None:
    """Whoever was held back may be evicted."""
    kubectl("delete", "validatingadmissionpolicies,validatingadmissionpolicybindings", NAME)
