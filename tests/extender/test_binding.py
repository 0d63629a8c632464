"""`bind`: what is asked of the API server, and what counts before and after its answer."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from gpuyard.common.extender_config import ExtenderConfig
from gpuyard.common.kube.errors import ApiError, KubeError, UnreachableError
from gpuyard.common.kube.resources import Address
from gpuyard.extender.http.server import Unavailable
from gpuyard.extender.http.wire import BINDING, Binding
from gpuyard.extender.ledger import NOT_SEEN_SENTENCE
from gpuyard.extender.verbs.binding import NO_WAY, Binder

from tests.extender.builders import Bench, Json, node, pod, queue

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

HALF = {"gpu-fraction": "0.5"}
CONFLICT = ApiError("POST pods/p/binding", 409, "Conflict", "already assigned")
GONE = ApiError("POST pods/p/binding", 404, "NotFound", "no such pod")


class Api:
    """Takes bindings; fails where a test wants it to, and then shows the pod as the test wants."""

    def __init__(self) -> None:
        self.bindings: list[Json] = []
        self.error: KubeError | None = None
        self.found: Json | KubeError = GONE

    async def create(self, address: Address, body: Mapping[str, Any]) -> None:
        assert address.path == f"/api/v1/namespaces/ns/pods/{body['metadata']['name']}/binding"
        self.bindings.append(dict(body))
        if self.error:
            raise self.error

    async def get(self, _address: Address) -> Json:
        if isinstance(self.found, KubeError):
            raise self.found
        return self.found


def shown(uid: str, on: str) -> Json:
    return {"metadata": {"uid": uid}, "spec": {"nodeName": on}}


def binder(of: Bench, api: Api) -> Binder:
    made = Binder(
        of.ledger,
        of.verbs.may_bind,
        of.verbs.strategy,
        unavailable=lambda: Unavailable(of.unavailable) if of.unavailable else None,
        clock=lambda: of.now,
    )
    made.client = cast("Client", api)
    return made


def asked(name: str = "p", on: str = "n1", uid: str = "") -> Binding:
    body = {"PodName": name, "PodNamespace": "ns", "PodUID": uid or f"uid-{name}", "Node": on}
    return BINDING.read(msgspec.json.encode(body))


@pytest.fixture
def of() -> Bench:
    """A pod that takes its queue's only GPU, and was let through."""
    made = Bench(node("n1"), node("n2"), queue("team", limit=1), pod("p", "team"))
    assert made.passes(pod("p", "team"))
    return made


