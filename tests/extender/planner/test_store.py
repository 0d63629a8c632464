"""Plan objects: written, read again after a restart, and kept for a while."""

from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.plans import store
from gpuyard.common.plans.plan import Event, Plan
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


async def test_the_oldest_of_what_is_done_go(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "HISTORY", 2)
    for number, name in enumerate(("b", "a", "c")):
        put(api, ended(name, number))
    put(api, plan(name="d"))
    stored = of(api)
    await stored.load()
    await stored.write_status(ended("d", 9))
    assert sorted(path.rpartition("/")[2] for path in api.objects) == ["c", "d"]
