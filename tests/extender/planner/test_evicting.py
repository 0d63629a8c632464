"""One eviction, and what the API server may say to it."""

from typing import TYPE_CHECKING, cast

import pytest
from gpuyard.common.effects.evict import Outcome, evict
from gpuyard.common.kube.errors import ApiError

from tests.extender.planner.builders import BUSY, CONFLICT, NOT_FOUND, TWO_BUDGETS, Api, error, victim

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

EVICTION = "/api/v1/namespaces/ns/pods/b/eviction"
POD = "/api/v1/namespaces/ns/pods/b"


def there(uid: str = "uid-b") -> Api:
    """An API server that has a pod of this name."""
    api = Api()
    api.put(POD, {"metadata": {"uid": uid}})
    return api


async def outcome(api: Api, *, honor_budgets: bool = True) -> Outcome:
    found, _ = await evict(cast("Client", api), victim("b"), honor_budgets=honor_budgets)
    return found


async def test_a_pod_is_evicted_through_the_eviction_api() -> None:
    api = Api()
    assert await outcome(api) is Outcome.ACCEPTED
    assert api.calls == [("create", EVICTION)]


async def test_without_budgets_it_is_deleted() -> None:
    api = there()
    assert await outcome(api, honor_budgets=False) is Outcome.ACCEPTED
    assert api.calls == [("delete", POD)]


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (NOT_FOUND, Outcome.GONE),
        (CONFLICT, Outcome.GONE),
        (BUSY, Outcome.LATER),
        (TWO_BUDGETS, Outcome.NEVER),
        (error(403, "Forbidden"), Outcome.LATER),
    ],
)
async def test_what_the_server_says_has_a_meaning(said: ApiError, means: Outcome) -> None:
    api = Api()
    api.errors["create", EVICTION] = said
    assert await outcome(api) is means


async def test_a_conflict_over_something_else_than_the_pod_is_no_sign_that_it_is_gone() -> None:
    api = there()
    api.errors["create", EVICTION] = CONFLICT
    assert await outcome(api) is Outcome.LATER


async def test_a_conflict_because_another_pod_has_its_name_means_that_it_is_gone() -> None:
    api = there("later")
    api.errors["create", EVICTION] = CONFLICT
    assert await outcome(api) is Outcome.GONE


async def test_after_a_conflict_a_pod_that_cannot_be_asked_about_may_be_there() -> None:
    api = there()
    api.errors["create", EVICTION] = CONFLICT
    api.errors["get", POD] = error(403, "Forbidden")
    assert await outcome(api) is Outcome.LATER
