"""What kube-scheduler sends and what it reads: the messages of the scheduler extender protocol, version 1.

The names on the wire are Go's own (`NodeNames`, `PodUID`): no JSON tags, so Go reads them in any case, and people's
scripts write them in any case. A body is read by the exact names first, which is fast; only when something is missing
then are its keys respelt and read again. Objects of Kubernetes inside (`Pod`, `Nodes.items`) are never respelt.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from types import UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from gpuyard.common.cluster.objects import as_version
from gpuyard.engine.explain.sentences import LONGEST_SENTENCE, LONGEST_TEXT, shortened
from msgspec import UNSET, Meta, Raw, UnsetType, field
from msgspec.json import Decoder, Encoder
from msgspec.structs import fields

MAX_BODY = 32 << 20
"""Bytes of a call's body. A kube-scheduler that sends whole nodes needs 27 MiB for 5,000 of them."""


class WireError(ValueError):
    """A body that is no message of the verb; its text says what is wrong, by field."""


class Message(msgspec.Struct, rename="pascal"):
    """A message of the protocol: fields are written in Go's case."""


# --- requests ---------------------------------------------------------------------------------------------------------


class AskedMeta(msgspec.Struct, rename="camel"):
    """What names a pod, and the version of it that the caller knows."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class AskedPod(msgspec.Struct):
    """The pod of a call. Only its name is read: what is true of a pod the watch tells."""

    metadata: AskedMeta

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def version(self) -> int:
        """The version as a number; 0 where there is none, as in a hand-written call."""
        return as_version(self.metadata.resource_version)


class NodeList(msgspec.Struct):
    """Whole nodes, kept as they came: the answer hands them back byte for byte."""

    items: list[Raw] = []


class Request(Message):
    """A message from kube-scheduler."""

    @property
    def complete(self) -> bool:
        """Whether everything came that must, though each part alone may be absent."""
        return True

    @property
    def later(self) -> Iterable[Raw]:
        """What is kept as it came."""
        return ()


class Candidates(Request):
    """`filter` and `prioritize`: a pod and the nodes that are left for it, by name or whole."""

    pod: AskedPod
    nodes: NodeList | UnsetType | None = UNSET
    node_names: Raw = Raw()
    """As they came: of thousands of names only a few are ever looked at."""

    @property
    def complete(self) -> bool:
        """Whether nodes came in at least one form."""
        return self.nodes is not UNSET or self._names_begin != b""

    @property
    def later(self) -> Iterable[Raw]:
        """What is kept as it came: whole nodes go back so. Raises `WireError` for too many."""
        if self.nodes and len(self.nodes.items) > MOST_NAMES:
            raise WireError(TOO_MANY)
        return self.nodes.items if self.nodes else ()

    @property
    def whole(self) -> bool:
        """Whether the nodes came whole, so that whole ones must go back."""
        return self._names_begin in (b"", b"null")

    @property
    def _names_begin(self) -> bytes:
        return bytes(memoryview(self.node_names)[: len(b"null")])

    def by_name(self) -> Mapping[str, Raw | None]:
        """The nodes by name, in the order in which they came; whole ones with their bytes. Raises `WireError`."""
        if not self.whole and (named := Named(bytes(self.node_names))):
            return named
        try:
            return {_NODE.decode(raw).metadata.name: raw for raw in self.later}
        except _UNREADABLE as error:
            raise WireError(f"Nodes.items: {error}") from None


class Named(Mapping[str, Raw | None]):
    """Names of nodes as a mapping; of thousands only the first ones are read as long as only a few are asked for.

    Made, counted and gone through to the end it raises `WireError` for what are no names.
    """

    def __init__(self, text: bytes) -> None:
        if len(text) > MOST_NAMES * LONGEST_NAME:
            raise WireError(TOO_MANY)
        self._text = text
        plain = b"\\" not in text
        self._left = FEW if plain else 0
        end = text.rfind(b'",', 0, HEAD) if plain and len(text) > HEAD else -1
        self._first = _read_names(text if end < 0 else text[: end + 1] + b"]")
        self._all = self._first if end < 0 else None

    def __bool__(self) -> bool:
        """Whether any node came."""
        return bool(self._first)

    def __contains__(self, name: object) -> bool:
        """Whether this node came."""
        if name in self._first:
            return True
        if self._all is None and self._left > 0 and '"' not in str(name):
            self._left -= 1
            return f'"{name}"'.encode() in self._text
        return name in self._table

    def __getitem__(self, name: str) -> None:
        """Nothing: only names came."""
        if name not in self:
            raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """The names in the order in which they came."""
        return chain.from_iterable(self._parts())

    def _parts(self) -> Iterator[Iterable[str]]:
        yield self._first
        yield islice(self._table, len(self._first), None)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._table)

    @property
    def _table(self) -> dict[str, None]:
        if self._all is None:
            if self._text.count(b",") >= MOST_NAMES:
                raise WireError(TOO_MANY)
            self._all = _read_names(self._text)
        return self._all


def _read_names(text: bytes) -> dict[str, None]:
    try:
        return dict.fromkeys(_NAMES.decode(text))
    except _UNREADABLE as error:
        raise WireError(f"NodeNames: {error}") from None


class MetaPod(Message):
    """A victim, by UID."""

    uid: str = field(name="UID")


class MetaVictims(Message):
    """The victims on one node, by UID; null and absent are an empty list."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = field(name="NumPDBViolations", default=0)


