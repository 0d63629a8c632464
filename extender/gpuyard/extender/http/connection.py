"""One caller's connection: HTTP/1.1, each call answered where it arrives.

              head read              answered            bind: the API server is asked
    ┌──────┐ ───────────▶ ┌──────┐ ──────────▶ IDLE     ┌──────────┐
    │ IDLE │              │ BODY │ ───────────────────▶ │ AWAITING │ ──answered──▶ IDLE
    └──────┘              └──────┘    body complete     └──────────┘

A call from memory is decided and answered within `data_received`: nobody else has a turn before, the planner included.
Who sends calls without waiting for answers gets these in the order of the calls.

Whether a caller is answered is decided when the head has come. Of the body of a stranger nothing is kept, and its
connection is closed after the answer.

Decided in docs/decisions.md: "The verbs speak HTTP through httptools, all else through aiohttp"; "Calls are bounded
before they are read".
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from time import time
from typing import NamedTuple, Protocol, cast

from gpuyard.common.connections import KEEP_ALIVE
from gpuyard.common.http import SECURITY
from gpuyard.common.logs import get_logger
from gpuyard.extender.http.authentication import Gate
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

LONGEST_HEAD = 64 << 10
"""Bytes of a head, or of what else is no body; a head has a few hundred."""

ARRIVES_WITHIN = 30.0
"""Seconds in which a call has to arrive, from its first byte on. kube-scheduler gives up after two."""

STRANGERS_BODY = 1 << 20
"""So many bytes of a stranger's body are read and thrown away, so that it hears the answer: 5,000 names have 64 KiB."""

TOO_MUCH = "gpuyard holds as many unfinished calls as it may; try again"

log = get_logger()

_READ = frozenset({b"authorization", b"expect", b"host", b"transfer-encoding"})
"""The headers that say something to us; the parser sees to the others."""

_LENGTHS = frozenset(map(len, _READ))
_FIXED = "".join(f"{name}: {value}\r\n" for name, value in {**SECURITY, "Content-Type": "application/json"}.items())
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Reply(NamedTuple):
    """What is answered; with `last` nothing more is heard on this connection."""

    body: bytes = b""
    status: HTTPStatus = HTTPStatus.OK
    last: bool = False
    allow: str = ""
    """The method that would have done."""


class Route(NamedTuple):
    """Who answers the calls of one path, given the body, or None for one that is too long."""

    answer: Callable[[bytes | None], Reply | Awaitable[Reply]]
    refuse: Callable[[str], Reply]
    """What a caller is answered who is not heard, in the form of the path's answers."""
    from_memory: bool = True
    """Whether it answers without waiting for anybody."""


class Reception(Protocol):
    """What the connections of one server share."""

    def route(self, path: str) -> Route | None:
        """What answers the calls of a path; None: nothing."""

    gate: Gate
    max_body: int
    max_held: int
    held: int
    """Bytes of the bodies that are kept and not answered, of all connections together; never more than `max_held`."""
    under_way: int
    """The calls that are answered from memory, have begun and are not answered."""
    closing: bool
    connections: "set[Connection]"

    def came(self, connection: "Connection") -> None:
        """Somebody has connected; of too many one is dropped."""

    def refused(self, address: object, why: str) -> None:
        """A stranger has called."""

    def left(self) -> None:
        """A connection has ended."""


class _Call:
    """A call that is arriving, or waits for its turn."""

    __slots__ = ("_body", "close", "method", "refusal", "route", "size", "waits")

    def __init__(self, method: str, route: Route | None, refusal: str) -> None:
        self.method = method
        self.route = route
        self.refusal = refusal
        """Why it is not heard; empty: it is."""
        self.waits = False
        """Whether its answer waits for somebody else, so that no time is lost while others go on."""
        self.size = 0
        self.close = bool(refusal)
        self._body: bytes | bytearray = b""

    @property
    def counts(self) -> bool:
        """Whether others should let it go first."""
        return self.route is not None and self.route.from_memory and not (self.refusal or self.waits)

    @property
    def kept(self) -> int:
        """How many bytes of the body are kept."""
        return len(self._body)

    def take_body(self) -> bytes:
        """What has come of the body; it is kept no longer."""
        body, self._body = bytes(self._body), b""
        return body

    def keep(self, piece: bytes) -> None:
        """Keep a piece of the body."""
        if self._body:
            # In one piece, as most come, it is not copied; in many each would cost more than its bytes.
            self._body = self._body if isinstance(self._body, bytearray) else bytearray(self._body)
            self._body += piece
        else:
            self._body = piece


