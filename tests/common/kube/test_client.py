"""Every call says what it means on the wire, ends in time, and turns a refusal into a value."""

import asyncio
import socket
import time
from contextlib import aclosing

import pytest
from gpuyard.common.kube.access import Access, Authorization
from gpuyard.common.kube.client import Client, Patch, Selector, Timeouts
from gpuyard.common.kube.errors import ApiError, FencedError, UnreachableError
from gpuyard.common.kube.forms import JSON, Form
from gpuyard.common.kube.protobuf import PROTOBUF
from gpuyard.common.kube.resources import NODES, PODS, Resource

from tests.common.kube.wire import Answer, Wire, client_of, refusal, status_of

POD = PODS.named("p", "ns")


async def test_an_object_is_read_from_its_path(wire: Wire, client: Client) -> None:
    wire.answers.append(Answer(body=b'{"metadata":{"name":"p"}}'))
    assert await client.get(POD) == {"metadata": {"name": "p"}}
    assert wire.requests[0].path == "/api/v1/namespaces/ns/pods/p"


async def test_a_collection_is_read_page_by_page(wire: Wire, client: Client) -> None:
    for number in range(7):
        await wire.put(f"p{number}")
    pages = [page async for page in client.pages(PODS.within(), limit=3)]
    assert [len(page.items or ()) for page in pages] == [3, 3, 1]
    assert len(await client.items(PODS.within())) == 7


async def test_selectors_travel_with_every_page(wire: Wire, client: Client) -> None:
    for number in range(2):
        await wire.put(f"p{number}")
    chosen = Selector(labels="app=x", fields="spec.nodeName=n1")
    assert [page async for page in client.pages(PODS.within(), chosen, limit=1)]
    assert [(r.query["labelSelector"], r.query["fieldSelector"]) for r in wire.requests] == [
        ("app=x", "spec.nodeName=n1")
    ] * 2


@pytest.mark.parametrize(
    ("form", "content_type"),
    [
        (Patch.MERGE, "application/merge-patch+json"),
        (Patch.STRATEGIC, "application/strategic-merge-patch+json"),
        (Patch.JSON, "application/json-patch+json"),
    ],
)
async def test_a_patch_says_how_it_is_meant(wire: Wire, client: Client, form: Patch, content_type: str) -> None:
    await client.patch(POD, {"metadata": {}}, form)
    assert (wire.requests[0].method, wire.requests[0].headers["Content-Type"]) == ("PATCH", content_type)


async def test_server_side_apply_names_its_manager(wire: Wire, client: Client) -> None:
    await client.apply(NODES.named("n1"), {"kind": "Node"}, manager="gpuyard-gfd")
    assert wire.requests[0].query == {"fieldManager": "gpuyard-gfd", "force": "true"}
    assert wire.requests[0].headers["Content-Type"] == "application/apply-patch+yaml"


async def test_an_eviction_is_created_below_its_pod(wire: Wire, client: Client) -> None:
    await client.create(POD.sub("eviction"), {"kind": "Eviction"})
    assert (wire.requests[0].method, wire.requests[0].path) == ("POST", "/api/v1/namespaces/ns/pods/p/eviction")
    assert wire.requests[0].json == {"kind": "Eviction"}


async def test_an_update_replaces_the_object(wire: Wire, client: Client) -> None:
    assert await client.update(POD, {"kind": "Pod"}) == {"kind": "Pod"}
    assert wire.requests[0].method == "PUT"


async def test_a_delete_can_insist_on_one_uid(wire: Wire, client: Client) -> None:
    await client.delete(POD, uid="u1", grace=0)
    assert wire.requests[0].json == {"preconditions": {"uid": "u1"}, "gracePeriodSeconds": 0}


async def test_a_delete_can_say_what_becomes_of_what_belongs_to_it(wire: Wire, client: Client) -> None:
    await client.delete(POD, propagation="Background")
    assert wire.requests[0].json == {"propagationPolicy": "Background"}


async def test_a_plain_delete_has_no_body(wire: Wire, client: Client) -> None:
    await client.delete(POD)
    assert wire.requests[0].body == b""


@pytest.mark.parametrize(
    ("status", "reason", "is_a"),
    [
        (404, "NotFound", "not_found"),
        (409, "Conflict", "conflict"),
        (409, "AlreadyExists", "already_exists"),
        (410, "Expired", "expired"),
        (429, "TooManyRequests", "busy"),
        (503, "ServiceUnavailable", "busy"),
    ],
)
async def test_a_refusal_is_a_value_with_its_kind(
    wire: Wire, client: Client, status: int, reason: str, is_a: str
) -> None:
    wire.answers.append(refusal(status, reason, "because"))
    with pytest.raises(ApiError) as caught:
        await client.get(POD)
    kinds = ["not_found", "conflict", "already_exists", "expired", "busy"]
    assert [kind for kind in kinds if getattr(caught.value, kind)] == [is_a]
    assert (caught.value.status, caught.value.reason, caught.value.message) == (status, reason, "because")


