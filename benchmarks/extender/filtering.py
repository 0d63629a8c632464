"""filter with 5,000 names over HTTP, beside an echo: the same server software, the same bytes, nothing decided."""

import asyncio
import gc
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import median, quantiles

import aiohttp
from aiohttp import web
from gpuyard.common.http import listening
from gpuyard.extender.metrics import VerbMetrics
from gpuyard.extender.server import Verb, application
from gpuyard.extender.wire import CANDIDATES, Candidates, FilterAnswer
from prometheus_client import CollectorRegistry

from benchmarks.measure import Figure, at_most
from tests.extender.builders import Bench, Json, node, pod, queue

NODES = 5000
PODS = 10_000
QUEUES = 20
CALLS = 600
"""Of each kind, taking turns."""

NAMES = [f"node-{number:04}" for number in range(NODES)]


def bench() -> Bench:
    """A cluster in use: two GPUs of eight on every node."""
    made = Bench(*(node(name) for name in NAMES), *(queue(f"q{number}") for number in range(QUEUES)))
    made.put(*(pod(f"run-{n}", f"q{n % QUEUES}", on=NAMES[n % NODES]) for n in range(PODS)))
    return made


def timed(made: Bench, into: list[float]) -> Callable[[Candidates], FilterAnswer]:
    """filter, with a note of how long it takes; each pod is gone again before the next one comes."""

    def measured(request: Candidates) -> FilterAnswer:
        begin = time.perf_counter()
        found = made.verbs.filter(request)
        into.append(time.perf_counter() - begin)
        made.ledger.end(request.pod.metadata.key, request.pod.metadata.uid)
        return found

    return measured


async def echo(request: web.Request) -> web.Response:
    """The bytes that came."""
    return web.Response(body=await request.read(), content_type="application/json")


def serve(pipe: Connection) -> None:
    """Be the server until told to stop; then tell the times of filter."""
    inside: list[float] = []
    verb = Verb("filter", CANDIDATES, timed(bench(), inside), lambda why: FilterAnswer(error=why))
    gc.collect()
    gc.freeze()
    app = application([verb], VerbMetrics(CollectorRegistry()))
    app.router.add_post("/echo", echo)

    async def run() -> None:
        async with listening(app, 0, "127.0.0.1") as port:
            pipe.send(port)
            await asyncio.to_thread(pipe.recv)

    asyncio.run(run())
    pipe.send(inside)


@contextmanager
def server() -> Iterator[Connection]:
    """A server in a process of its own; the other end of its pipe."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=serve, args=[its])
    process.start()
    yield mine
    process.join()


def call(number: int) -> bytes:
    """A call of filter for a pod that nobody has asked about before."""
    asked: Json = pod(f"p{number}", f"q{number % QUEUES}")
    return json.dumps({"Pod": asked, "Nodes": None, "NodeNames": NAMES}).encode()


async def turns(port: int) -> tuple[list[float], list[float]]:
    """The seconds that calls of filter and of the echo take, one after the other."""
    times: tuple[list[float], list[float]] = ([], [])
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        for number in range(CALLS):
            body = call(number)
            for path, found in zip(("/scheduler/filter", "/echo"), times, strict=True):
                begin = time.perf_counter()
                async with session.post(path, data=body, headers={"Content-Type": "application/json"}) as response:
                    await response.read()
                found.append(time.perf_counter() - begin)
    return times


def p99(times: list[float]) -> float:
    """What 99 of a hundred keep below."""
    return quantiles(times, n=100)[98]


def figures() -> list[Figure]:
    """Measure, print p50 beside, compare."""
    with server() as pipe:
        ours, theirs = asyncio.run(turns(pipe.recv()))
        pipe.send("stop")
        inside = pipe.recv()
    how = f"{CALLS} calls of each; p50 filter {median(ours) * 1000:.2f} ms, echo {median(theirs) * 1000:.2f} ms"
    return [
        Figure("filter, 5,000 names, p99 at the server", p99(inside) * 1000, at_most(2), "ms", "without HTTP"),
        Figure("filter, 5,000 names, p99 / p99 of an echo", p99(ours) / p99(theirs), at_most(1.5), "ratio", how),
    ]
