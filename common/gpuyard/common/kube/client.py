"""Calls to the API server: one method per verb, raw bytes below them, every call with its time limits.

A client never retries and never hides an answer: callers know what a repetition means. Errors are those of
`kube.errors`; `UnreachableError` may mean that a write did happen.

Decided in docs/decisions.md: "A transport of our own, kubernetes-asyncio for logging in".
"""

import asyncio
import io
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec
from gpuyard.common.kube.access import Access
from gpuyard.common.kube.errors import FencedError, UnreachableError, api_error
from gpuyard.common.kube.forms import JSON, Form
from gpuyard.common.kube.resources import Address
from gpuyard.common.version import __version__
from yarl import URL

Json = dict[str, Any]

T = TypeVar("T")

_OBJECT = msgspec.json.Decoder(Json)


class Patch(Enum):
    """How the body of a patch is meant."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, for a whole call, and for a watch to stay silent.

    On a quiet watch the server sends a bookmark about once a minute, but up to two minutes may lie between two of them.
    """

    connect: float = 5
    total: float = 30
    idle: float = 150


@dataclass(frozen=True, slots=True)
class Selector:
    """Which objects of a collection are meant; empty: all."""

    labels: str = ""
    fields: str = ""

    def params(self) -> dict[str, str]:
        """As the API wants it."""
        named = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in named.items() if value}


TIMEOUTS = Timeouts()
EVERYTHING = Selector()


class Page(msgspec.Struct):
    """One page of a list, its items still undecoded."""

    metadata: "ListMeta"
    items: list[msgspec.Raw] | None = None


class ListMeta(msgspec.Struct, rename="camel"):
    """The list's version, and where its next page starts (empty: that was the last)."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


_BIG = 1 << 20

_PAGE = msgspec.json.Decoder(Page)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    address: Address
    limit: aiohttp.ClientTimeout
    params: Mapping[str, str]
    body: object = None
    content_type: str = "application/json"
    forms: Sequence[Form] = (JSON,)
    answered_within: float | None = None
    """Seconds until the answer must begin; None: what `limit` says is enough."""

    @property
    def about(self) -> str:
        return f"{self.method} {self.address.about}"

    def headers(self) -> dict[str, str]:
        """What is sent, and in which forms the answer may come, the best first."""
        accepted = {"Accept": ", ".join(form.media for form in self.forms)}
        return accepted if self.body is None else accepted | {"Content-Type": self.content_type}

    def form_of(self, response: aiohttp.ClientResponse) -> Form:
        """The form in which the answer did come; who does not know the one wished for speaks JSON."""
        return next((form for form in self.forms if form.media == response.content_type), JSON)


class Client:
    """A connection pool to one cluster; use it with `async with`."""

    def __init__(self, access: Access, timeouts: Timeouts = TIMEOUTS, agent: str = "gpuyard") -> None:
        self.access = access
        self._timeouts = timeouts
        self._agent = f"{agent}/{__version__}"
        self._session: aiohttp.ClientSession | None = None
        self._allowed: Callable[[], bool] = lambda: True

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # Every watch holds a connection, so their number is not limited.
            connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket),
            # A compressed list costs both sides more time than the bytes do between machines of one cluster.
            headers={"User-Agent": self._agent, "Accept-Encoding": "identity"},
            read_bufsize=1 << 20,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    def fenced(self, allowed: Callable[[], bool]) -> Self:
        """This client for who may act only at times, as a leader: calls raise `FencedError` while not `allowed()`."""
        made = copy(self)
        made._allowed = allowed  # noqa: SLF001
        return made

    async def get(self, address: Address) -> Json:
        """One object."""
        return decoded(_OBJECT, address, await self.call("GET", address))

    async def items(self, address: Address, selector: Selector = EVERYTHING) -> list[Json]:
        """All objects of a collection, read page by page."""
        found: list[Json] = []
        async for page in self.pages(address, selector):
            found += [_OBJECT.decode(item) for item in page.items or ()]
        return found

    async def pages(
        self,
        address: Address,
        selector: Selector = EVERYTHING,
        limit: int = 500,
    ) -> AsyncIterator[Page]:
        """The pages of a collection, all of one version; raises `expired` when reading them takes too long.

        `limit` 0 reads all at once.
        """
        params = selector.params() | {"limit": str(limit)}
        while True:
            page = decoded(_PAGE, address, await self.call("GET", address, params=params))
            yield page
            if not page.metadata.continue_:
                return
            params["continue"] = page.metadata.continue_

    async def create(self, address: Address, body: object, **params: str) -> Json:
        """Create an object in a collection, or in a sub-resource such as `eviction` or `binding`."""
        return decoded(_OBJECT, address, await self.call("POST", address, body=body, params=params))

    async def update(self, address: Address, body: object) -> Json:
        """Replace an object; with a `resourceVersion` in it, only if nobody wrote since."""
        return decoded(_OBJECT, address, await self.call("PUT", address, body=body))

    async def patch(self, address: Address, body: object, form: Patch = Patch.MERGE, **params: str) -> Json:
        """Change a part of an object."""
        return decoded(
            _OBJECT, address, await self.call("PATCH", address, body=body, params=params, content_type=form.value)
        )

    async def apply(self, address: Address, body: object, *, manager: str, force: bool = True) -> Json:
        """Server-side apply: `body` is all that `manager` wants to own of the object."""
        return await self.patch(address, body, Patch.APPLY, fieldManager=manager, force=str(force).lower())

    async def delete(self, address: Address, *, uid: str = "", grace: int | None = None, propagation: str = "") -> Json:
        """Delete an object; with `uid`, only that very one. `grace` in seconds, None: the object's own.

        `propagation` says what becomes of what belongs to it; empty: what its kind does, which differs.
        """
        options: Json = {"propagationPolicy": propagation} if propagation else {}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return decoded(_OBJECT, address, await self.call("DELETE", address, body=options or None))

    async def call(  # noqa: PLR0913 - the parts of a request, by name
        self,
        method: str,
        address: Address,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        total: float | None = None,
    ) -> bytes:
        """Any call, as raw bytes; the status is checked. `total` seconds instead of the client's own limit."""
        limit = aiohttp.ClientTimeout(total=total or self._timeouts.total, sock_connect=self._timeouts.connect)
        request = _Request(method, address, limit, params or {}, body, content_type)
        async with self._open(request) as response:
            return await response.read()

    async def watch(
        self, address: Address, params: Mapping[str, str], forms: Sequence[Form] = (JSON,)
    ) -> AsyncGenerator[tuple[Form, list[bytes]], None]:
        """The events of a watch as they arrive, unopened, and their form: of `forms`, the best first, or JSON.

        Those of one network read come together; first there are none, when the watch stands.

        Close it when you leave it early. Ends when the server ends it, and when nothing came for the idle time: that
        alone is no error, and whether the server can be reached shows when the watch is opened again.
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect, sock_read=self._timeouts.idle)
        params = {**params, "watch": "true"}
        request = _Request("GET", address, limit, params, forms=forms, answered_within=self._timeouts.total)
        async with self._open(request) as response:
            form = request.form_of(response)
            cutter = form.cutter()
            yield form, []
            async for chunk in _until_silent(response.content):
                if frames := cutter.feed(chunk):
                    yield form, frames

    @asynccontextmanager
    async def _open(self, request: _Request) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            raise RuntimeError("use the client with `async with`")
        headers = await self.access.authorization.header()
        if not self._allowed():
            raise FencedError(f"{request.about}: not sent, we are not the leader any more")
        try:
            async with (
                asyncio.timeout(request.answered_within) as patience,
                self._session.request(
                    request.method,
                    URL(self.access.server + request.address.path, encoded=True),
                    params=request.params,
                    data=_encoded(request.body),
                    headers=headers | request.headers(),
                    ssl=self.access.tls if self.access.tls is not None else True,
                    server_hostname=self.access.server_name,
                    proxy=self.access.proxy,
                    timeout=request.limit,
                    allow_redirects=False,
                ) as response,
            ):
                patience.reschedule(None)
                await self._check(request, response)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(_why(self.access, request.about, error)) from error

    async def _check(self, request: _Request, response: aiohttp.ClientResponse) -> None:
        if response.status < HTTPStatus.MULTIPLE_CHOICES:
            return
        if response.status == HTTPStatus.UNAUTHORIZED:
            self.access.authorization.forget()
        retry_after = response.headers.get("Retry-After", "")
        body = request.form_of(response).status(await response.read())
        raise api_error(request.about, response.status, body, retry_after)


async def _until_silent(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The pieces of a body, until it ends or nothing has come for the time that its request allows."""
    with suppress(aiohttp.SocketTimeoutError):
        async for piece in content.iter_any():
            yield piece