async def test_a_refusal_names_the_object_and_the_verb(wire: Wire, client: Client) -> None:
    wire.answers.append(refusal(403, "Forbidden", "pods is forbidden"))
    with pytest.raises(ApiError, match=r"^DELETE pods ns/p: pods is forbidden \(403 Forbidden\)$"):
        await client.delete(POD)


async def test_raw_bytes_are_checked_like_any_other_answer(wire: Wire, client: Client) -> None:
    wire.answers.append(refusal(500, "InternalError"))
    with pytest.raises(ApiError):
        await client.call("GET", POD)


async def test_a_refusal_without_a_status_object_shows_its_text(wire: Wire, client: Client) -> None:
    wire.answers.append(Answer(502, b"bad gateway"))
    with pytest.raises(ApiError, match=r"bad gateway \(502 Unknown\)"):
        await client.get(POD)


@pytest.mark.parametrize(
    "answer", [refusal(429, "TooManyRequests", retry_after=7), refusal(429, "TooManyRequests", header=7)]
)
async def test_the_patience_that_the_server_asks_for_is_kept(wire: Wire, client: Client, answer: Answer) -> None:
    wire.answers.append(answer)
    with pytest.raises(ApiError) as caught:
        await client.get(POD)
    assert caught.value.retry_after == 7


async def test_an_answer_that_is_no_json_is_not_taken_for_one(wire: Wire, client: Client) -> None:
    wire.answers.append(Answer(200, b"<html>log in</html>"))
    with pytest.raises(UnreachableError, match="is there a proxy in between"):
        await client.get(POD)


async def test_a_redirect_is_not_followed(wire: Wire, client: Client) -> None:
    wire.answers.append(Answer(302, b"", {"Location": wire.url}))
    with pytest.raises(ApiError):
        await client.get(POD)
    assert len(wire.requests) == 1


async def test_a_call_that_is_not_answered_ends_in_time(wire: Wire) -> None:
    wire.answers.append(Answer(after=3))
    async with client_of(wire, total=0.2) as client:
        with pytest.raises(UnreachableError, match=r"no answer in time to GET pods ns/p$"):
            await client.get(POD)


async def test_a_caller_may_set_a_shorter_limit_for_one_call(wire: Wire, client: Client) -> None:
    wire.answers.append(Answer(after=3))
    began = time.monotonic()
    with pytest.raises(UnreachableError):
        await client.call("GET", POD, total=0.2)
    assert time.monotonic() - began < 2


@pytest.mark.row("P-03")
async def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with Client(Access(f"http://127.0.0.1:{port}")) as client:
        with pytest.raises(
            UnreachableError, match=rf"127.0.0.1:{port}: cannot be reached for GET pods ns/p: connection refused$"
        ):
            await client.get(POD)


@pytest.mark.row("P-03")
async def test_a_server_whose_name_is_not_known_is_told_so() -> None:
    async with Client(Access("http://no-such-host.invalid")) as client:
        with pytest.raises(UnreachableError, match=r"the name no-such-host.invalid is not known$"):
            await client.get(POD)


@pytest.mark.row("B-34", case="silent-watch")
async def test_a_watch_that_is_silent_for_the_idle_time_ends_without_an_error(wire: Wire) -> None:
    async with client_of(wire, idle=0.2) as client, asyncio.timeout(10):
        assert [frames async for _, frames in client.watch(PODS.within(), {"resourceVersion": "100"})] == [[]]


@pytest.mark.row("B-34", case="silent-watch")
async def test_a_watch_that_is_not_answered_within_the_time_of_a_call_cannot_be_opened(wire: Wire) -> None:
    wire.answers.append(Answer(after=10))
    async with client_of(wire, total=0.2) as client, asyncio.timeout(5):
        with pytest.raises(UnreachableError, match="no answer in time"):
            await anext(client.watch(PODS.within(), {"resourceVersion": "100"}))


async def test_a_watch_may_last_longer_than_a_call(wire: Wire) -> None:
    async with (
        client_of(wire, total=0.2) as client,
        aclosing(client.watch(PODS.within(), {"resourceVersion": "100"})) as watch,
    ):
        await anext(watch)
        await asyncio.sleep(0.4)
        await wire.put("late")
        assert len((await anext(watch))[1]) == 1


async def test_each_event_moves_the_idle_time_on(wire: Wire) -> None:
    async def talk() -> None:
        for number in range(4):
            await asyncio.sleep(0.4)
            await wire.put(f"p{number}")

    lines: list[bytes] = []

    async def listen(client: Client) -> None:
        async for _, some in client.watch(PODS.within(), {"resourceVersion": "100"}):
            lines.extend(some)

    async with client_of(wire, idle=1) as client, asyncio.TaskGroup() as group:
        group.create_task(talk())
        await listen(client)
    assert len(lines) == 4


