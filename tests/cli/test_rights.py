"""The rights that `gpuyard doctor` looks for are those that the extender is given."""

from pathlib import Path

import yaml
from gpuyard.cli.rights import NEEDED, Right, rights

BASE = Path(__file__).parents[2] / "manifests" / "base" / "extender"


def given() -> set[tuple[str, str, str]]:
    """Verb, group and resource of every rule that we ship."""
    texts = [*yaml.safe_load_all((BASE / "rbac.yaml").read_text())]
    return {
        (verb, group, resource)
        for one in texts
        for rule in one.get("rules", ())
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_what_is_looked_for_is_granted_by_what_we_ship() -> None:
    assert {(each.verb, each.group, each.resource) for each in rights()} <= given()


def test_every_kind_that_the_extender_may_write_is_looked_at() -> None:
    known = {(group, resource) for group, resources in NEEDED.items() for resource in resources}
    written = {(group, resource) for verb, group, resource in given() if verb not in ("get", "list", "watch")}
    assert written - known == {("coordination.k8s.io", "leases")}


def test_a_right_is_told_as_people_write_it() -> None:
    assert str(Right("create", "", "pods/eviction")) == "create pods/eviction"
    assert str(Right("get", "coordination.k8s.io", "leases", "gpuyard")) == (
        "get leases.coordination.k8s.io in namespace gpuyard"
    )