async def test_the_api_server_is_asked_for_this_very_pod(of: Bench) -> None:
    api = Api()
    assert (await binder(of, api).bind(asked())).error == ""
    metadata = {"name": "p", "namespace": "ns", "uid": "uid-p", "labels": {}}
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert api.bindings == [{"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}]


async def test_a_bound_pod_counts_on_its_node_before_the_watch_shows_it(of: Bench) -> None:
    await binder(of, Api()).bind(asked())
    assert of.ledger.snapshot.room["n1"].idle == 7
    assert of.used("team") == 1


async def test_a_pod_that_is_bound_there_already_is_one_more_success(of: Bench) -> None:
    api = Api()
    of.put(pod("p", "team", on="n1"))
    assert (await binder(of, api).bind(asked())).error == ""
    assert (await binder(of, api).bind(asked(on="n2"))).error == "pod ns/p is bound to node n1 already"
    assert not api.bindings


async def test_a_binding_made_before_the_watch_could_show_it_is_a_success(of: Bench) -> None:
    api = Api()
    api.error, api.found = CONFLICT, shown("uid-p", "n1")
    assert (await binder(of, api).bind(asked())).error == ""
    assert of.used("team") == 1


@pytest.mark.parametrize(
    ("error", "found", "sentence"),
    [
        (CONFLICT, shown("uid-p", "n2"), "bound to node n2 already"),
        (CONFLICT, shown("uid-new", ""), "already assigned"),
        (GONE, GONE, "no such pod"),
    ],
)
async def test_a_binding_that_failed_gives_back_what_was_reserved(
    of: Bench, error: ApiError, found: Json | KubeError, sentence: str
) -> None:
    api = Api()
    api.error, api.found = error, found
    assert sentence in (await binder(of, api).bind(asked())).error
    assert of.used("team") == 0
    assert of.ledger.snapshot.room["n1"].idle == 8


async def test_a_binding_whose_outcome_nobody_knows_counts_on(of: Bench) -> None:
    api = Api()
    api.error = UnreachableError("no answer in time")
    assert (await binder(of, api).bind(asked())).error == "no answer in time"
    assert of.used("team") == 1
    of.now = 60
    of.ledger.expire(of.now)
    assert of.used("team") == 0


async def test_what_cannot_be_looked_at_again_is_told_with_both_causes(of: Bench) -> None:
    api = Api()
    api.error, api.found = CONFLICT, UnreachableError("away")
    answer = (await binder(of, api).bind(asked())).error
    assert "already assigned" in answer
    assert "away" in answer
    assert of.used("team") == 1


@pytest.mark.row("X-10", case="unknown")
@pytest.mark.parametrize("request_", [asked(uid="uid-old"), asked("other")])
async def test_a_pod_that_the_watch_does_not_show_is_not_bound(of: Bench, request_: Binding) -> None:
    api = Api()
    assert (await binder(of, api).bind(request_)).error == NOT_SEEN_SENTENCE
    assert not api.bindings
    assert of.used("team") == 1, "that of the pod that there is"


@pytest.mark.row("X-10", case="unknown")
async def test_a_pod_that_the_watch_shows_a_moment_later_is_bound(of: Bench) -> None:
    api = Api()
    bound = asyncio.ensure_future(binder(of, api).bind(asked("late")))
    await asyncio.sleep(0)
    of.put(pod("late"))
    assert (await bound).error == ""


@pytest.mark.row("X-10", case="other-node")
@pytest.mark.parametrize("node_", ["n2", "invented"])
async def test_a_pod_is_bound_only_to_a_node_that_it_was_let_through_to_or_may_have(of: Bench, node_: str) -> None:
    api = Api()
    of.filter(pod("p", "team"), "n1")
    of.put(pod("full", gpus=8, on="n2"))
    assert (await binder(of, api).bind(asked(on=node_))).error
    assert not api.bindings


@pytest.mark.row("X-10", case="other-node")
async def test_a_pod_is_not_bound_to_a_free_node_that_it_was_not_let_through_to(of: Bench) -> None:
    api = Api()
    of.filter(pod("p", "team"), "n1")
    assert "was not let through to node n2" in (await binder(of, api).bind(asked(on="n2"))).error
    assert not api.bindings


@pytest.mark.row("X-10", case="lapsed")
async def test_a_pod_whose_grant_has_lapsed_is_bound_if_its_gates_and_the_room_allow_it_now(of: Bench) -> None:
    api = Api()
    of.ledger.expire(60)
    assert (await binder(of, api).bind(asked())).error == ""
    of.ledger.lapse("ns/p", "uid-p")
    assert of.passes(pod("faster", "team"))
    assert (await binder(of, api).bind(asked())).error == "queue team has a limit of 1 GPU"
    assert len(api.bindings) == 1


@pytest.mark.row("X-10", case="adopted")
async def test_a_pod_adopted_from_a_former_leader_is_checked_before_it_is_bound() -> None:
    of, api = Bench(node("n1"), queue("team"), pod("p", "team")), Api()
    of.feed.adopt(lambda _: 60)
    of.put(queue("team", limit=0))
    assert (await binder(of, api).bind(asked())).error == "queue team has a limit of 0 GPUs"
    of.put(queue("team"))
    assert (await binder(of, api).bind(asked())).error == ""


@pytest.mark.row("X-10", case="ungoverned")
async def test_a_pod_that_no_queue_governs_needs_no_reservation() -> None:
    of, api = Bench(node("n1"), pod("p")), Api()
    assert (await binder(of, api).bind(asked())).error == ""


@pytest.mark.row("X-10", case="ungoverned")
async def test_a_pod_without_a_queue_is_not_bound_where_it_has_to_name_one_nor_to_an_unknown_node() -> None:
    of, api = Bench(node("n1"), pod("p")), Api()
    assert (await binder(of, api).bind(asked(on="invented"))).error == "gpuyard knows no node invented"
    of.config = ExtenderConfig(pods_without_queue="refuse")
    assert (await binder(of, api).bind(asked())).error
    assert not api.bindings


async def test_a_pod_that_has_ended_is_not_bound(of: Bench) -> None:
    api = Api()
    of.put(pod("p", "team", phase="Failed"))
    assert "has ended" in (await binder(of, api).bind(asked())).error
    assert not api.bindings


async def test_parts_of_gpus_are_bound_with_the_names_of_their_gpus() -> None:
    halves = [pod(name, "team", 0, annotations=HALF) for name in "abc"]
    two = pod("two", "team", 0, annotations=HALF | {"gpu-fraction-num-devices": "2"})
    of, api = Bench(node("n1", 4), queue("team"), *halves, two), Api()
    for one in (*halves, two):
        assert of.passes(one)
        assert (await binder(of, api).bind(asked(one["metadata"]["name"]))).error == ""
    assert [body["metadata"]["labels"] for body in api.bindings] == [
        {"runai-gpu-group": "gpu-0"},
        {"runai-gpu-group": "gpu-0"},
        {"runai-gpu-group": "gpu-1"},
        {"runai-gpu-group/gpu-1": "gpu-1", "runai-gpu-group/gpu-2": "gpu-2"},
    ]


async def test_without_room_for_its_part_a_pod_is_not_bound() -> None:
    of, api = Bench(node("n1", 1), node("n2", 1), queue("team"), half := pod("p", "team", 0, annotations=HALF)), Api()
    assert of.passes(half)
    of.put(pod("x", on="n1"))
    assert (await binder(of, api).bind(asked())).error == "node n1 has no GPU with room for this part any more"
    assert of.used("team") == 0
    assert not api.bindings


async def test_nothing_is_bound_while_nothing_can_be_decided(of: Bench) -> None:
    made = binder(of, Api())
    made.client = None
    with pytest.raises(Unavailable, match=NO_WAY):
        await made.bind(asked())
    of.unavailable = "not yet"
    with pytest.raises(Unavailable, match="not yet"):
        await made.bind(asked())
