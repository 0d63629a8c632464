"""The rights that `gpuyard doctor` looks for are those that the extender is given."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
import yaml
from gpuyard.cli.findings import Finding
from gpuyard.cli.patient import ACCOUNT, NAMESPACE, SERVICE_ACCOUNTS, Patient
from gpuyard.cli.rights import PAST_BUDGETS, Right, granted, rights
from gpuyard.cli.schemas import CRDS
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import CONFIG_MAPS, Address

from tests.engine.kube.written import Json

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

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


def test_what_is_looked_for_is_all_that_we_ship_and_no_more() -> None:
    assert {(each.verb, each.group, each.resource) for each in (*rights(), PAST_BUDGETS)} == given()


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
        return {"status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.denied}}


async def look(*denied: str, crds: tuple[str, ...] = (), config: str = "") -> list[Finding]:
    patient = Patient(cast("Client", Api(denied, crds, config)))
    await patient.look()
    return await granted(patient)


async def test_who_may_do_all_is_well() -> None:
    [found] = await look()
    assert (found.status, found.seen.endswith(f"may do all {len([*rights()])} things")) == ("ok", True)


async def test_a_move_needs_the_right_to_get_pods() -> None:
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


@pytest.mark.parametrize(("config", "status"), [("", "ok"), ("honorDisruptionBudgets: false", "fail")])
async def test_pods_are_deleted_only_where_budgets_do_not_hold(config: str, status: str) -> None:
    assert [each.status for each in await look("delete pods", config=config)] == [status]