class Victims(Message):
    """The victims on one node, whole."""

    pods: list[AskedPod] | None = None
    num_pdb_violations: int = field(name="NumPDBViolations", default=0)


class Preemption(Request):
    """`preempt`: for each node whom kube-scheduler would evict for the pod."""

    pod: AskedPod
    node_name_to_victims: dict[str, Victims] | UnsetType | None = UNSET
    node_name_to_meta_victims: dict[str, MetaVictims] | UnsetType | None = UNSET

    @property
    def complete(self) -> bool:
        """Whether victims came in at least one form."""
        return self.node_name_to_victims is not UNSET or self.node_name_to_meta_victims is not UNSET

    def victims(self) -> dict[str, list[str]]:
        """The UIDs of the victims by node, in whichever form they came."""
        if self.node_name_to_meta_victims:
            by_uid = self.node_name_to_meta_victims.items()
            return {node: [pod.uid for pod in victims.pods or ()] for node, victims in by_uid}
        whole = (self.node_name_to_victims or {}).items()
        return {node: [pod.metadata.uid for pod in victims.pods or ()] for node, victims in whole}


Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")]
"""A name as Kubernetes gives them to pods, namespaces and nodes: it becomes a part of an address."""


class Binding(Request):
    """`bind`: the node that kube-scheduler chose for the pod."""

    pod_name: Name
    pod_namespace: Name
    pod_uid: str = field(name="PodUID")
    node: Name