class Connection(asyncio.Protocol):
    """Reads the calls of one caller and writes the answers."""

    _transport: asyncio.Transport
    _timer: asyncio.TimerHandle

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._loop = asyncio.get_running_loop()
        self._parser = HttpRequestParser(self)
        self._url = b""
        self._head: dict[bytes, bytes] = {}
        self._twice = False
        """Whether a header that is read came twice."""
        self.known = False
        """Whether the caller has proven to be kube-scheduler."""
        self._begun = False
        """Whether a head is arriving."""
        self._beside = 0
        """How many bytes have come since the last that were something: a whole head, or of a body."""
        self._arriving: _Call | None = None
        self._waiting = deque[_Call]()
        self._awaiting: asyncio.Future[Reply] | None = None
        self._full = False
        """Whether the caller does not take its answers."""
        self._last = False
        """Whether nothing more is heard of this caller."""
        self.heard = self._since = self._loop.time()
        """When something came last, and when the call that is arriving began."""

    @property
    def idle(self) -> bool:
        """Whether no call is under way."""
        return not (self._begun or self._arriving or self._waiting or self._awaiting)

    def close(self) -> None:
        """Hear nothing more."""
        self._transport.close()

    def abort(self) -> None:
        """Drop it, answered or not."""
        self._transport.abort()

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self.known = self._reception.gate.by_certificate
        self._look_again()
        self._reception.came(self)

    def data_received(self, data: bytes) -> None:
        """Read what has come, and answer what is complete."""
        self.heard = self._loop.time()
        if self._last:
            return
        self._beside += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            # The call itself is answered by now; what would follow is no HTTP/1.1.
            self._finish()
        except HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST)
        if self._beside > LONGEST_HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def pause_writing(self) -> None:
        """The caller does not read its answers: then it is neither answered nor heard."""
        self._full = True
        self._listen()

    def resume_writing(self) -> None:
        """The caller has read."""
        self._full = False
        self.heard = self._loop.time()
        self._answer()
        self._listen()

    def connection_lost(self, _error: Exception | None) -> None:
        """The caller is gone: what it asked and was not answered is dropped; what was begun is brought to its end."""
        self._timer.cancel()
        for call in (self._arriving, *self._waiting):
            if call is not None:
                self._forget(call)
        self._arriving = None
        self._waiting.clear()
        self._reception.connections.discard(self)
        self._reception.left()

    def _look_again(self) -> None:
        self._timer = self._loop.call_later(min(KEEP_ALIVE, ARRIVES_WITHIN) / 10, self._close_if_late)

    def _close_if_late(self) -> None:
        """Leave who is silent for too long, or takes too long over one call, however often a byte of it comes."""
        now = self._loop.time()
        arrives = (self._begun or self._arriving) and not (self._waiting or self._awaiting or self._last)
        if arrives and now - self._since > ARRIVES_WITHIN:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        elif now - self.heard > KEEP_ALIVE and self._awaiting is None:
            # Whoever does not even take what is on its way would never be gone.
            (self.abort if self._transport.is_closing() else self.close)()
        self._look_again()

    def _listen(self) -> None:
        """Hear the caller, or let it wait: nobody is heard further while calls of its wait for an answer."""
        if self._full or self._waiting or self._last:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --- what the parser calls ---

    def on_message_begin(self) -> None:
        """The first byte of a call."""
        self._begun, self._url, self._since = True, b"", self.heard
        self._head, self._twice = {}, False

    def on_url(self, url: bytes) -> None:
        """A piece of the address."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; those after the body say nothing, since nobody looks at them any more."""
        if len(name) in _LENGTHS and (name := name.lower()) in _READ:
            self._twice = self._twice or name in self._head
            self._head[name] = value

    def on_headers_complete(self) -> None:
        """The head is complete: from now on it counts as a call, if its caller is heard."""
        self._begun, self._beside = False, 0
        if self._ambiguous():
            raise ValueError("a head that another reader might read otherwise")  # the parser stops: 400
        standing = self._reception.gate.standing(self._head.get(b"authorization", b""))
        self.known = standing.known
        route = self._reception.route(_path(self._url))
        call = self._arriving = _Call(self._parser.get_method().decode(), route, standing.refusal)
        self._reception.under_way += call.counts
        if standing.refusal:
            self._reception.refused(self._transport.get_extra_info("peername"), standing.refusal)
        elif self._head.get(b"expect", b"").lower() == b"100-continue":
            self._transport.write(_CONTINUE)

    def _ambiguous(self) -> bool:
        """Whether the head leaves open whom it is for, or where its body ends."""
        hosts = b"host" in self._head or self._parser.get_http_version() != "1.1"
        return self._twice or not hosts or self._head.get(b"transfer-encoding", b"chunked").lower() != b"chunked"

    def on_body(self, piece: bytes) -> None:
        """A piece of the body, which is kept if there is room for it and the caller is heard."""
        self._beside = 0
        call, reception = self._arriving, self._reception
        if call is None:
            return
        call.size += len(piece)
        if call.refusal:
            if call.size > STRANGERS_BODY:
                self._answer_early(call)
        elif call.size > reception.max_body:
            self._let_go(call)
        elif reception.held + len(piece) > reception.max_held:
            self._let_go(call)
            reception.under_way -= call.counts
            call.refusal = TOO_MUCH
            self._answer_early(call)
        else:
            reception.held += len(piece)
            call.keep(piece)

    def on_message_complete(self) -> None:
        """The call is complete: it is answered now, if no other one of this caller waits."""
        self._beside = 0
        if self._arriving is not None:
            keeps = self._parser.get_http_version() == "1.1" and self._parser.should_keep_alive()
            self._arriving.close = self._arriving.close or not keeps
            self._waiting.append(self._arriving)
            self._arriving = None
            self._answer()
            if self._waiting:
                self._listen()

    # --- answering ---

    def _answer(self) -> None:
        """Answer those who wait, up to the first for whom somebody else must be asked."""
        while self._waiting and self._awaiting is None and not (self._full or self._transport.is_closing()):
            call = self._waiting.popleft()
            found = self._found(call)
            if isinstance(found, Reply):
                self._reply(call, found)
            else:
                self._reception.under_way -= call.counts
                call.waits = True
                self._awaiting = asyncio.ensure_future(found)
                self._awaiting.add_done_callback(partial(self._answered, call))

    def _found(self, call: _Call) -> Reply | Awaitable[Reply]:
        self._reception.held -= call.kept
        body = call.take_body()
        if call.route is None:
            return Reply(status=HTTPStatus.NOT_FOUND)
        if call.method != "POST":
            return Reply(status=HTTPStatus.METHOD_NOT_ALLOWED, allow="POST")
        if call.refusal:
            return call.route.refuse(call.refusal)
        try:
            return call.route.answer(body if call.size <= self._reception.max_body else None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is not left without an answer
            return _failed(error)

    def _answered(self, call: _Call, done: asyncio.Future[Reply]) -> None:
        self._awaiting = None
        self._since = self._loop.time()  # what arrives meanwhile could not go on
        if done.cancelled() or self._transport.is_closing():
            self._reception.under_way -= call.counts
            self.close()
            return
        error = done.exception()
        self._reply(call, _failed(error) if error else done.result())
        self._answer()
        self._listen()

    def _reply(self, call: _Call, reply: Reply) -> None:
        self._reception.under_way -= call.counts
        last = reply.last or call.close or self._reception.closing or (self._last and not self._waiting)
        self._transport.write(_head(reply, last=last) + reply.body)
        if last:
            self.close()

    def _answer_early(self, call: _Call) -> None:
        """Answer a call before all of it has come, unless an answer to an earlier one is due, and hear no more."""
        self._arriving = None
        if not (self._waiting or self._awaiting or self._transport.is_closing()):
            found = self._found(call)
            if isinstance(found, Reply):
                self._transport.write(_head(found, last=True) + found.body)
        self._finish()

    def _let_go(self, call: _Call) -> None:
        """Keep nothing of a body."""
        self._reception.held -= call.kept
        call.take_body()

    def _forget(self, call: _Call) -> None:
        """A call that is not going to be answered counts for nothing."""
        self._let_go(call)
        self._reception.under_way -= call.counts

    def _finish(self) -> None:
        """Nothing more is heard; what was heard is still answered."""
        self._last = True
        if self._awaiting is None:
            self.close()
        else:
            self._listen()

    def _refuse(self, status: HTTPStatus) -> None:
        """What comes is no call: say so, unless an answer to an earlier one is due, and hear no more."""
        if self._awaiting is None and not self._transport.is_closing():
            self._transport.write(_head(Reply(status=status), last=True))
        self._finish()


def _failed(error: BaseException) -> Reply:
    log.error("call-failed", exc_info=error)
    return Reply(status=HTTPStatus.INTERNAL_SERVER_ERROR, last=True)


def _path(url: bytes) -> str:
    try:
        return (parse_url(url).path or b"").decode()
    except (HttpParserError, UnicodeDecodeError):
        return ""


def _head(reply: Reply, *, last: bool) -> bytes:
    """The head of an answer."""
    more = ("Connection: close\r\n" if last else "") + (f"Allow: {reply.allow}\r\n" if reply.allow else "")
    return (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\nDate: {_date(int(time()))}\r\n{_FIXED}"
        f"Content-Length: {len(reply.body)}\r\n{more}\r\n"
    ).encode()


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    """As HTTP writes it; made once a second, since it costs as much as all the rest of a head."""
    return formatdate(second, usegmt=True)
