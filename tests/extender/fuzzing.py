"""A yard that is fuzzed: the verbs behind their real port, and what is wrong after each request.

Decided in docs/decisions.md: "The fuzzer of the verbs is ours".
"""

import asyncio
import json
import logging
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import msgspec
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.resources import Address
from gpuyard.engine.model import Promise, Shape
from gpuyard.engine.stepwise import at_once
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.http.server import INTERNAL, Server, Verb
from gpuyard.extender.http.wire import BINDING, CANDIDATES, PREEMPTION, BindAnswer, FilterAnswer, PreemptAnswer
from gpuyard.extender.ledger import Entry, Ledger
from gpuyard.extender.verbs.binding import Binder
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from tests.extender.builders import Bench, Json, anybody, group, node, pod, queue
from tests.extender.mutations import LONGEST, Attempt, Mutator, request

if TYPE_CHECKING:
    from gpuyard.common.kube.client import Client

ROUND = 100
"""Requests to one yard; then comes a fresh one, so that what went wrong once does not hide what goes wrong later."""

PATIENCE = 0.3
"""Seconds for all answers on a connection; more than the extender waits for a watch."""

KEPT = Path(__file__).with_name("fuzz_kept.json")
"""The requests that once showed a fault."""

FOUND = Path(__file__).parents[2] / "build" / "fuzz_found.json"
"""Where those go that show one now, in the form of KEPT."""

CHOOSY: Json = {
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "kind", "operator": "NotIn", "values": ["old"]}]}]
            }
        }
    },
}
OWNER = [{"kind": "Job", "name": "job", "uid": "job", "controller": True}]
SEEN: Sequence[Json] = (
    node("n1"),
    node("n2"),
    queue("team", limit=12, quota=4),
    queue("other", limit=8),
    queue("shut", limit=0),
    group("g", 2, "team"),
    pod("a", "team", 2, on="n1", labels={"priorityClassName": "train"}),
    pod("b", "other", 4, on="n2", fixed=True),
    pod("p", "team", 2, **CHOOSY),
    pod("m1", "team", 1, annotations={"pod-group-name": "g"}),
    pod("m2", "team", 1, annotations={"pod-group-name": "g"}),
    pod("shut", "shut", 1),
    pod("plain", gpus=0),
    pod("part", "other", 0, annotations={"gpu-fraction": "0.5"}),
)
"""What the watches show."""

HEIR = pod("heir", "team", 2)
HEIR["metadata"]["ownerReferences"] = OWNER
PROMISE = Promise(plan="plan", pod="ns/old", owner="job", shape=Shape(gpus=2), node="n2", queue="team")
STRANGER = pod("stranger", "team", 2, volumes=[{"persistentVolumeClaim": {"claimName": "c"}}], **CHOOSY)
PODS = [thing for thing in (*SEEN, HEIR) if thing["kind"] == "Pod"]
WAITING = frozenset(f"ns/{thing['metadata']['name']}" for thing in PODS if not thing["spec"]["nodeName"])
UNKNOWN = [f"unknown-{number}" for number in range(600)]


def unplaced(thing: Json) -> Json:
    """A pod as if it had no node yet."""
    spec = {name: part for name, part in thing["spec"].items() if name != "nodeName"}
    return thing | {"spec": spec, "status": {"phase": "Pending"}}


def calls() -> Iterator[tuple[str, Json]]:
    """Real calls about pods that the watches show, and about one that they do not."""
    victims = {"n1": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 0}, "n2": {"Pods": [{"UID": "uid-b"}]}}
    for asked in (*PODS, *map(unplaced, PODS[:2]), STRANGER, STRANGER, STRANGER):
        name, uid = asked["metadata"]["name"], asked["metadata"]["uid"]
        yield "filter", {"Pod": asked, "Nodes": None, "NodeNames": ["n1", "n2"]}
        yield "filter", {"Pod": asked, "Nodes": {"items": list(SEEN[:2])}, "NodeNames": None}
        yield "prioritize", {"Pod": asked, "Nodes": None, "NodeNames": ["n1", "n2", "n3"]}
        yield "preempt", {"Pod": asked, "NodeNameToMetaVictims": victims}
        yield "preempt", {"Pod": asked, "NodeNameToVictims": {"n1": {"Pods": [PODS[0]], "NumPDBViolations": 0}}}
        yield "bind", {"PodName": name, "PodNamespace": "ns", "PodUID": uid, "Node": "n1"}
    for names in (["n1", "n2", *UNKNOWN], [*UNKNOWN, "n1", "n2"], UNKNOWN):
        yield "filter", {"Pod": HEIR, "Nodes": None, "NodeNames": names}
        yield "prioritize", {"Pod": STRANGER, "Nodes": None, "NodeNames": names}