def _encoded(body: object) -> bytes | io.BytesIO | None:
    """The body as bytes; a big one as a file, which aiohttp sends piece by piece instead of holding the loop up."""
    if body is None:
        return None
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return data if len(data) < _BIG else io.BytesIO(data)


def decoded(decoder: msgspec.json.Decoder[T], address: Address, body: bytes) -> T:
    """An answer of the API server's; what somebody else answered in its place is an `UnreachableError`."""
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise UnreachableError(
            f"{address.about}: the answer is not the API server's ({error}); is there a proxy in between?"
        ) from None


def _why(access: Access, call: str, error: Exception) -> str:
    """One sentence for people: who did not answer, on what, why, and what helps if that is known."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return (
            f"{access.server}: its certificate is not accepted: {error.__cause__ or error}; "
            f"is the certificate authority of {access.origin or 'this access'} the cluster's?"
        )
    if isinstance(error, TimeoutError):
        return f"{access.server}: no answer in time to {call}"
    return f"{access.server}: cannot be reached for {call}: {_cause(error)}"


def _cause(error: Exception) -> str:
    """What the system says, without the words that a library has put around it."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the name {error.host} is not known"
    if isinstance(error, aiohttp.ClientConnectorError) and (number := error.os_error.errno):
        return os.strerror(number).lower()
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server ended the connection"
    return str(error) or type(error).__name__


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that notices within 25 seconds that its peer has vanished without a word."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {"TCP_KEEPIDLE": 10, "TCP_KEEPALIVE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}
    for name, value in wanted.items():
        if option := getattr(socket, name, None):
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