class _Metadata(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Metadata


M = TypeVar("M", bound=Request)

FEW = 16
"""So many names are looked for in the text before a table is made, which takes about as long, and more memory."""

HEAD = 2048
"""So many bytes of names are read at first: a hundred or two, more than an answer names."""

_NODE = Decoder(_Node)
_NAMES = Decoder(list[str])
_UNREADABLE = (ValueError, msgspec.MsgspecError, RecursionError)


MOST_NAMES = 20_000
"""So many names can be read and answered within a step; Kubernetes' own limit is 5,000 nodes."""

LONGEST_NAME = 256
TOO_MANY = f"more than the {MOST_NAMES} nodes that gpuyard reads"

SHORT = 256 << 10
"""Bytes that take no longer than a step, whatever they are."""

BY_HAND = 128 << 10
"""The longest body that is read in another spelling: that takes longer, and only people spell so."""


class Bound(NamedTuple):
    """The largest body of one kind: longer ones, and ones with more parts, are refused before they are read."""

    size: int
    mark: bytes
    """What each part has at least one of."""
    parts: int

    def check(self, body: bytes) -> None:
        """Raise `WireError` for a body that would take too long."""
        if len(body) > self.size or (len(body) > SHORT and body.count(self.mark) > self.parts):
            raise WireError("the call is larger than gpuyard reads")


class Reader(Generic[M]):
    """Reads the bodies of one kind of request."""

    def __init__(self, kind: type[M], bound: Bound) -> None:
        self._kind = kind
        self._bound = bound
        self._decoder = Decoder(kind)

    def read(self, body: bytes) -> M:
        """The request; raises `WireError` for a body that is none."""
        self._bound.check(body)
        try:
            message = self._decoder.decode(body)
            for part in message.later:
                bytes(part).decode()  # what is no text would make an answer that is none
            if message.complete:
                return message
        except _UNREADABLE as error:
            if len(body) > BY_HAND:
                raise WireError(str(error)) from None
            # Else perhaps only spelt in another case.
        try:
            return self._decoder.decode(msgspec.json.encode(_respell(msgspec.json.decode(body), self._kind)))
        except _UNREADABLE as error:
            raise WireError(str(error)) from None


# 5,000 whole nodes have some 1.5 million commas. Names alone are counted where they are read.
CANDIDATES = Reader(Candidates, Bound(MAX_BODY, b",", 2_000_000))
# Of 5,000 nodes kube-scheduler proposes at most 500. By UID each victim is one object, whole it is some fifty.
PREEMPTION = Reader(Preemption, Bound(8 << 20, b"{", 50_000))
BINDING = Reader(Binding, Bound(64 << 10, b"{", 1_000))


def _respell(value: Any, kind: Any) -> Any:  # noqa: ANN401 - any JSON value, any type of a field
    """`value` with the keys of its messages in Go's case; keys that no message has are dropped."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(one for one in get_args(kind) if one not in (type(None), UnsetType))
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Message | NodeList):
        known = {one.encode_name.casefold(): one for one in fields(kind)}
        pairs = ((known.get(key.casefold()), part) for key, part in value.items())
        return {one.encode_name: _respell(part, one.type) for one, part in pairs if one}
    if isinstance(value, dict) and get_origin(kind) is dict:
        return {key: _respell(part, get_args(kind)[1]) for key, part in value.items()}
    if isinstance(value, list) and get_origin(kind) is list:
        return [_respell(part, get_args(kind)[0]) for part in value]
    return value


# --- answers ----------------------------------------------------------------------------------------------------------


class OneCause(Mapping[str, str]):
    """The same sentence for each of these nodes; written without looking at each of thousands.

    Since the sentence is repeated for every node, a long one is cut: an answer must not outgrow its request by far.
    """

    def __init__(self, nodes: Collection[str], sentence: str) -> None:
        self._nodes = nodes
        self._sentence = shortened(sentence, LONGEST_SENTENCE)

    def __getitem__(self, name: str) -> str:
        """The sentence."""
        if name not in self._nodes:
            raise KeyError(name)
        return self._sentence

    def __iter__(self) -> Iterator[str]:
        """The nodes."""
        return iter(self._nodes)

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    def written(self) -> Raw:
        """The JSON of it: a list of the names, in which the sentence comes after each."""
        names = _PLAIN.encode(list(self))
        if names.count(b",") != len(self) - 1:
            # None at all, or a comma within a name.
            return Raw(_PLAIN.encode(dict(self)))
        sentence = b":" + _PLAIN.encode(self._sentence)
        return Raw(b"{" + names[1:-1].replace(b'","', b'"' + sentence + b',"') + sentence + b"}")


class FilterAnswer(Message):
    """The nodes that are left, in the form in which they came, or why none is."""

    nodes: dict[str, Any] | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: Mapping[str, str] = {}
    error: str = ""


class HostPriority(Message):
    """The points of one node, 0 to 10."""

    host: str
    score: int


class PreemptAnswer(Message):
    """Whom to evict, by node, in decreasing priority; no node: nobody."""

    node_name_to_meta_victims: dict[str, MetaVictims] = {}


class BindAnswer(Message):
    """Whether the pod is bound now: an empty text, or why not."""

    error: str = ""


Answer = FilterAnswer | list[HostPriority] | PreemptAnswer | BindAnswer


def _written(thing: object) -> Raw:
    if isinstance(thing, OneCause):
        return thing.written()
    raise NotImplementedError(f"a {type(thing).__name__} in an answer")


_PLAIN = Encoder()
_ENCODER = Encoder(enc_hook=_written)


def write(answer: Answer) -> bytes:
    """The bytes of an answer; what went wrong is told in a text that is not too long."""
    if isinstance(answer, FilterAnswer | BindAnswer):
        answer.error = shortened(answer.error, LONGEST_TEXT)
    return _ENCODER.encode(answer)


Offered = Mapping[str, Raw | None]
"""The nodes of a request, as `Candidates.by_name` gives them."""


def survivors(request: Candidates, offered: Offered, names: Iterable[str]) -> FilterAnswer:
    """Answer `filter` with these of the offered nodes."""
    if not request.whole:
        return FilterAnswer(node_names=list(names))
    return FilterAnswer(nodes={"metadata": {}, "items": [offered[name] for name in names]})


def refusal(request: Candidates, offered: Offered, sentence: str) -> FilterAnswer:
    """Answer `filter` with no node, for one cause that evicting pods would not cure."""
    answer = survivors(request, offered, ())
    answer.failed_and_unresolvable_nodes = OneCause(offered, sentence)
    return answer
