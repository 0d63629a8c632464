"""A small HTTP server that speaks the API server's wire for one collection, and can be told to misbehave.

It serves unit tests of our own client; what the real API server does is shown in tests/cluster.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from gpuyard.common.kube.access import Access
from gpuyard.common.kube.client import Client, Timeouts
from gpuyard.common.kube.forms import Unread
from gpuyard.common.kube.protobuf import PROTOBUF
from gpuyard.common.kube.resources import PODS
from gpuyard.common.kube.watch_pb2 import Extension, Status, StatusDetails, WatchEvent

Json = dict[str, Any]
POD_LIST = PODS.within().path


@dataclass
class Request:
    """What arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401
        return msgspec.json.decode(self.body)


@dataclass
class Answer:
    """What is sent back instead of the collection, once."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    after: float = 0


def refusal(status: int, reason: str, message: str = "no", retry_after: int = 0, header: int = 0) -> Answer:
    told = {"kind": "Status", "code": status, "reason": reason, "message": message}
    if retry_after:
        told["details"] = {"retryAfterSeconds": retry_after}
    return Answer(status, msgspec.json.encode(told), {"Retry-After": str(header)} if header else {})


def wrapped(inner: bytes) -> bytes:
    """An object in protobuf, as the API server sends each: a message of which it is the second field."""
    return b"k8s\0" + Extension(raw=inner).SerializeToString().replace(b"\x0a", b"\x12", 1)


def unwrapped(raw: Unread) -> bytes:
    """What was wrapped."""
    return Extension.FromString(bytes(raw)[4:].replace(b"\x12", b"\x0a", 1)).raw


def status_of(body: bytes) -> bytes:
    """A `Status` that is given as JSON; what is none as it is."""
    if not body.startswith(b"{"):
        return body
    told = msgspec.json.decode(body)
    patience = told.get("details", {}).get("retryAfterSeconds", 0)
    details = StatusDetails(retry_after_seconds=patience)
    told = Status(code=told["code"], reason=told.get("reason"), message=told.get("message"), details=details)
    return wrapped(told.SerializeToString())


def framed(line: bytes) -> bytes:
    """An event that is given as JSON, as a frame of a protobuf watch; what is no event becomes a frame that is none."""
    if line.startswith(b"{"):
        event = msgspec.json.decode(line)
        inner = msgspec.json.encode(event["object"])
        raw = status_of(inner) if event["type"] == "ERROR" else wrapped(inner)
        line = WatchEvent(type=event["type"], object=Extension(raw=raw)).SerializeToString()
    return len(line).to_bytes(4, "big") + line


class Wire:
    """Pods by name, a log of events for watches, and the next answers to give instead."""

    def __init__(self) -> None:
        self.version = 100
        self.compacted = 0
        self.pods: dict[str, Json] = {}
        self.requests: list[Request] = []
        self.answers: deque[Answer] = deque()
        self.no_watches: Answer | None = None
        self.watching = 0
        self.protobuf = False
        """Whether watches are answered in protobuf; the objects inside stay JSON, which no form opens."""
        self.url = ""
        self._log: list[tuple[int, bytes]] = []
        self._moved = asyncio.Condition()
        self._era = 0
        self._cut = False

    def lists(self) -> list[Request]:
        return [r for r in self.requests if r.method == "GET" and r.path == POD_LIST and "watch" not in r.query]

    def watches(self) -> list[Request]:
        return [r for r in self.requests if "watch" in r.query]

    async def put(self, name: str, uid: str = "", **more: object) -> Json:
        """Create or change a pod."""
        old = self.pods.get(name)
        self.version += 1
        uid = uid or (old["metadata"]["uid"] if old else f"uid-{name}")
        meta = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(self.version)}
        pod: Json = {"metadata": meta, **more}
        self.pods[name] = pod
        await self.event("MODIFIED" if old else "ADDED", pod)
        return pod

    async def remove(self, name: str) -> None:
        pod = self.pods.pop(name)
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        await self.event("DELETED", pod)

    def lose(self, name: str) -> None:
        """Delete without an event, as happens to who is away while the log is compacted."""
        self.version += 1
        del self.pods[name]

    async def event(self, kind: str, thing: Json) -> None:
        await self.line(msgspec.json.encode({"type": kind, "object": thing}))

    async def bookmark(self) -> None:
        self.version += 1
        await self.event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}})

    async def line(self, line: bytes) -> None:
        async with self._moved:
            self._log.append((self.version, line))
            self._moved.notify_all()

    def compact(self) -> None:
        """Forget the log: who asks for an older version gets 410."""
        self.compacted = self.version
        self._log.clear()

    async def end_watches(self, *, cut: bool = False) -> None:
        """End all watches cleanly, or with a cut connection."""
        async with self._moved:
            self._era += 1
            self._cut = cut
            self._moved.notify_all()

    async def until_watched(self, times: int = 1) -> None:
        async with asyncio.timeout(10):
            while len(self.watches()) < times or not self.watching:
                await asyncio.sleep(0.005)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        seen = Request(request.method, request.path, dict(request.query), dict(request.headers), body)
        self.requests.append(seen)
        if self.answers:
            answer = self.answers.popleft()
            await asyncio.sleep(answer.after)
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        if "watch" in seen.query and self.no_watches:
            return web.Response(status=self.no_watches.status, body=self.no_watches.body)
        if "watch" in seen.query:
            return await self._watch(request, int(seen.query["resourceVersion"]))
        if seen.method == "GET" and seen.path == POD_LIST:
            return web.json_response(self._list(seen.query))
        return web.Response(body=body or b"{}")

    def _list(self, query: dict[str, str]) -> Json:
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "0")) or len(self.pods) + 1
        items = list(self.pods.values())
        rest = str(start + limit) if start + limit < len(items) else ""
        meta = {"resourceVersion": str(self.version), "continue": rest}
        return {"metadata": meta, "items": items[start : start + limit]}

    async def _watch(self, request: web.Request, version: int) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": PROTOBUF.media} if self.protobuf else None)
        await response.prepare(request)
        if version < self.compacted:
            gone = msgspec.json.encode(
                {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "old"}}
            )
            await response.write(self._written(gone))
            return response
        self.watching += 1
        try:
            async for line in self._since(version):
                await response.write(self._written(line))
        finally:
            self.watching -= 1
        if self._cut and request.transport:
            request.transport.abort()
        return response

    def _written(self, line: bytes) -> bytes:
        return framed(line) if self.protobuf else line + b"\n"

    async def _since(self, version: int) -> AsyncIterator[bytes]:
        era, sent = self._era, 0
        while era == self._era:
            for line in self._lines(version, sent):
                sent += 1
                yield line
            async with self._moved:
                if era == self._era and sent == sum(1 for _ in self._lines(version, 0)):
                    await self._moved.wait()

    def _lines(self, version: int, skip: int) -> Iterator[bytes]:
        newer = [line for at, line in self._log if at > version]
        yield from newer[skip:]


@asynccontextmanager
async def served() -> AsyncIterator[Wire]:
    wire = Wire()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", wire.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    wire.url = f"http://{host}:{port}"
    try:
        yield wire
    finally:
        await wire.end_watches()
        await runner.cleanup()


def client_of(wire: Wire, **limits: float) -> Client:
    return Client(Access(wire.url), Timeouts(**({"connect": 2, "total": 5, "idle": 5} | limits)))