# --- what an answer looks like ----------------------------------------------------------------------------------------


class Strict(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """A message as kube-scheduler reads it."""


class Filtered(Strict):
    """ExtenderFilterResult."""

    nodes: dict[str, Any] | None
    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str


class Scored(Strict):
    """HostPriority."""

    host: str
    score: Annotated[int, msgspec.Meta(ge=0, le=10)]


class Uid(msgspec.Struct, forbid_unknown_fields=True):
    """MetaPod."""

    UID: str


class Evicted(Strict):
    """MetaVictims."""

    pods: list[Uid] | None
    num_violations: int = msgspec.field(name="NumPDBViolations")


class Preempted(Strict):
    """ExtenderPreemptionResult."""

    node_name_to_meta_victims: dict[str, Evicted]


class Bound(Strict):
    """ExtenderBindingResult."""

    error: str


FORMS: dict[str, Any] = {"filter": Filtered, "prioritize": list[Scored], "preempt": Preempted, "bind": Bound}


def badly_formed(body: bytes, verbs: Sequence[str]) -> str:
    """Why this is the answer of none of these verbs; empty: it is one."""
    why = []
    for verb in verbs:
        try:
            json.loads(body)
            msgspec.json.decode(body, type=FORMS[verb])
        except ValueError as error:
            why.append(f"{verb}: {error}")
        else:
            return ""
    return "; ".join(why)


class Heard(NamedTuple):
    """One answer."""

    status: int
    body: bytes


def is_error(answer: Heard) -> bool:
    """Whether it says that the call could not be read. Of `bind` it may mean that a reservation was given back."""
    if answer.status != 200:
        return True
    try:
        return bool(msgspec.json.decode(answer.body, type=Filtered).error)
    except ValueError:
        return False


_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n(?:[!-9;-~]+: [^\r\n]*\r\n)*\r\n")
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n")


def heard(stream: bytes) -> list[Heard]:
    """The answers in what came on a connection; raises ValueError for what is none."""
    found = []
    while stream:
        head = _HEAD.match(stream)
        if head is None:
            raise ValueError(f"no head of an answer: {stream[:80]!r}")
        length = _LENGTH.search(head[0])
        end = head.end() + (int(length[1]) if length else 0)
        if end > len(stream):
            raise ValueError("an answer is cut short")
        if head[1] != b"100":
            found.append(Heard(int(head[1]), stream[head.end() : end]))
        stream = stream[end:]
    return found


# --- the yard ---------------------------------------------------------------------------------------------------------


BINDING_PATH = re.compile(r"/api/v1/namespaces/(\w[\w-]*)/pods/(\w[\w.-]*)/binding", re.ASCII)


class Api:
    """An API server that binds the waiting pods, and notes what else it is asked."""

    def __init__(self) -> None:
        self._odd: list[str] = []

    def taken(self) -> list[str]:
        """The paths that it was asked for and that are no pod's, once each."""
        odd, self._odd = self._odd, []
        return odd

    async def create(self, address: Address, _body: object) -> None:
        """Take a binding."""
        found = BINDING_PATH.fullmatch(address.path)
        if found is None:
            self._odd.append(address.path)
        if found is None or "/".join(found.groups()) not in WAITING:
            raise ApiError(f"POST {address.about}", 404, "NotFound", "there is no such pod")


class Finding(NamedTuple):
    """Something that is wrong after a request."""

    kind: str
    what: str
    attempt: Attempt

    def __str__(self) -> str:
        return f"{self.kind}: {self.what[:300]}; after {self.attempt.name[:300]}"


class Yard:
    """The verbs over what the watches show, and the same without any call to compare with."""

    def __init__(self) -> None:
        self.bench = self._fresh()
        self.truth = self._fresh().ledger
        self.api = Api()
        binder = Binder(
            self.bench.ledger,
            self.bench.verbs.may_bind,
            self.bench.verbs.strategy,
            unavailable=lambda: None,
            clock=lambda: self.bench.now,
        )
        binder.client = cast("Client", self.api)
        self.server = Server(
            [
                Verb("filter", CANDIDATES, self.bench.verbs.filter, lambda why: FilterAnswer(error=why)),
                Verb("prioritize", CANDIDATES, self.bench.verbs.prioritize, lambda _: []),
                Verb("preempt", PREEMPTION, self.bench.verbs.preempt, lambda _: PreemptAnswer()),
                Verb("bind", BINDING, binder.bind, BindAnswer, from_memory=False),
            ],
            VerbMetrics(CollectorRegistry()),
            anybody(),
            LONGEST,
        )

    def _fresh(self) -> Bench:
        made = Bench(*SEEN)
        made.put(HEIR)
        made.ledger.put_promises([PROMISE])
        return made

    def settled(self) -> Iterator[tuple[str, str]]:
        """What is wrong once all that was granted has lapsed."""
        ledger = self.bench.ledger
        at_once(ledger.expire_all(float("inf")))
        if ledger.granted:
            yield "ledger", f"a reservation is left: {sorted(ledger.granted)}"
        if (now := use(ledger)) != (then := use(self.truth)):
            yield "ledger", f"the queues use {now} instead of {then}"

    def mistakes(self, before: Mapping[str, Entry] | None) -> Iterator[str]:
        """Where the ledger differs from what the watches show, and from `before` a call that ended in an error."""
        entries, truth = self.bench.ledger.entries, self.truth.entries
        if strangers := sorted(entries.keys() - truth.keys()):
            yield f"pods that no watch has shown: {strangers}"
        if missing := sorted(truth.keys() - entries.keys()):
            yield f"pods that are no longer known: {missing}"
        if other := [key for key in entries.keys() & truth.keys() if entries[key].seen != truth[key].seen]:
            yield f"pods about which a call was believed: {sorted(other)}"
        if wrong := sorted(self.bench.ledger.granted - WAITING):
            yield f"reservations for pods that do not wait: {wrong}"
        if before is not None and any(entries.get(key) != one for key, one in before.items() if key != FINE_KEY):
            yield "a call that ended in an error has changed something"


def use(ledger: Ledger) -> dict[str, object]:
    """What each queue uses, but for those that use nothing."""
    return {name: amounts for name, amounts in ledger.snapshot.use.items() if amounts.allocated.gpu}


class Errors(logging.Handler):
    """Collects what libraries log as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note a record."""
        self.lines.append(f"{record.name}: {record.getMessage()} {record.exc_info and record.exc_info[1]!r}")


@contextmanager
def errors_logged() -> Iterator[Errors]:
    """What is logged as an error meanwhile, by us or by libraries."""
    handler = Errors()
    logging.getLogger().addHandler(handler)
    try:
        with capture_logs() as ours:
            yield handler
            handler.lines += [repr(line) for line in ours if line["log_level"] in {"error", "critical"}]
    finally:
        logging.getLogger().removeHandler(handler)


FINE_KEY = "ns/p"
FINE = request("filter", json.dumps({"Pod": PODS[2], "NodeNames": ["n1", "n2"]}).encode(), "Connection: close")
"""A call that comes after each attempt, to see whether the port still answers."""


async def fuzzed(count: int, seed: int = 16) -> list[Finding]:
    """What is wrong after so many requests, round after round."""
    found: list[Finding] = []
    for number in range(count // ROUND):
        mutator = Mutator(random.Random(f"{seed}/{number}"), list(calls()))
        found += await findings([mutator.attempt() for _ in range(ROUND)])
    return found


async def findings(attempts: Sequence[Attempt]) -> list[Finding]:
    """What is wrong after these requests to one yard: the first of what is said in the same words."""
    yard, found = Yard(), dict[str, Finding]()
    async with yard.server.listening(0, "127.0.0.1", shutdown=1) as port:
        for attempt in attempts:
            for kind, what in await tried(yard, port, attempt):
                found.setdefault(what.partition(":")[0], Finding(kind, what, attempt))
        for kind, what in (*yard.settled(), *works(await said(port, REAL))):
            found.setdefault(what.partition(":")[0], Finding(kind, what, attempts[-1]))
    return list(found.values())


HEIRS = json.dumps({"Pod": HEIR, "NodeNames": ["n1", "n2"]}).encode()
REAL = Attempt("real calls", (request("filter", HEIRS),), ("filter",))
"""A call for the pod that is promised a node; another pod's comes after it, as always."""


def works(stream: bytes) -> Iterator[tuple[str, str]]:
    """What is wrong with the answers to real calls, when no other pod was granted anything."""
    heir, other = (msgspec.json.decode(answer.body, type=Filtered).node_names for answer in heard(stream))
    if heir != [PROMISE.node]:
        yield "answer", f"the pod that is promised a node gets others: {heir}"
    if not other:
        yield "answer", "a real call gets no node"


async def tried(yard: Yard, port: int, attempt: Attempt) -> list[tuple[str, str]]:
    """Send one attempt; what is wrong then, with its kind."""
    yard.bench.now += 1
    at_once(yard.bench.ledger.expire_all(yard.bench.now))
    before = dict(yard.bench.ledger.entries)
    with errors_logged() as errors:
        stream = await said(port, attempt)
    found = [("log", line) for line in errors.lines]
    found += [("path", f"the API server was asked for {path!r}") for path in yard.api.taken()]
    try:
        answers = heard(stream)
    except ValueError as error:
        return [*found, ("answer", str(error))]
    own = answers[: len(attempt.verbs)] if attempt.verbs else answers
    failed = (attempt.cut or bool(own)) and all(map(is_error, own))
    found += [("answer", what) for what in wrong(answers, attempt)]
    return found + [("ledger", what) for what in yard.mistakes(before if failed else None)]


async def said(port: int, attempt: Attempt) -> bytes:
    """All that a port answers to an attempt, and to a call after it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in attempt.pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        if attempt.cut:
            writer.write_eof()
        else:
            writer.write(FINE)
        reading = asyncio.ensure_future(reader.read())
        done, _ = await asyncio.wait((reading,), timeout=PATIENCE)
        if not done:
            # It waits for more of a body than was sent.
            writer.write_eof()
        return await asyncio.wait_for(reading, 10)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def wrong(answers: Sequence[Heard], attempt: Attempt) -> Iterator[str]:
    """What is wrong with these answers."""
    for number, answer in enumerate(answers):
        verbs = attempt.verbs[number : number + 1] if attempt.verbs else tuple(FORMS)
        if answer.status == 200:
            if why := badly_formed(answer.body, verbs or ("filter",)):
                yield f"answer {number + 1} is not in form: {why}: {answer.body[:200]!r}"
            if INTERNAL.encode() in answer.body:
                yield f"answer {number + 1} speaks of an internal error"
        elif attempt.verbs or not 400 <= answer.status < 500:
            yield f"answer {number + 1} has status {answer.status}"
    if attempt.verbs and len(answers) != len(attempt.verbs) + 1:
        yield f"{len(answers)} answers to {len(attempt.verbs) + 1} calls"


# --- what is kept -----------------------------------------------------------------------------------------------------


def keep(attempts: Iterable[Attempt], file: Path) -> None:
    """Write attempts into a file, one a line; a character of it stands for a byte."""
    lines = (
        json.dumps([name, [piece.decode("latin-1") for piece in pieces], verbs, cut])
        for name, pieces, verbs, cut in attempts
    )
    file.parent.mkdir(exist_ok=True)
    file.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def kept(file: Path = KEPT) -> list[Attempt]:
    """The attempts of a file."""
    return [
        Attempt(name, tuple(piece.encode("latin-1") for piece in pieces), tuple(verbs), cut)
        for name, pieces, verbs, cut in json.loads(file.read_text())
    ]
