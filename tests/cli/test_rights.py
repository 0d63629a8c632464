"""The rights that `gpuyard doctor` looks for are those that the extender is given."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
import yaml
from gpuyard.cli.findings import Finding
from gpuyard.cli.patient import ACCOUNT, NAMESPACE, SERVICE_ACCOUNTS, Patient
from gpuyard.cli.rights import Right, granted, needed, rights
from gpuyard.cli.schemas import CRDS
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import CONFIG_MAPS, Address
from gpuyard.engine.model.settings import Settings

from tests.engine.kube.written import Json

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

MANIFESTS = Path(__file__).parents[2] / "manifests"
BASE, OVERLAYS = MANIFESTS / "base" / "extender", MANIFESTS / "overlays"
LAYERS = ("move-bare-pods", "ignore-budgets")


def given() -> set[tuple[str, str, str]]:
    """Verb, group and resource of every rule that is bound for an extender with the settings that need all layers."""
    return bound(*LAYERS)


def bound(*layers: str) -> set[tuple[str, str, str]]:
    """Verb, group and resource of every rule that the base and these overlays bind to the extender's account."""
    files = [BASE / "rbac.yaml", *(OVERLAYS / layer / "rbac.yaml" for layer in layers)]
    things = [thing for file in files for thing in yaml.safe_load_all(file.read_text())]
    bindings = [thing for thing in things if thing["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert all([one["name"] for one in binding["subjects"]] == [ACCOUNT] for binding in bindings)
    roles = {(binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings}
    return {
        (verb, group, resource)
        for one in things
        if (one["kind"], one["metadata"]["name"]) in roles
        for rule in one["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


EVERYTHING = Settings(move_bare_pods=True, honor_disruption_budgets=False)


def names(wanted: Iterable[Right]) -> set[tuple[str, str, str]]:
    return {(each.verb, each.group, each.resource) for each in wanted}


def test_what_is_looked_for_is_all_that_we_ship_and_no_more() -> None:
    assert names(needed(EVERYTHING)) == given()


@pytest.mark.row("X-81")
def test_each_layer_of_rights_is_what_its_setting_needs_and_no_more() -> None:
    assert names(rights()) == bound()
    assert names(needed(Settings(move_bare_pods=True))) == bound("move-bare-pods")
    assert names(needed(Settings(honor_disruption_budgets=False))) == bound("ignore-budgets")


@pytest.mark.row("X-81")
def test_without_a_layer_nobody_can_create_or_delete_pods_or_see_what_is_not_of_its_work() -> None:
    verbs_on_pods = {verb for verb, _, resource in bound() if resource == "pods"}
    assert verbs_on_pods == {"get", "list", "watch", "patch"}
    assert not {resource for _, _, resource in given()} & {"secrets", "controllerrevisions/status", "pods/exec"}
    assert "controllerrevisions" not in {resource for _, _, resource in bound()}


def test_a_right_is_told_as_people_write_it() -> None:
    assert str(Right("create", "", "pods/eviction")) == "create pods/eviction"
    assert str(Right("get", "coordination.k8s.io", "leases", "gpuyard")) == (
        "get leases.coordination.k8s.io in namespace gpuyard"
    )


# --- an API server that grants some of them ---


class Api:
    """It reviews rights, and has these CRDs and this setting of the extender."""

    def __init__(self, denied: tuple[str, ...], crds: tuple[str, ...], config: str) -> None:
        self.denied = denied
        found: dict[Address, Json] = {CRDS.named(name): {} for name in crds}
        text = f"apiVersion: gpuyard.io/v1alpha1\nkind: ExtenderConfig\n{config}"
        self.found = found | {
            SERVICE_ACCOUNTS.named(ACCOUNT, NAMESPACE): {},
            CONFIG_MAPS.named("gpuyard-extender", "gpuyard"): {"data": {"extender.yaml": text}},
        }

    async def items(self, _address: Address) -> list[Json]:
        return []

    async def get(self, address: Address) -> Json:
        if address not in self.found:
            raise ApiError(address.about, 404, "NotFound", "not there")
        return self.found[address]

    async def create(self, _address: Address, body: Json) -> Json:
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        return {"status": {"allowed": f"{asked['verb']} {resource}" not in self.denied}}


async def look(*denied: str, crds: tuple[str, ...] = (), config: str = "") -> list[Finding]:
    patient = Patient(cast("Client", Api(denied, crds, config)))
    await patient.look()
    return await granted(patient)


async def test_who_may_do_all_is_well() -> None:
    [found] = await look()
    assert (found.status, found.seen.endswith(f"may do all {len([*rights()])} things")) == ("ok", True)


async def test_an_eviction_needs_the_right_to_get_pods() -> None:
    [found] = await look("get pods")
    assert (found.status, found.seen.endswith(" may not get pods")) == ("fail", True)


@pytest.mark.parametrize(
    ("denied", "crd", "told"),
    [
        ("watch jobs", "", "watch jobs.batch"),
        ("list pytorchjobs", "pytorchjobs.kubeflow.org", "list pytorchjobs.kubeflow.org"),
    ],
)
async def test_owners_that_may_not_be_read_are_told_with_what_becomes_of_gangs(
    denied: str, crd: str, told: str
) -> None:
    [found] = await look(denied, crds=(crd,))
    assert (found.status, found.seen.endswith(f" may not {told}: gangs of these start pod by pod")) == ("warn", True)


async def test_owners_of_which_the_cluster_has_no_kind_need_not_be_read() -> None:
    [found] = await look("list pytorchjobs", "watch pytorchjobs")
    assert (found.status, found.seen.endswith(f"may do all {len([*rights()]) - 2} things")) == ("ok", True)


@pytest.mark.row("X-80", case="default")
async def test_by_default_neither_creating_nor_deleting_pods_is_asked_about() -> None:
    [found] = await look("delete pods", "create pods", "get controllerrevisions")
    assert found.status == "ok"


@pytest.mark.row("X-80", case="past-budgets")
async def test_pods_are_deleted_only_where_budgets_do_not_hold() -> None:
    [found] = await look("delete pods", config="honorDisruptionBudgets: false")
    assert (found.status, found.seen) == (
        "fail",
        f"ServiceAccount gpuyard/{ACCOUNT} may not delete pods, which honorDisruptionBudgets: false needs",
    )
    assert "overlays/ignore-budgets" in found.remedy


@pytest.mark.row("X-80", case="move-bare-pods")
async def test_pods_are_created_only_where_bare_pods_are_moved() -> None:
    [found] = await look("create pods", "delete controllerrevisions", config="moveBarePods: true")
    lacking = "create pods, delete controllerrevisions.apps"
    assert (found.status, found.seen) == (
        "fail",
        f"ServiceAccount gpuyard/{ACCOUNT} may not {lacking}, which moveBarePods: true needs",
    )
    assert "overlays/move-bare-pods" in found.remedy
