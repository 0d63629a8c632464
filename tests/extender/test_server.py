"""The verbs over HTTP: always 200, always an answer of the verb's own form."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import pytest
from gpuyard.extender.http.authentication import NO_TOKENS, Gate
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.http.server import INTERNAL, Server, Unavailable, Verb
from gpuyard.extender.http.wire import (
    BINDING,
    CANDIDATES,
    PREEMPTION,
    Answer,
    BindAnswer,
    FilterAnswer,
    PreemptAnswer,
)
from gpuyard.extender.verbs.binding import Binder
from prometheus_client import CollectorRegistry

from tests.extender.builders import Bench, Json, anybody, node, pod, queue, typed

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client
    from gpuyard.common.kube.resources import Address

Calls = aiohttp.ClientSession

NODES = [node(f"n{number}") for number in range(1, 5)]
KNOWN = pod("p", "team")
MIB = 1 << 20


class Api:
    """Takes bindings."""

    def __init__(self) -> None:
        self.bindings: list[tuple[str, Any]] = []

    async def create(self, address: "Address", body: Any) -> None:  # noqa: ANN401 - JSON
        self.bindings.append((address.path, body))


class Service:
    """The application over a bench."""

    def __init__(self, *things: Json) -> None:
        self.bench = Bench(*things)
        self.registry = CollectorRegistry()
        self.api = Api()
        self.binder = Binder(
            self.bench.ledger,
            self.bench.verbs.may_bind,
            self.bench.verbs.strategy,
            unavailable=lambda: None,
            clock=lambda: self.bench.now,
        )
        self.binder.client = cast("Client", self.api)
        self.gate = anybody()

    @asynccontextmanager
    async def client(self, max_body: int = MIB) -> AsyncIterator[Calls]:
        verbs: list[Verb[Any]] = [
            Verb("filter", CANDIDATES, self.bench.verbs.filter, lambda why: FilterAnswer(error=why)),
            Verb("prioritize", CANDIDATES, self.bench.verbs.prioritize, lambda _: []),
            Verb("preempt", PREEMPTION, self.bench.verbs.preempt, lambda _: PreemptAnswer()),
            Verb("bind", BINDING, self.binder.bind, BindAnswer),
        ]
        served = Server(verbs, VerbMetrics(self.registry), self.gate, max_body).listening(0, "127.0.0.1")
        async with served as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            yield session


@pytest.fixture
def service() -> Service:
    return Service(*NODES, queue("team", limit=8), KNOWN)


@pytest.fixture
async def client(service: Service) -> AsyncIterator[Calls]:
    async with service.client() as calls:
        yield calls


def body(pod: Json, *names: str) -> Json:
    return {"Pod": pod, "Nodes": None, "NodeNames": list(names or ("n1", "n2", "n3", "n4"))}


async def ask(client: Calls, verb: str, content: object) -> Any:  # noqa: ANN401 - JSON
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    response = await client.post(
        f"/scheduler/{verb}", data=io.BytesIO(raw), headers={"Content-Type": "application/json"}
    )
    assert response.status == 200
    assert response.content_type == "application/json"
    assert "Content-Length" in response.headers
    return await response.json()


def spelt_small(content: Json) -> Json:
    return {key.lower(): value for key, value in content.items()}


@pytest.mark.row("E-03", case="filter")
async def test_filter_reads_names_in_lower_case(client: Calls) -> None:
    assert (await ask(client, "filter", spelt_small(body(KNOWN))))["NodeNames"]


@pytest.mark.row("E-03", case="prioritize")
async def test_prioritize_reads_names_in_lower_case(client: Calls) -> None:
    answer = await ask(client, "prioritize", spelt_small(body(KNOWN)))
    assert {one["Host"] for one in answer} == {"n1", "n2", "n3", "n4"}


@pytest.mark.row("E-03", case="bind")
async def test_bind_reads_names_in_lower_case(service: Service, client: Calls) -> None:
    answer = await ask(client, "bind", {"podname": "p", "podnamespace": "ns", "poduid": "uid-p", "node": "n1"})
    assert answer == {"Error": ""}
    ((path, binding),) = service.api.bindings
    assert path == "/api/v1/namespaces/ns/pods/p/binding"
    assert (binding["metadata"]["uid"], binding["target"]["name"]) == ("uid-p", "n1")


@pytest.mark.row("E-09")
async def test_two_hundred_calls_at_once_for_eight_units_get_exactly_eight(service: Service, client: Calls) -> None:
    service.bench.put(*[pod(f"p{number}", "team") for number in range(200)])
    calls = (ask(client, "filter", body(pod(f"p{number}", "team"))) for number in range(200))
    answers = await asyncio.gather(*calls)
    assert sum(bool(answer["NodeNames"]) for answer in answers) == 8
    assert service.bench.used("team") == 8


JUNK = {
    "malformed": [b"", b"{", b"[]", b"null", b'{"Pod":', b"\xff\xfe", b"[" * 100_000],
    "missing-pod": [b"{}", b'{"NodeNames":["n1"]}', b'{"Pod":null,"NodeNames":["n1"]}'],
    "junk": [b"x" * (5 * MIB), b'{"a":"' + b"y" * (5 * MIB) + b'"}'],
}
CASES = [pytest.param(junk, marks=pytest.mark.row("E-13", case=case)) for case, junk in JUNK.items()]


@pytest.mark.parametrize("junk", CASES)
async def test_nonsense_is_answered_and_changes_nothing(junk: list[bytes]) -> None:
    low = pod("low", "team", 8, on="n1", labels={"priorityClassName": "train"})
    service = Service(*NODES, queue("team", limit=16), low, KNOWN, HIGH)
    before = service.bench.ledger.snapshot
    async with service.client(max_body=64 * MIB) as client:
        for nonsense in junk:
            assert (await ask(client, "filter", nonsense))["Error"]
            assert await ask(client, "prioritize", nonsense) == []
            assert await ask(client, "preempt", nonsense) == {"NodeNameToMetaVictims": {}}
            assert (await ask(client, "bind", nonsense))["Error"]
        assert service.bench.ledger.snapshot is before
        assert service.api.bindings == []
        assert (await ask(client, "filter", body(KNOWN)))["NodeNames"]
        assert (await ask(client, "preempt", whom()))["NodeNameToMetaVictims"]


HIGH = pod("high", "team", 4, labels={"priorityClassName": "build-preemptible"})


def whom() -> Json:
    """A proposal that `preempt` grants: a pod may take the GPUs of one with a lower priority."""
    return {
        "Pod": HIGH,
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 0}},
    }


@pytest.mark.row("E-24", case="over-limit")
async def test_a_body_that_is_too_long_is_refused_and_the_next_is_answered(client: Calls) -> None:
    answer = await ask(client, "filter", b"x" * (2 * MIB))
    assert "longer" in answer["Error"]
    assert (await ask(client, "filter", body(KNOWN)))["NodeNames"]


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(1_000, marks=pytest.mark.row("E-24", case="1000-nodes")),
        pytest.param(5_000, marks=pytest.mark.row("E-24", case="5000-nodes")),
    ],
)
async def test_thousands_of_whole_nodes_are_answered(service: Service, count: int) -> None:
    many = [node(f"w{number}") for number in range(count)]
    service.bench.put(*many)
    padded = [one | {"padding": "x" * 5_300} for one in many]
    async with service.client(max_body=64 * MIB) as client:
        answer = await ask(client, "filter", {"Pod": KNOWN, "Nodes": {"items": padded}})
    assert len(answer["Nodes"]["items"]) == 32
    assert answer["Nodes"]["items"][0]["padding"] == "x" * 5_300


async def test_what_cannot_be_decided_now_is_said_in_the_answer(service: Service, client: Calls) -> None:
    service.bench.unavailable = "gpuyard is starting"
    assert (await ask(client, "filter", body(KNOWN)))["Error"] == "gpuyard is starting"
    assert await ask(client, "prioritize", body(KNOWN)) == []


async def test_a_fault_of_our_own_is_answered_without_its_details(
    service: Service, client: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Answer:
        raise KeyError("inside")

    monkeypatch.setattr(service.bench.verbs, "_filter", broken)
    assert (await ask(client, "filter", body(KNOWN)))["Error"] == INTERNAL


async def test_who_must_look_elsewhere_loses_the_connection(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(_: object) -> Answer:
        raise Unavailable("another one leads", away=True)

    monkeypatch.setattr(service.bench.verbs, "preempt", elsewhere)
    async with service.client() as client:
        response = await client.post("/scheduler/preempt", json=whom())
    assert response.status == 200
    assert response.headers["Connection"] == "close"


FORMS: dict[str, Any] = {"prioritize": [], "preempt": {"NodeNameToMetaVictims": {}}, "bind": {"Error": NO_TOKENS}}
STRANGERS = [pytest.param(verb, marks=pytest.mark.row("X-24", case=verb)) for verb in ("filter", *FORMS)]


@pytest.mark.parametrize("verb", STRANGERS)
async def test_a_stranger_is_answered_in_the_verbs_form_and_hears_of_no_node_and_no_victim(verb: str) -> None:
    service = Service(
        *NODES, queue("team", limit=8), pod("low", "team", 8, on="n1", labels={"priorityClassName": "train"})
    )
    service.gate = Gate(lambda: "token")
    before = service.bench.ledger.snapshot
    async with service.client() as client:
        for content in (body(pod("p", "team")), whom(), b"{", b"x" * MIB):
            answer = await ask(client, verb, content)
            assert answer.get("Error") == NO_TOKENS if verb == "filter" else answer == FORMS[verb]
            assert not {"n1", "uid-low"} & set(json.dumps(answer).replace('"', " ").split())
    assert service.bench.ledger.snapshot is before
    assert service.api.bindings == []
    counted = service.registry.get_sample_value("gpuyard_verb_calls_total", {"verb": verb, "outcome": "rejected"})
    assert counted == 4


@pytest.mark.row("X-32", case="version")
async def test_a_version_of_thousands_of_digits_is_none(client: Calls) -> None:
    odd = pod("p", "team")
    odd["metadata"]["resourceVersion"] = "9" * 4301
    assert (await ask(client, "filter", body(odd)))["Error"] != INTERNAL
    assert typed(odd).metadata.version == 0


async def test_only_the_verbs_are_served(client: Calls) -> None:
    assert (await client.post("/unknown", data=b"{}")).status == 404
    assert (await client.get("/scheduler/filter")).status == 405


async def test_calls_are_counted_by_verb_and_outcome(service: Service, client: Calls) -> None:
    await ask(client, "filter", body(KNOWN))
    await ask(client, "filter", b"{")

    def count(outcome: str) -> float | None:
        return service.registry.get_sample_value("gpuyard_verb_calls_total", {"verb": "filter", "outcome": outcome})

    assert (count("answered"), count("error")) == (1, 1)
    assert service.registry.get_sample_value("gpuyard_verb_seconds_count", {"verb": "filter"}) == 2


async def test_a_verb_that_there_is_not_is_answered_200_so_that_kube_scheduler_prints_no_address(client: Calls) -> None:
    answer = await ask(client, "filtre", body(KNOWN))
    assert answer["Error"] == "gpuyard has no such verb; it has filter, prioritize, preempt, bind"