async def test_a_watch_line_of_five_mebibytes_arrives_whole(wire: Wire, client: Client) -> None:
    await wire.put("big", padding="x" * (5 << 20))
    watch = client.watch(PODS.within(), {"resourceVersion": "100"})
    assert await anext(watch) == (JSON, [])
    _, (line,) = await anext(watch)
    assert len(line) > 5 << 20


async def test_a_watch_asks_for_its_forms_the_best_first(wire: Wire, client: Client) -> None:
    async with aclosing(client.watch(PODS.within(), {"resourceVersion": "100"}, (PROTOBUF, JSON))) as watch:
        assert await anext(watch) == (JSON, [])
    assert wire.watches()[0].headers["Accept"] == "application/vnd.kubernetes.protobuf, application/json"
    await client.get(POD)
    assert wire.requests[-1].headers["Accept"] == "application/json"


@pytest.mark.parametrize("wished", [(JSON,), (PROTOBUF, JSON)])
@pytest.mark.parametrize("body", [refusal(429, "TooManyRequests", "later", retry_after=7).body, b"too many"])
async def test_a_refused_watch_says_why_in_any_form(
    wire: Wire, client: Client, wished: list[Form], body: bytes
) -> None:
    answer = Answer(429, status_of(body) if wished[0] is PROTOBUF else body, {"Content-Type": wished[0].media})
    wire.answers.append(answer)
    with pytest.raises(ApiError) as caught:
        await anext(client.watch(PODS.within(), {}, wished))
    told = caught.value
    if body.startswith(b"{"):
        assert (told.status, told.reason, told.message, told.retry_after) == (429, "TooManyRequests", "later", 7)
    else:
        assert (told.status, told.message) == (429, "too many")


async def test_an_object_of_five_mebibytes_is_read(wire: Wire, client: Client) -> None:
    await wire.put("big", padding="x" * (5 << 20))
    assert len((await client.items(PODS.within()))[0]["padding"]) == 5 << 20


async def test_an_object_of_five_mebibytes_is_written(wire: Wire, client: Client) -> None:
    await client.create(PODS.within("ns"), {"padding": "x" * (5 << 20)})
    assert int(wire.requests[0].headers["Content-Length"]) == len(wire.requests[0].body) > 5 << 20


async def test_a_rejected_token_is_fetched_anew(wire: Wire) -> None:
    tokens = iter(["Bearer old", "Bearer new"])

    async def fetch() -> str:
        return next(tokens)

    wire.answers.append(refusal(401, "Unauthorized"))
    async with Client(Access(wire.url, authorization=Authorization(fetch))) as client:
        with pytest.raises(ApiError):
            await client.get(POD)
        await client.get(POD)
    assert [r.headers["Authorization"] for r in wire.requests] == ["Bearer old", "Bearer new"]


async def test_the_agent_says_who_calls(wire: Wire) -> None:
    async with Client(Access(wire.url), agent="gpuyard-gfd") as client:
        await client.get(POD)
    assert wire.requests[0].headers["User-Agent"].startswith("gpuyard-gfd/")


async def test_a_fenced_client_sends_nothing_while_it_may_not(wire: Wire, client: Client) -> None:
    leading = False
    fenced = client.fenced(lambda: leading)
    with pytest.raises(FencedError, match="DELETE pods ns/p: not sent, we are not the leader any more"):
        await fenced.delete(POD)
    assert wire.requests == []
    leading = True
    await fenced.delete(POD)
    assert len(wire.requests) == 1


async def test_a_client_outside_its_context_says_how_it_is_used() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await Client(Access("http://127.0.0.1")).get(POD)


def test_connections_notice_a_vanished_peer_within_25_seconds() -> None:
    from gpuyard.common.kube.client import _socket  # noqa: PLC0415

    with _socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ())) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_KEEPIDLE"):
            wait, step, times = (
                made.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
                for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
            )
            assert wait + step * times <= 25


@pytest.mark.row("B-34", case="silent-watch")
def test_the_default_limits_leave_room_for_two_minutes_between_bookmarks() -> None:
    assert Timeouts().idle > 120


def test_paths_follow_the_api_groups() -> None:
    queues = Resource("scheduling.run.ai/v2", "queues", "Queue")
    assert queues.within().path == "/apis/scheduling.run.ai/v2/queues"
    assert queues.named("team-a").sub("status").path == "/apis/scheduling.run.ai/v2/queues/team-a/status"
    assert PODS.within("ns").path == "/api/v1/namespaces/ns/pods"
