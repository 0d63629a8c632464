"""Bodies that nobody meant: every one is answered in the verb's own form, and an error changes nothing."""

import json
import random
from collections.abc import Awaitable, Coroutine, Iterable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import Address
from gpuyard.engine.model import Promise, Shape
from gpuyard.extender.binding import Binder
from gpuyard.extender.ledger import Ledger
from gpuyard.extender.server import Verb, awaited, decided
from gpuyard.extender.wire import BINDING, CANDIDATES, PREEMPTION, BindAnswer, FilterAnswer, PreemptAnswer, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.extender.builders import Bench, Json, group, node, pod, queue

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

POD = pod("p", "team", 2, annotations={"pod-group-name": "g"}, labels={"priorityClassName": "build"})
CALLS: dict[str, Json] = {
    "filter": {"Pod": POD, "Nodes": None, "NodeNames": ["n1", "n2"]},
    "prioritize": {"Pod": POD, "Nodes": {"items": [node("n1"), node("n2")]}, "NodeNames": None},
    "preempt": {"Pod": POD, "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 0}}},
    "bind": {"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "n1"},
}
ODD_VALUES: list[object] = [
    None,
    True,
    -1,
    2**70,
    0.5,
    "",
    "x",
    "9" * 400,
    [],
    {},
    [{"name": "x"}],
    "n1",
    "uid-a",
    "team",
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.just([]),
    st.just({}),
    st.just("9" * 400),
    st.just([{"name": "x"}]),
)


def paths(thing: Any, start: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    """The places in a document that can be changed."""
    inner = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    return [start, *(path for key, part in inner for path in paths(part, (*start, key)))]


def changed(thing: Json, path: tuple[Any, ...], value: object) -> Any:  # noqa: ANN401 - JSON
    """A copy of the document with another value at one place."""
    other = json.loads(json.dumps(thing))
    if not path:
        return value
    spot = other
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    return other


def verbs(bench: Bench) -> dict[str, Verb[Any]]:
    return {
        "filter": Verb("filter", CANDIDATES, bench.verbs.filter, lambda why: FilterAnswer(error=why)),
        "prioritize": Verb("prioritize", CANDIDATES, bench.verbs.prioritize, lambda _: []),
        "preempt": Verb("preempt", PREEMPTION, bench.verbs.preempt, lambda _: PreemptAnswer()),
        "bind": Verb("bind", BINDING, binder(bench).bind, BindAnswer),
    }


class Api:
    """An API server that has none of the pods."""

    async def create(self, address: Address, _body: object) -> None:
        raise ApiError(f"POST {address.about}", 404, "NotFound", "there is no such pod")


def binder(bench: Bench) -> Binder:
    made = Binder(bench.ledger, bench.verbs.may_bind, unavailable=lambda: None, clock=lambda: bench.now)
    made.client = cast("Client", Api())
    return made


def bench() -> Bench:
    running = pod("a", "team", on="n1", labels={"priorityClassName": "train"})
    made = Bench(node("n1"), node("n2"), queue("team", 8), running, POD)
    made.ledger.arrivals.pause(float("inf"))
    return made


def state(ledger: Ledger) -> object:
    """All that the ledger knows, as it is at this moment."""
    return ledger.snapshot, [copied(vars(part)) for part in (ledger, ledger.flights, ledger.promises)]


def copied(thing: Any) -> Any:  # noqa: ANN401 - whatever a ledger keeps
    """A copy as deep as something could be changed in place."""
    if isinstance(thing, dict):
        return {key: copied(part) for key, part in thing.items()}
    return copy(thing) if isinstance(thing, list | set) else thing


def at_once(answer: Coroutine[Any, Any, object]) -> Any:  # noqa: ANN401 - an answer or what prevented one
    """What a coroutine returns that waits for nothing."""
    try:
        answer.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("these verbs wait for nobody")


def ask(of: Bench, verb: str, body: bytes) -> None:
    """Send one body; whatever it is, the answer can be written, and an error leaves the ledger as it was."""
    of.ledger.expire(of.now)
    before = state(of.ledger)
    found = decided(verbs(of)[verb], body)
    if isinstance(found, Awaitable):
        found = at_once(awaited(verbs(of)[verb], found))
    if isinstance(found, Exception):
        assert str(found) != "internal error of gpuyard; its log says more", body
        assert state(of.ledger) == before
    else:
        msgspec.json.decode(write(found))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(sorted(CALLS)))
def test_a_call_with_one_field_changed(data: st.DataObject, verb: str) -> None:
    path = data.draw(st.sampled_from(paths(CALLS[verb])))
    ask(bench(), verb, json.dumps(changed(CALLS[verb], path, data.draw(VALUES))).encode())


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=64), st.integers(0, 400), st.sampled_from(sorted(CALLS)))
def test_a_call_with_junk_in_it(junk: bytes, at: int, verb: str) -> None:
    body = json.dumps(CALLS[verb]).encode()
    ask(bench(), verb, body[:at] + junk + body[at:])


def odd_bodies(
    chance: random.Random, count: int, calls: Iterable[tuple[str, Json]] = CALLS.items()
) -> Iterator[tuple[str, bytes]]:
    """These calls again and again: half of them with one field changed, the others with junk in them."""
    known = [(verb, thing, paths(thing)) for verb, thing in calls]
    for number in range(count):
        verb, thing, places = chance.choice(known)
        if number % 2:
            yield verb, json.dumps(changed(thing, chance.choice(places), chance.choice(ODD_VALUES))).encode()
        else:
            body = json.dumps(thing).encode()
            at = chance.randrange(len(body) + 1)
            yield verb, body[:at] + chance.randbytes(chance.randrange(64)) + body[at + chance.randrange(3) :]


@pytest.mark.row("E-13", case="junk")
@pytest.mark.parametrize("count", [4_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_many_bodies_of_all_verbs_one_after_the_other(count: int) -> None:
    of = bench()
    for verb, body in odd_bodies(random.Random(count), count):
        of.now += 1
        ask(of, verb, body)
    assert of.passes(pod("p", "team", 2)), "it still answers as it should"


MEMBERS = [pod(name, "team", 2, annotations={"pod-group-name": "g"}) for name in "bc"]
HEIR = pod("heir", "team", 2)
HEIR["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "job", "uid": "job", "controller": True}]
PROMISE = Promise(plan="plan", pod="ns/old", owner="job", shape=Shape(gpus=2), node="n2", queue="team")
UNKNOWN = [f"unknown-{number}" for number in range(600)]
LONG = [
    ("filter", {"Pod": thing, "Nodes": None, "NodeNames": names})
    for thing in (POD, *MEMBERS, HEIR)
    for names in (["n1", "n2", *UNKNOWN], [*UNKNOWN, "n1", "n2"], UNKNOWN)
]
"""Of so many names only the first are read until more is asked for; a kept place may be among them or not."""


@pytest.mark.row("E-13", case="junk")
@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_many_bodies_with_hundreds_of_names(count: int) -> None:
    of = bench()
    of.put(group("g", 2, "team"), *MEMBERS, HEIR)
    for number, (verb, body) in enumerate(odd_bodies(random.Random(count), count, LONG)):
        of.now += 1
        if not number % 10:
            of.ledger.put_promises([])
            of.ledger.put_promises([PROMISE])
        ask(of, verb, body)
    assert of.passes(HEIR), "it still answers as it should"
