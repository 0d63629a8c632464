"""Who is poked, and what happens when that fails."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import pytest
from gpuyard.common.effects.poke import POKE
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.kube.errors import ApiError, KubeError, UnreachableError
from gpuyard.common.kube.resources import Address
from gpuyard.engine.model import Promise, Shape
from gpuyard.extender.ledger import NOT_SEEN_SENTENCE, Grant
from gpuyard.extender.waker import Waker

from tests.extender.builders import Bench, group, node, pod, queue

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
    return Waker(cast("Client", api), of.ledger, lambda: of.config.engine, now=lambda: of.now, today=lambda: 17.5)


async def names(of: Bench) -> list[str]:
    return [one.key async for one in waker(of, Api()).admissible()]


async def test_those_are_woken_who_would_all_pass_together() -> None:
    assert await names(bench(2, "a", "b", "c")) == ["ns/a", "ns/b"]


async def test_higher_priority_is_woken_first() -> None:
    of = bench(1, "a", "b")
    of.put(pod("b", "team", priorityClassName="inference"))
    assert await names(of) == ["ns/b"]


async def test_each_is_poked_once() -> None:
    of, api = bench(2, "a", "b", "c"), Api()
    await waker(of, api).look()
    await waker(of, api).look()
    assert [path for path, _ in api.patches] == ["/api/v1/namespaces/ns/pods/a", "/api/v1/namespaces/ns/pods/b"]
    assert api.patches[0][1] == {"metadata": {"uid": "uid-a", "annotations": {POKE: "17.500"}}}


async def test_for_whom_a_place_is_kept_is_poked() -> None:
    of, api = bench(0, "a", "b"), Api()
    of.ledger.promise("ns/b", Grant("n1"), now=0, until=60)
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
    of.now = 60
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


PROMISED = Promise(plan="plan-1", pod="ns/x", shape=Shape(gpus=8), node="n1")


def paths(api: Api) -> list[str]:
    return [path.rpartition("/")[2] for path, _ in api.patches]


async def test_a_reservation_that_nobody_confirms_lapses_though_nobody_asks() -> None:
    of, api = Bench(*NODES, queue("team", limit=1), pod("a", "team"), pod("b", "team")), Api()
    assert of.passes(pod("a", "team"))
    assert not of.passes(pod("b", "team"))
    of.now = 60
    await waker(of, api).look()
    assert paths(api) == ["b"]


async def test_freed_quota_is_not_spent_on_who_waits_for_something_else() -> None:
    gang = [pod(name, "", 8, annotations={"pod-group-name": "g"}, priorityClassName="inference") for name in "ab"]
    of = Bench(node("n1"), queue("team", limit=0), group("g", 2, "team"), *gang, last := pod("z", "team"))
    assert not of.passes(last)
    of.put(queue("team", limit=16))
    assert not any(of.passes(member) for member in gang), "there is no room for both"
    of.put(queue("team", limit=17))
    of.now = 5
    assert await names(of) == ["ns/z"]


async def test_a_pod_that_is_called_and_could_go_as_well_is_poked_once() -> None:
    of, api = bench(2, "a"), Api()
    of.ledger.wake("ns/a")
    await waker(of, api).look()
    assert paths(api) == ["a"]


async def test_whoever_waited_for_promised_room_is_woken_when_the_promise_is_over_governed_or_not() -> None:
    of, api = Bench(node("n1"), queue("team"), pod("a", "team", 8), pod("b", gpus=8)), Api()
    of.ledger.put_promises([PROMISED])
    assert not of.passes(pod("a", "team", 8))
    assert not of.passes(pod("b", gpus=8))
    await waker(of, api).look()
    assert not api.patches, "the promise stands"
    of.ledger.put_promises([])
    await waker(of, api).look()
    assert paths(api) == ["a", "b"]


async def test_a_namespace_that_names_another_queue_wakes_its_pods() -> None:
    config = ExtenderConfig(namespace_match="label")
    of, api = Bench(node("n1"), queue("team"), pod("a", "team"), config=config), Api()
    assert not of.passes(pod("a", "team"))
    named = {"kind": "Namespace", "metadata": {"name": "ns", "labels": {"kai.scheduler/queue": "team"}}}
    of.put(named)
    await waker(of, api).look()
    assert paths(api) == ["a"]


async def test_a_gang_refused_while_the_end_of_a_pod_was_not_yet_seen_is_woken() -> None:
    gang = [pod(name, "", 4, annotations={"pod-group-name": "g"}) for name in "ab"]
    of, api = (
        Bench(node("n1"), queue("team"), group("g", 2, "team"), *gang, running := pod("x", gpus=1, on="n1")),
        Api(),
    )
    assert not any(of.passes(member) for member in gang)
    of.now = 1
    of.drop(running)
    await waker(of, api).look()
    assert paths(api) == ["a", "b"]
    of.now = 100
    of.ledger.stir()
    await waker(of, api).look()
    assert len(api.patches) == 2


async def test_a_gang_refused_while_a_new_node_was_not_yet_seen_is_woken() -> None:
    gang = [pod(name, "", 8, annotations={"pod-group-name": "g"}) for name in "ab"]
    of, api = Bench(node("n1"), queue("team"), group("g", 2, "team"), *gang), Api()
    assert not any(of.passes(member, "n1", "n2") for member in gang)
    await waker(of, api).look()
    api.patches.clear()
    assert not any(of.passes(member, "n1", "n2") for member in gang)
    of.put(node("n2"))
    await waker(of, api).look()
    assert paths(api) == ["a", "b"]


async def test_whoever_was_called_takes_the_freed_quota_before_the_sleepers() -> None:
    of, api = bench(1, "a", "b"), Api()
    of.ledger.wake("ns/b")
    await waker(of, api).look()
    assert paths(api) == ["b"]


async def test_whoever_was_called_and_cannot_go_is_left_alone() -> None:
    of, api = bench(0, "a"), Api()
    of.ledger.wake("ns/a")
    await waker(of, api).look()
    assert not api.patches
    assert of.ledger.asleep


async def test_whoever_could_not_be_poked_in_time_is_remembered() -> None:
    of, api = bench(1, "a"), Api()
    api.error = UnreachableError("away")
    await waker(of, api).look()
    of.put(queue("team", limit=0))
    api.error = None
    await waker(of, api).look()
    of.put(queue("team", limit=1))
    await waker(of, api).look()
    assert paths(api) == ["a", "a"]


@pytest.mark.row("X-06")
async def test_a_pod_that_was_refused_unseen_is_woken_once_even_where_its_gates_are_shut() -> None:
    of, api = Bench(*NODES, queue("team", limit=0)), Api()
    of.put(pod("late", "team", verdict=f"0/2 nodes are available: 2 {NOT_SEEN_SENTENCE}."))
    made = waker(of, api)
    for _ in range(3):
        await made.look()
        of.ledger.stir()
    assert [path for path, _ in api.patches] == ["/api/v1/namespaces/ns/pods/late"]
