"""Who is poked, and what happens when that fails."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.common.kube.errors import ApiError, KubeError, UnreachableError
from gpuyard.common.kube.resources import Address
from gpuyard.extender.waker import POKE, Waker, admissible

from tests.extender.builders import Bench, node, pod, queue

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

NODES = [node("n1"), node("n2")]


class Api:
    """Takes patches; fails where a test wants it to."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, Mapping[str, Any]]] = []
        self.error: KubeError | None = None

    async def patch(self, address: Address, body: Mapping[str, Any]) -> None:
        self.patches.append((address.path, body))
        if self.error:
            raise self.error


def bench(limit: float, *names: str) -> Bench:
    """Pods that were refused by a queue with a limit of 0, which has a higher one now."""
    made = Bench(*NODES, queue("team", limit=0), *[pod(name, "team") for name in names])
    for name in names:
        assert not made.passes(pod(name, "team"))
    made.ledger.take_news()
    made.put(queue("team", limit=limit))
    return made


def waker(of: Bench, api: Api) -> Waker:
    return Waker(cast("Client", api), of.ledger, lambda: of.config.engine, clock=lambda: 17.5)


def names(of: Bench) -> list[str]:
    return [one.key for one in admissible(of.ledger.snapshot, of.config.engine, of.ledger.asleep)]


def test_those_are_woken_who_would_all_pass_together() -> None:
    assert names(bench(2, "a", "b", "c")) == ["ns/a", "ns/b"]


def test_higher_priority_is_woken_first() -> None:
    of = bench(1, "a", "b")
    of.put(pod("b", "team", priorityClassName="inference"))
    assert names(of) == ["ns/b"]


async def test_each_is_poked_once() -> None:
    of, api = bench(2, "a", "b", "c"), Api()
    await waker(of, api).look()
    await waker(of, api).look()
    assert [path for path, _ in api.patches] == ["/api/v1/namespaces/ns/pods/a", "/api/v1/namespaces/ns/pods/b"]
    assert api.patches[0][1] == {"metadata": {"uid": "uid-a", "annotations": {POKE: "17.500"}}}


async def test_for_whom_a_place_is_kept_is_poked() -> None:
    of, api = bench(0, "a", "b"), Api()
    of.ledger.promise("ns/b", "n1", now=0, until=60)
    await waker(of, api).look()
    await waker(of, api).look()
    assert [path for path, _ in api.patches] == ["/api/v1/namespaces/ns/pods/b"]


async def test_nobody_is_poked_without_news() -> None:
    of, api = bench(2, "a"), Api()
    of.ledger.take_news()
    await waker(of, api).look()
    assert not api.patches


async def test_a_lapsed_reservation_wakes_the_next() -> None:
    of = Bench(*NODES, queue("team", limit=1), first := pod("a", "team"), second := pod("b", "team"))
    api = Api()
    assert of.passes(first)
    assert not of.passes(second)
    of.ledger.take_news()
    of.ledger.expire(1000)
    await waker(of, api).look()
    assert [path for path, _ in api.patches] == ["/api/v1/namespaces/ns/pods/b"]


@pytest.mark.parametrize("error", [UnreachableError("away"), ApiError("PATCH", 500, "InternalError", "broken")])
async def test_a_poke_that_fails_is_tried_again(error: KubeError) -> None:
    of, api = bench(1, "a"), Api()
    api.error = error
    await waker(of, api).look()
    api.error = None
    await waker(of, api).look()
    assert len(api.patches) == 2


@pytest.mark.parametrize("status", [404, 409])
async def test_a_pod_that_is_gone_or_another_one_now_is_left_alone(status: int) -> None:
    of, api = bench(1, "a"), Api()
    api.error = ApiError("PATCH", status, "", "")
    await waker(of, api).look()
    await waker(of, api).look()
    assert len(api.patches) == 1
