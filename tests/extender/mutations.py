"""Requests that nobody meant: real calls of the verbs, changed by chance in what they say, in their bytes, or as HTTP.

All chance comes from one `random.Random`: the same seed gives the same requests.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.extender.builders import Json

Path = tuple[Any, ...]

LONGEST = 1 << 20
"""Bytes of a body that the fuzzed server reads."""


class Attempt(NamedTuple):
    """What is sent on one connection."""

    name: str
    """The mutations, as a reader of a report wants to know them."""
    pieces: tuple[bytes, ...]
    """The bytes, each piece written by itself."""
    verbs: tuple[str, ...] = ()
    """The verbs that answer with 200, in this order; empty: the mutation may have changed which."""
    cut: bool = False
    """Whether the caller goes away in the midst of it."""


def request(verb: str, body: bytes, *more: str) -> bytes:
    """A call as kube-scheduler sends it."""
    head = [f"POST /scheduler/{verb} HTTP/1.1", "Host: gpuyard", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*head, "Content-Type: application/json", "", ""]).encode() + body


DEEPEST = 12
"""Levels of a document below which nothing is changed: what is made deep by one mutation stays as it is."""

FEW = 4
"""Items of a list of which each may be changed; of a long one the first ones."""


def paths(thing: Any, start: Path = ()) -> list[Path]:  # noqa: ANN401 - JSON
    """The places in a document that can be changed."""
    inner = thing.items() if isinstance(thing, dict) else enumerate(thing[:FEW]) if isinstance(thing, list) else ()
    if len(start) == DEEPEST:
        return [start]
    return [start, *(path for key, part in inner for path in paths(part, (*start, key)))]


def changed(thing: Any, path: Path, change: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - JSON
    """A copy of the document in which what is at one place is another value."""
    if not path:
        return change(thing)
    key, *rest = path
    other = dict(thing) if isinstance(thing, dict) else list(thing)
    other[key] = changed(thing[key], tuple(rest), change)
    return other


def nested(depth: int) -> object:
    """A list in a list in a list …"""
    made: object = []
    for _ in range(depth):
        made = [made]
    return made


VALUES: Sequence[Callable[[], object]] = (
    *(lambda value=value: value for value in (None, True, False, 0, -1, 0.5, 2**63 - 1, 2**63, 2**70, -(2**70), 1e308)),
    *(lambda value=value: value for value in ("", "x", "NaN", "-1", "1e999", str(2**63 - 1), "\0", "n1\0", "a\x00b")),
    *(
        lambda value=value: value
        for value in ("../../x", "x/exec?command=id", "n1", "uid-p", "ns/p", "team", "💥", "\x7f")
    ),
    lambda: "1" + "0" * 5000,
    lambda: 10**4299,
    lambda: "²" * 3,
    lambda: "\ud800",
    lambda: "y" * 20_000,
    lambda: nested(300),
    list,
    dict,
    lambda: [{"name": "x"}],
    lambda: {"\0": "\0"},
    lambda: ["n1"] * 3000,
    lambda: {f"key-{number}": "x" for number in range(500)},
)
"""What is put in the place of something: wrong types, odd texts, more than anybody sends."""

FORGED: Sequence[tuple[Path, tuple[object, ...]]] = (
    (("metadata", "uid"), ("uid-forged", "uid-a", "uid-p", "", "\0")),
    (("metadata", "name"), ("a", "p", "forged", "x/exec?command=id", "a\0")),
    (("metadata", "namespace"), ("ns", "other", "", "../kube-system")),
    (("metadata", "resourceVersion"), (str(2**63 - 1), "9" * 5000, "0", "", "-1", "٣", "1e3")),
    (("metadata", "labels"), ({"kai.scheduler/queue": "other"}, {}, None, {"priorityClassName": "system"})),
    (("metadata", "annotations"), ({"gpu-fraction": "0.001"}, {"pod-group-name": "g"}, {"gpu-fraction": "NaN"})),
    (("metadata", "ownerReferences"), ([{"kind": "Job", "name": "job", "uid": "job", "controller": True}], None)),
    (("metadata", "deletionTimestamp"), ("2026-01-01T00:00:00Z", "never")),
    (("spec", "nodeName"), ("n1", "n2", "nowhere", "")),
    (("spec", "priority"), (10**9, -(10**9), 2**40)),
    (("status", "phase"), ("Pending", "Succeeded", "Failed", "Running", "Unknown", "odd")),
    (("status", "nominatedNodeName"), ("n1", "nowhere")),
    (("spec", "containers"), ([{"resources": {"limits": {"nvidia.com/gpu": "1000000"}}}], [], None)),
)
"""Facts about a pod that a caller could make up."""


class Mutator:
    """Draws requests from a set of calls: by verb, with a body each."""

    def __init__(self, chance: random.Random, calls: Sequence[tuple[str, Json]]) -> None:
        self._chance = chance
        self._calls = calls

    def attempt(self) -> Attempt:
        """The next request, or several on one connection."""
        kind = self._chance.choices([self._one, self._several, self._cut, self._head], [70, 8, 7, 15])[0]
        return kind()

    # --- what a call says ---

    def _call(self) -> tuple[str, str, bytes]:
        """A call with its body changed: what was done, the verb, the body."""
        verb, body = self._chance.choice(self._calls)
        done = []
        for _ in range(self._chance.choice([1, 1, 1, 2, 3])):
            change = self._chance.choice(
                [self._another_value, self._another_value, self._forge, self._forge, self._drop]
            )
            name, body = change(body)
            done.append(name)
        text = self._text(body)
        if self._chance.random() < 0.4:
            name, text = self._bytes(text)
            done.append(name)
        return ", ".join(done), verb, text

    def _another_value(self, body: Any) -> tuple[str, Any]:  # noqa: ANN401 - JSON
        path = self._chance.choice(paths(body))
        return f"{path} another value", changed(body, path, lambda _: self._chance.choice(VALUES)())

    def _drop(self, body: Any) -> tuple[str, Any]:  # noqa: ANN401 - JSON
        places = [path for path in paths(body) if path]
        if not places:
            return "nothing to drop", body
        *parent, key = self._chance.choice(places)

        def without(thing: Any) -> Any:  # noqa: ANN401 - JSON
            if isinstance(thing, list):
                return [*thing[:key], *thing[key + 1 :]]
            return {name: part for name, part in thing.items() if name != key}

        return f"{(*parent, key)} dropped", changed(body, tuple(parent), without)

    def _forge(self, body: Any) -> tuple[str, Any]:  # noqa: ANN401 - JSON
        (*parent, key), values = self._chance.choice(FORGED)
        value = self._chance.choice(values)
        if not (isinstance(body, dict) and isinstance(body.get("Pod"), dict)):
            key = self._chance.choice(["PodName", "PodNamespace", "PodUID", "Node"])
            return f"{key} forged", {**body, key: value} if isinstance(body, dict) else body
        part = body["Pod"].get(parent[0])
        fields = {**(part if isinstance(part, dict) else {}), key: value}
        return f"{parent[0]}.{key} forged", {**body, "Pod": {**body["Pod"], parent[0]: fields}}

    # --- its bytes ---

    def _text(self, body: Any) -> bytes:  # noqa: ANN401 - JSON
        return json.dumps(body, ensure_ascii=self._chance.random() < 0.5).encode(errors="surrogatepass")

    def _bytes(self, text: bytes) -> tuple[str, bytes]:
        changes: Mapping[str, Callable[[bytes], bytes]] = {
            "junk": lambda text: self._spliced(text, self._chance.randbytes(self._chance.randrange(1, 48))),
            "bad UTF-8 in a string": self._bad_text,
            "cut short": lambda text: text[: self._chance.randrange(len(text) + 1)],
            "repeated": lambda text: text * self._chance.randrange(2, 4),
            "keys in another case": self._respelt,
            "a key twice": lambda text: text[:1] + text[1:-1] + b"," + text[1:] if len(text) > 2 else text,
            "deep": lambda text: self._spliced(text, self._chance.choice([b"[", b'{"a":']) * 5000),
            "a long number": lambda text: text.replace(b"2", b"9" * self._chance.choice([20, 400, 4300, 20_000]), 1),
            "an escaped NUL": lambda text: text.replace(b'"n', b'"\\u0000n', 1),
            "a lone surrogate": lambda text: text.replace(b'"p"', b'"\\ud83d"'),
            "a byte order mark": lambda text: b"\xef\xbb\xbf" + text,
            "blanks": lambda text: b" \n\t" * 2000 + text,
            "more than is read": lambda text: text + b" " * LONGEST,
        }
        name = self._chance.choice(sorted(changes))
        return name, changes[name](text)

    def _spliced(self, text: bytes, junk: bytes) -> bytes:
        at = self._chance.randrange(len(text) + 1)
        return text[:at] + junk + text[at + self._chance.randrange(3) :]

    def _bad_text(self, text: bytes) -> bytes:
        # Some fields are read late, and only where it matters: they are as likely as all others together.
        begin = max(0, text.find(self._chance.choice([b"{", b'"tolerations"', b'"affinity"', b'"NodeNames"'])))
        places = [at + 1 for at, byte in enumerate(text) if byte == ord('"') and at >= begin]
        at = self._chance.choice(places[:20]) if places else 0
        return text[:at] + self._chance.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"]) + text[at:]

    def _respelt(self, text: bytes) -> bytes:
        change = self._chance.choice([str.upper, str.lower, str.swapcase])
        for key in self._chance.sample(KEYS, self._chance.randrange(1, len(KEYS))):
            text = text.replace(f'"{key}"'.encode(), f'"{change(key)}"'.encode())
        return text

    # --- as HTTP ---

    def _one(self) -> Attempt:
        name, verb, body = self._call()
        whole = request(verb, body)
        if self._chance.random() < 0.2:
            at = sorted(self._chance.sample(range(len(whole)), 2))
            return Attempt(name, (whole[: at[0]], whole[at[0] : at[1]], whole[at[1] :]), (verb,))
        return Attempt(name, (whole,), (verb,))

    def _several(self) -> Attempt:
        calls = [self._call() for _ in range(self._chance.randrange(2, 6))]
        names, verbs, bodies = zip(*calls, strict=True)
        return Attempt(" | ".join(names), (b"".join(map(request, verbs, bodies)),), verbs)

    def _cut(self) -> Attempt:
        name, verb, body = self._call()
        whole = request(verb, body)
        return Attempt(f"{name}, then gone", (whole[: self._chance.randrange(len(whole))],), cut=True)

    def _head(self) -> Attempt:
        verb, body = self._chance.choice(self._calls)
        text = self._text(body)
        head, _, rest = request(verb, text).partition(b"\r\n\r\n")
        done = []
        for _ in range(self._chance.choice([1, 1, 2])):
            name = self._chance.choice(sorted(HEADS))
            head, rest = HEADS[name](head, rest, self._chance)
            done.append(name)
        return Attempt(", ".join(done), (head + b"\r\n\r\n" + rest,), cut=LONGER in done)


KEYS = ("Pod", "Nodes", "NodeNames", "NodeNameToMetaVictims", "Pods", "UID", "PodName", "PodUID", "Node", "items")

Head = Callable[[bytes, bytes, random.Random], tuple[bytes, bytes]]


def _with(*lines: bytes) -> Head:
    return lambda head, body, chance: (head + b"\r\n" + chance.choice(lines), body)


def _instead(old: bytes, *new: bytes) -> Head:
    return lambda head, body, chance: (head.replace(old, chance.choice(new), 1), body)


def _chunked(head: bytes, body: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    size = chance.randrange(1, 200)
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked"]), sent + b"0\r\n\r\n"


def _spoilt(head: bytes, body: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    at = chance.randrange(len(head))
    return head[:at] + chance.randbytes(chance.randrange(1, 4)) + head[at + chance.randrange(3) :], body


LONGER = "a longer body than is sent"

HEADS: Mapping[str, Head] = {
    "another method": _instead(b"POST", b"GET", b"PUT", b"CONNECT", b"OPTIONS", b"post", b"PRI", b"\0"),
    "another path": _instead(
        b"/scheduler", b"/Scheduler", b"//scheduler", b"http://x/scheduler", b"*", b"/%73cheduler", b""
    ),
    "another version": _instead(
        b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/9.9", b"http/1.1", b"HTTPS/1.1"
    ),
    "no Host": _instead(b"\r\nHost: gpuyard", b""),
    "two Hosts": _with(b"Host: gpuyard", b"Host: other", b"host:"),
    "two Transfer-Encodings": _with(
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked, chunked",
    ),
    "two lengths": _with(b"Content-Length: 1", b"Content-Length: 0", b"Content-Length: 99999"),
    "a length that is none": _instead(
        b"Content-Length: ", b"Content-Length: -", b"Content-Length: +", b"Content-Length: 9e"
    ),
    LONGER: _instead(b"Content-Length: ", b"Content-Length: 9"),
    "a length beyond all": _instead(b"Content-Length: ", b"Content-Length: 99999999999999999999"),
    "chunks": _chunked,
    "an upgrade": _with(b"Connection: Upgrade\r\nUpgrade: h2c", b"Upgrade: websocket", b"Connection: close, Upgrade"),
    "an expectation": _with(b"Expect: 100-continue", b"Expect: 200-ok"),
    "a folded header": _with(b"A: b\r\n c", b"\tA: b", b"A : b"),
    "a header without a name": _with(b": x", b"", b"\0: x", b"A\xff: x"),
    "a header with control characters": _with(b"A: \0", b"A: \x01\x02", b"A: \r", b"A: \x7f"),
    "a long header": _with(b"A: " + b"x" * 70_000),
    "many headers": _with(b"\r\n".join(b"A-%d: x" % number for number in range(2000))),
    "bare line feeds": lambda head, body, _: (head.replace(b"\r\n", b"\n"), body),
    "junk in the head": _spoilt,
}
"""Ways to spoil a head."""
