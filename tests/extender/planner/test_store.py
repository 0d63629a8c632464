"""Plan objects: written, read again after a restart, and kept for a while."""

from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.plans.plan import Event, Plan, Spec
from gpuyard.common.plans.store import Store

from tests.extender.planner.builders import Api, error, place, plan, victim

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

PLANS = "/apis/gpuyard.io/v1alpha1/plans"


@pytest.fixture
def api() -> Api:
    return Api()


def of(api: Api) -> Store:
    return Store(cast("Client", api))


def ended(name: str, second: int) -> Plan:
    return plan(name=name).ended(Event.SETTLED, "done", f"2026-01-01T00:00:{second:02}Z")


def put(api: Api, of: Plan) -> None:
    api.put(f"{PLANS}/{of.name}", msgspec.to_builtins(of))


async def test_what_is_written_is_read_again(api: Api) -> None:
    made = await of(api).create(plan(victim("b"), places=[place("a")]))
    assert made.metadata.uid
    (again,) = await of(api).load()
    assert (again.spec, again.metadata) == (made.spec, made.metadata)


async def test_only_plans_under_way_are_gone_on_with(api: Api) -> None:
    put(api, ended("old", 1))
    put(api, plan(name="new"))
    assert [one.name for one in await of(api).load()] == ["new"]


async def test_one_that_cannot_be_read_hides_no_other(api: Api) -> None:
    api.put(f"{PLANS}/broken", {"metadata": {"name": "broken"}, "spec": {"phase": 7}})
    put(api, plan(name="good"))
    assert [one.name for one in await of(api).load()] == ["good"]


async def test_without_the_crd_there_are_no_plans(api: Api) -> None:
    api.errors["list", PLANS] = error(404, "NotFound")
    assert await of(api).load() == []


async def test_any_other_refusal_is_an_error(api: Api) -> None:
    api.errors["list", PLANS] = error(403, "Forbidden")
    with pytest.raises(ApiError):
        await of(api).load()


async def test_how_far_it_has_come_is_written(api: Api) -> None:
    put(api, plan())
    await of(api).write_status(plan(evicted=["b"]))
    assert api.objects[f"{PLANS}/reclaim-1"]["status"]["evicted"] == ["uid-b"]


async def test_a_plan_that_somebody_deleted_is_not_missed(api: Api) -> None:
    await of(api).write_status(plan())


async def test_plans_of_other_writers_are_not_our_own(api: Api) -> None:
    put(api, msgspec.structs.replace(plan(name="theirs"), spec=Spec(phase="elastic")))
    assert await of(api).load() == []


async def test_a_plan_is_deleted_once(api: Api) -> None:
    made = await of(api).create(plan())
    await of(api).delete(made)
    await of(api).delete(made)
    assert api.objects == {}


async def test_another_plan_of_its_name_is_not_deleted(api: Api) -> None:
    made = await of(api).create(plan())
    await of(api).delete(made)
    await of(api).create(plan())
    await of(api).delete(made)
    assert len(api.objects) == 1


async def test_any_other_refusal_to_delete_is_an_error(api: Api) -> None:
    api.errors["delete", f"{PLANS}/reclaim-1"] = error(403, "Forbidden")
    with pytest.raises(ApiError):
        await of(api).delete(plan())
