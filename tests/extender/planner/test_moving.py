"""A bare pod that is moved is made anew, once, as it was."""

from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.common.effects.move import (
    MOVED_FROM,
    Found,
    MovesAreOffError,
    bring_back,
    digest,
    forget,
    is_genuine,
    keep,
    left_over,
    made_anew,
)
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.plans.plan import Kept
from msgspec.structs import replace

from tests.extender.planner.builders import Api, error

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


async def saved(api: Api) -> Kept:
    """What is kept of the pod."""
    kept = await keep(of(api), "ns/b", "old", "plan", allowed=True)
    assert kept
    return kept


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
    kept = await saved(api)
    assert api.objects[KEPT]["data"] == made_anew(bare())
    assert is_genuine(api.objects[KEPT], kept)


async def test_what_was_left_over_of_an_earlier_move_is_replaced(api: Api) -> None:
    api.put(KEPT, {"metadata": {"name": "x"}, "data": made_anew(bare(uid="older"))})
    await saved(api)
    assert api.objects[KEPT]["data"]["metadata"]["annotations"][MOVED_FROM] == "old"


@pytest.mark.parametrize("meta", [{"ownerReferences": [{"uid": "job"}]}, {"uid": "newer"}])
async def test_what_has_an_owner_or_is_another_pod_is_not_ours_to_make(api: Api, meta: dict[str, Any]) -> None:
    api.put(POD, bare(**meta))
    assert await keep(of(api), "ns/b", "old", "plan", allowed=True) is None
    assert KEPT not in api.objects


async def test_nothing_is_kept_of_a_pod_that_is_gone(api: Api) -> None:
    del api.objects[POD]
    assert await keep(of(api), "ns/b", "old", "plan", allowed=True) is None


async def test_it_is_made_anew_once(api: Api) -> None:
    kept = await saved(api)
    del api.objects[POD]
    assert await bring_back(of(api), "ns/b", kept) is Found.MADE
    assert api.objects[POD]["metadata"]["annotations"][MOVED_FROM] == "old"
    assert KEPT not in api.objects
    assert await bring_back(of(api), "ns/b", kept) is Found.NOTHING


async def test_it_is_not_made_while_the_old_one_is_there(api: Api) -> None:
    kept = await saved(api)
    api.objects[POD]["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    assert await bring_back(of(api), "ns/b", kept) is Found.LEAVING
    assert KEPT in api.objects


async def test_who_has_come_to_its_end_by_itself_is_not_wanted_back(api: Api) -> None:
    kept = await saved(api)
    assert await bring_back(of(api), "ns/b", kept) is Found.NOTHING
    assert KEPT not in api.objects


async def test_after_a_crash_between_making_and_forgetting_nothing_is_made_twice(api: Api) -> None:
    kept = await saved(api)
    api.put(POD, made_anew(bare()) | {"metadata": made_anew(bare())["metadata"] | {"uid": "new"}})
    assert await bring_back(of(api), "ns/b", kept) is Found.NOTHING
    assert KEPT not in api.objects


async def test_a_bare_pod_is_not_kept_where_such_pods_are_not_moved(api: Api) -> None:
    with pytest.raises(MovesAreOffError, match="moveBarePods is off"):
        await keep(of(api), "ns/b", "old", "plan", allowed=False)
    assert KEPT not in api.objects


async def test_a_pod_with_an_owner_may_go_where_bare_pods_are_not_moved(api: Api) -> None:
    api.put(POD, bare(ownerReferences=[{"uid": "job"}]))
    assert await keep(of(api), "ns/b", "old", "plan", allowed=False) is None


# --- forged revisions ---


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})


def test_the_digest_tells_any_other_data_apart() -> None:
    privileged = made_anew(bare())
    privileged["spec"]["hostPID"] = True
    assert len({digest(made_anew(bare())), digest(privileged), digest(None)}) == 3


@pytest.mark.row("X-74")
@pytest.mark.parametrize(
    "forged", [{"metadata": {"uid": "other"}}, {"data": {"spec": {"hostPID": True}}}, {"data": None}]
)
async def test_nothing_is_created_from_a_revision_that_is_not_the_kept_one(api: Api, forged: dict[str, Any]) -> None:
    kept = await saved(api)
    del api.objects[POD]
    api.objects[KEPT] |= forged
    assert await bring_back(of(api), "ns/b", kept) is Found.FORGED
    assert api.wrote("create")[1:] == []


async def test_a_forged_revision_is_of_no_interest_once_a_pod_of_that_name_is_there(api: Api) -> None:
    kept = replace(await saved(api), digest="another")
    assert await bring_back(of(api), "ns/b", kept) is Found.NOTHING


async def test_a_forged_revision_is_not_overlooked_while_the_old_pod_is_still_leaving(api: Api) -> None:
    kept = replace(await saved(api), digest="another")
    api.objects[POD]["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    assert await bring_back(of(api), "ns/b", kept) is Found.LEAVING


async def test_a_deleted_revision_is_noticed(api: Api) -> None:
    kept = await saved(api)
    del api.objects[POD], api.objects[KEPT]
    assert await bring_back(of(api), "ns/b", kept) is Found.LOST


async def test_only_the_very_revision_that_was_kept_is_deleted(api: Api) -> None:
    kept = replace(await saved(api), revision="of before")
    await forget(of(api), "ns/b", kept)
    assert KEPT in api.objects


# --- pods of which the plan says nothing ---


async def test_a_revision_of_which_the_plan_says_nothing_is_found_once_the_old_pod_is_gone(api: Api) -> None:
    await saved(api)
    api.objects[POD]["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    assert await left_over(of(api), "ns/b", "old") is Found.LEAVING
    del api.objects[POD]
    assert await left_over(of(api), "ns/b", "old") is Found.UNRECORDED
    assert KEPT in api.objects


async def test_such_a_revision_is_of_no_interest_once_a_pod_of_that_name_is_there(api: Api) -> None:
    await saved(api)
    api.put(POD, bare(uid="new"))
    assert await left_over(of(api), "ns/b", "old") is Found.NOTHING


async def test_without_a_revision_nothing_was_left_over(api: Api) -> None:
    del api.objects[POD]
    assert await left_over(of(api), "ns/b", "old") is Found.NOTHING


async def test_where_revisions_may_not_be_read_nothing_is_known_and_any_other_failure_is_told(api: Api) -> None:
    del api.objects[POD]
    api.errors["get", KEPT] = error(403, "Forbidden")
    assert await left_over(of(api), "ns/b", "old") is Found.UNREADABLE
    api.errors["get", KEPT] = error(500, "InternalError")
    with pytest.raises(ApiError):
        await left_over(of(api), "ns/b", "old")
