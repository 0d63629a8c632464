"""The HTTP side of the verbs: any call is answered with 200, because kube-scheduler reads no other answer.

What goes wrong goes into the answer: `Error` where there is such a field, nobody and nothing where there is none. No
verb but `bind` waits for the API server: between a decision and its reservation nothing else happens.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from inspect import isawaitable
from time import perf_counter
from typing import Any, Generic, TypeVar

from aiohttp import web
from gpuyard.common import http
from gpuyard.common.logs import get_logger
from gpuyard.extender.metrics import VerbMetrics
from gpuyard.extender.wire import Answer, Reader, Request, WireError, write

PATH = "/scheduler"
INTERNAL = "internal error of gpuyard; its log says more"

R = TypeVar("R", bound=Request)

log = get_logger()


class Unavailable(Exception):  # noqa: N818 - says what the extender is
    """Nothing can be decided now; `away` tells the caller to look for somebody else."""

    def __init__(self, why: str, *, away: bool = False) -> None:
        super().__init__(why)
        self.away = away


@dataclass(frozen=True)
class Verb(Generic[R]):
    """One verb: how its calls are read, how they are answered, and what is answered when that fails."""

    name: str
    reader: Reader[R]
    answer: Callable[[R], Answer | Awaitable[Answer]]
    failure: Callable[[str], Answer]
    from_memory: bool = True
    """Whether it is answered without waiting for anybody, so that others may well wait for the answer."""


def application(verbs: Iterable[Verb[Any]], metrics: VerbMetrics, max_body: int = http.MAX_BODY) -> web.Application:
    """The application that serves these verbs."""
    app = http.application(max_body)
    for verb in verbs:
        app.router.add_post(f"{PATH}/{verb.name}", _handler(verb, metrics))
    return app


def _handler(verb: Verb[R], metrics: VerbMetrics) -> http.Handler:
    seconds = metrics.seconds.labels(verb.name)
    fine, failed = (metrics.calls.labels(verb.name, outcome) for outcome in ("answered", "error"))

    async def handle(request: web.Request) -> web.Response:
        metrics.under_way += verb.from_memory
        try:
            return await answered(request)
        finally:
            metrics.under_way -= verb.from_memory

    async def answered(request: web.Request) -> web.Response:
        body = await _body(request)
        started = perf_counter()
        problem = await _answer(verb, body)
        if isinstance(problem, Exception):
            failed.inc()
            answer = verb.failure(str(problem))
        else:
            fine.inc()
            answer = problem
        response = web.Response(body=write(answer), content_type="application/json")
        if isinstance(problem, Unavailable) and problem.away:
            response.force_close()
        seconds.observe(perf_counter() - started)
        return response

    return handle


async def _body(request: web.Request) -> bytes | None:
    """The body; None when it is longer than we read."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        return None


async def _answer(verb: Verb[R], body: bytes | None) -> Answer | Exception:
    """The answer, or what prevents one."""
    if body is None:
        return WireError("the body is longer than gpuyard reads")
    try:
        answer = verb.answer(verb.reader.read(body))
        return await answer if isawaitable(answer) else answer
    except (WireError, Unavailable) as problem:
        return problem
    except Exception:
        log.exception("verb-failed", verb=verb.name)
        return RuntimeError(INTERNAL)
