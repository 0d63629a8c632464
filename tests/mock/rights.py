"""The rights in the manifests, and what the API server's audit log says was done with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from tests.mock.daemons import NAMESPACE, RIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from gpuyard.sandbox import Cluster

USER = f"system:serviceaccount:{NAMESPACE}:"
FORBIDDEN = 403
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts:gpuyard-mock"]}
- {level: None}
"""

Json = dict[str, Any]


class Right(NamedTuple):
    """What somebody may do; `resource` is `nodes/status` where it is a part of an object."""

    verb: str
    resource: str


class Use(NamedTuple):
    """One request of a component that the audit log tells of."""

    account: str
    right: Right
    name: str
    code: int


def documents() -> list[Json]:
    """All objects of rbac.yaml."""
    return [document for document in yaml.safe_load_all(RIGHTS.read_text()) if document]


def without(right: Right) -> list[Json]:
    """The roles of rbac.yaml that give this right, without it."""
    found = [
        document for document in documents() if document["kind"].endswith("Role") and right in set(_given(document))
    ]
    for document in found:
        for rule in document["rules"]:
            if right.resource in rule["resources"]:
                rule["verbs"] = [verb for verb in rule["verbs"] if verb != right.verb]
        document["rules"] = [rule for rule in document["rules"] if rule["verbs"]]
    return found


def granted() -> set[tuple[str, Right]]:
    """Every right of every account."""
    found = documents()
    roles = {(document["kind"], document["metadata"]["name"]): document for document in found if "rules" in document}
    return {
        (subject["name"], right)
        for document in found
        if "roleRef" in document
        for subject in document["subjects"]
        for right in _given(roles[document["roleRef"]["kind"], document["roleRef"]["name"]])
    }


def _given(role: Json) -> Iterator[Right]:
    for rule in role["rules"]:
        yield from (Right(verb, resource) for verb in rule["verbs"] for resource in rule["resources"])


class Audit:
    """The requests of the mock's accounts, read on from where the last reading ended."""

    def __init__(self, cluster: Cluster) -> None:
        self._log = cluster.audit_log
        self._read = 0

    def news(self) -> list[Use]:
        """What was not read yet."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            lines = log.readlines()
        whole = [line for line in lines if line.endswith(b"\n")]
        self._read += sum(map(len, whole))
        return list(_uses(map(json.loads, whole)))


def _uses(entries: Iterable[Json]) -> Iterator[Use]:
    for entry in entries:
        about, user = entry.get("objectRef"), entry["user"]["username"]
        if about and user.startswith(USER):
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            code = entry.get("responseStatus", {}).get("code", 0)
            yield Use(user.removeprefix(USER), Right(entry["verb"], resource), about.get("name", ""), code)


def policy(folder: Path) -> Path:
    """An audit policy that tells of the mock's accounts, Leases too, and of nobody else."""
    path = folder / "audit-policy.yaml"
    path.write_text(POLICY)
    return path
