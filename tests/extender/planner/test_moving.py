"""A bare pod that is moved is made anew, once, as it was."""

from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.extender.planner.moving import MOVED_FROM, Found, bring_back, keep, made_anew

from tests.extender.planner.builders import Api

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

POD = "/api/v1/namespaces/ns/pods/b"
KEPT = "/apis/apps/v1/namespaces/ns/controllerrevisions/gpuyard-move-b"


def bare(**meta: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of metadata
    return {
        "metadata": {
            "name": "b",
            "namespace": "ns",
            "uid": "old",
            "resourceVersion": "7",
            "labels": {"kai.scheduler/queue": "team", "runai-gpu-group": "g"},
            "annotations": {"gpuyard.io/poke": "1", "note": "mine"},
            **meta,
        },
        "spec": {"nodeName": "n1", "priority": 50, "priorityClassName": "train", "containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def api() -> Api:
    made = Api()
    made.put(POD, bare())
    return made


def of(api: Api) -> "Client":
    return cast("Client", api)


def test_the_new_pod_is_the_old_one_without_what_the_cluster_gave_it() -> None:
    made = made_anew(bare())
    assert made["metadata"] == {
        "name": "b",
        "namespace": "ns",
        "labels": {"kai.scheduler/queue": "team"},
        "annotations": {"note": "mine", MOVED_FROM: "old"},
    }
    assert made["spec"] == {"priorityClassName": "train", "containers": [{"name": "main"}]}


async def test_its_spec_is_kept_before_it_goes(api: Api) -> None:
    assert await keep(of(api), "ns/b", "old", "plan")
    assert api.objects[KEPT]["data"] == made_anew(bare())


async def test_what_was_left_over_of_an_earlier_move_is_replaced(api: Api) -> None:
    api.put(KEPT, {"metadata": {"name": "x"}, "data": made_anew(bare(uid="older"))})
    assert await keep(of(api), "ns/b", "old", "plan")
    assert api.objects[KEPT]["data"]["metadata"]["annotations"][MOVED_FROM] == "old"


@pytest.mark.parametrize("meta", [{"ownerReferences": [{"uid": "job"}]}, {"uid": "newer"}])
async def test_what_has_an_owner_or_is_another_pod_is_not_ours_to_make(api: Api, meta: dict[str, Any]) -> None:
    api.put(POD, bare(**meta))
    assert not await keep(of(api), "ns/b", "old", "plan")
    assert KEPT not in api.objects


async def test_nothing_is_kept_of_a_pod_that_is_gone(api: Api) -> None:
    del api.objects[POD]
    assert not await keep(of(api), "ns/b", "old", "plan")


async def test_it_is_made_anew_once(api: Api) -> None:
    await keep(of(api), "ns/b", "old", "plan")
    del api.objects[POD]
    assert await bring_back(of(api), "ns/b", "old") is Found.MADE
    assert api.objects[POD]["metadata"]["annotations"][MOVED_FROM] == "old"
    assert KEPT not in api.objects
    assert await bring_back(of(api), "ns/b", "old") is Found.NOTHING


async def test_it_is_not_made_while_the_old_one_is_there(api: Api) -> None:
    await keep(of(api), "ns/b", "old", "plan")
    api.objects[POD]["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    assert await bring_back(of(api), "ns/b", "old") is Found.LEAVING
    assert KEPT in api.objects


async def test_who_has_come_to_its_end_by_itself_is_not_wanted_back(api: Api) -> None:
    await keep(of(api), "ns/b", "old", "plan")
    assert await bring_back(of(api), "ns/b", "old") is Found.NOTHING
    assert KEPT not in api.objects


async def test_after_a_crash_between_making_and_forgetting_nothing_is_made_twice(api: Api) -> None:
    await keep(of(api), "ns/b", "old", "plan")
    api.put(POD, made_anew(bare()) | {"metadata": made_anew(bare())["metadata"] | {"uid": "new"}})
    assert await bring_back(of(api), "ns/b", "old") is Found.NOTHING
    assert KEPT not in api.objects


async def test_what_is_kept_of_another_pod_of_that_name_is_left_alone(api: Api) -> None:
    await keep(of(api), "ns/b", "old", "plan")
    assert await bring_back(of(api), "ns/b", "much older") is Found.NOTHING
    assert KEPT in api.objects
