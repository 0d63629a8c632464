"""filter with 5,000 names over HTTP, beside an echo: the same server software, the same bytes, nothing decided.

Once with nothing else to do, once while the planner computes in the same process, as it does, one consolidation for
41 gangs after the other, and once where room is scarce and others wait. The echo has a process of its own and is left
alone. What the verb itself takes is told as well: without HTTP, and no slice of the planner comes between.
"""

import asyncio
import gc
import json
import multiprocessing
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from multiprocessing.connection import Connection
from statistics import median, quantiles
from typing import cast

import aiohttp
from aiohttp import web
from gpuyard.common import http
from gpuyard.common.connections import Bounds
from gpuyard.common.http import listening
from gpuyard.engine.model.settings import Settings
from gpuyard.engine.search.cycle import Cycle
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.http.server import Server, Verb
from gpuyard.extender.http.wire import CANDIDATES, MAX_BODY, Candidates, FilterAnswer
from gpuyard.extender.planner.decide.stepping import computed
from prometheus_client import CollectorRegistry

from benchmarks.engine.yards import to_consolidate
from benchmarks.measure import Figure, at_most
from tests.extender.builders import Bench, Json, anybody, node, pod, queue

NODES = 5000
PODS = 10_000
QUEUES = 20
PLANNED = 500
"""Nodes of the cluster for which the planner computes meanwhile."""

WAITING, FREE = 100, 50
"""So many pods wait for so many GPUs where room is scarce; half of the queues have none, so half of the calls pass."""

RUNS, CALLS = 5, 400
"""So many calls of each kind a run, taking turns; the ratio is the median of the runs': one hiccup is no verdict."""

WARM = 20
"""Calls that come before, and do not count."""

NAMES = [f"node-{number:04}" for number in range(NODES)]


def bench(*, scarce: bool) -> Bench:
    """A cluster in use: two GPUs of eight on every node, or nearly all that there are, and the planner has looked."""
    room = [2 + (n < FREE) if scarce else 8 for n in range(NODES)]
    made = Bench(*map(node, NAMES, room), *(queue(f"q{number}") for number in range(QUEUES)))
    made.put(*(pod(f"run-{n}", f"q{n % QUEUES}", on=NAMES[n % NODES]) for n in range(PODS)))
    if scarce:
        made.put(*(pod(f"first-{n}", f"q{n % (QUEUES // 2)}") for n in range(WAITING)))
        for _ in made.verbs.outrank.line_up(made.ledger.snapshot, made.config.engine):
            pass
    return made


def timed(made: Bench, into: list[float]) -> Callable[[Candidates], FilterAnswer]:
    """filter, with a note of how long it takes; after each call its pod goes and the watch shows the next one."""
    made.put(asked(0))

    def next_one(number: int) -> None:
        made.drop(asked(number))
        made.put(asked(number + 1))

    def measured(request: Candidates) -> FilterAnswer:
        begin = time.perf_counter()
        found = made.verbs.filter(request)
        into.append(time.perf_counter() - begin)
        asyncio.get_running_loop().call_soon(next_one, int(request.pod.metadata.name.removeprefix("p")))
        return cast("FilterAnswer", found)

    return measured


def asked(number: int) -> Json:
    """The pod that one call asks about."""
    return pod(f"p{number}", f"q{number % QUEUES}")


async def echo(request: web.Request) -> web.Response:
    """The bytes that came."""
    return web.Response(body=await request.read(), content_type="application/json")


async def plan(calls: Callable[[], int]) -> None:
    """Compute, beside the verbs, until cancelled."""
    snapshot = to_consolidate(PLANNED)
    while True:
        async with computed(Cycle(snapshot, Settings(max_moved=-1)), time.monotonic, calls):
            pass


async def rest() -> None:
    """Do nothing else."""


async def answer(
    listening: AbstractAsyncContextManager[int], pipe: Connection, beside: Coroutine[None, None, None]
) -> None:
    """Be a server until told to stop."""
    async with listening as port:
        work = asyncio.create_task(beside)
        pipe.send(port)
        await asyncio.to_thread(pipe.recv)
        work.cancel()


def serve(pipe: Connection, planning: bool, scarce: bool) -> None:  # noqa: FBT001 - handed to a process
    """Answer filter; then tell the times that it took."""
    inside: list[float] = []
    verb = Verb("filter", CANDIDATES, timed(bench(scarce=scarce), inside), lambda why: FilterAnswer(error=why))
    gc.collect()
    gc.freeze()
    served = Server([verb], VerbMetrics(CollectorRegistry()), anybody())
    beside = plan(lambda: served.under_way) if planning else rest()
    asyncio.run(answer(served.listening(0, "127.0.0.1"), pipe, beside))
    pipe.send(inside)


def serve_echo(pipe: Connection) -> None:
    """Answer with what came."""
    app = http.application()
    app.router.add_post("/echo", echo)
    asyncio.run(answer(listening(app, 0, "127.0.0.1", bounds=Bounds(request=MAX_BODY)), pipe, rest()))


@contextmanager
def server(work: Callable[..., None], *args: object) -> Iterator[tuple[str, Connection]]:
    """A server in a process of its own: where it answers, and the other end of its pipe."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=work, args=[its, *args])
    process.start()
    yield f"http://127.0.0.1:{mine.recv()}", mine
    process.join()


def call(number: int) -> bytes:
    """A call of filter for a pod that no call was about before."""
    thing = asked(number)
    thing["metadata"]["resourceVersion"] = "1"
    return json.dumps({"Pod": thing, "Nodes": None, "NodeNames": NAMES}).encode()


async def turns(*addresses: str) -> list[list[float]]:
    """The seconds that calls of each take, one after the other."""
    times: list[list[float]] = [[] for _ in addresses]
    async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:
        for number in range(WARM + RUNS * CALLS):
            body = call(number)
            for address, found in zip(addresses, times, strict=True):
                begin = time.perf_counter()
                async with session.post(address, data=body) as response:
                    await response.read()
                found.append(time.perf_counter() - begin)
    return [found[WARM:] for found in times]


def p99(times: Sequence[float]) -> float:
    """What 99 of a hundred keep below."""
    return quantiles(times, n=100)[98]


def compared(mine: Sequence[float], its: Sequence[float]) -> float:
    """How much longer the slow calls of one kind take than those of the other."""
    runs = [slice(begin, begin + CALLS) for begin in range(0, RUNS * CALLS, CALLS)]
    return median(p99(mine[run]) / p99(its[run]) for run in runs)


def figures_for(when: str, *, planning: bool = False, scarce: bool = False) -> list[Figure]:
    """Measure, print p50 beside, compare."""
    with server(serve, planning, scarce) as (ours, pipe), server(serve_echo) as (theirs, other):
        mine, its = asyncio.run(turns(f"{ours}/scheduler/filter", f"{theirs}/echo"))
        pipe.send("stop")
        other.send("stop")
        inside = pipe.recv()
    ours_ms, its_ms = (median(times) * 1000 for times in (mine, its))
    how = f"{RUNS} runs of {CALLS} calls of each; p50 filter {ours_ms:.2f} ms, echo {its_ms:.2f} ms"
    what, slow = f"filter, 5,000 names{when}, p99", p99(inside[WARM:]) * 1000
    # Where room is scarce half of the answers are no: those name each node with the reason, so they are longer.
    bar = None if scarce else at_most(1.5)
    return [
        Figure(f"{what} of the verb itself", slow, at_most(2), "ms", "without HTTP, and without waiting for its turn"),
        Figure(f"{what} / p99 of an echo", compared(mine, its), bar, "ratio", how),
    ]


def figures() -> list[Figure]:
    """Alone, beside the planner, and where room is scarce."""
    scarce = f", {WAITING} wait for {FREE} GPUs"
    return [*figures_for(""), *figures_for(", planning", planning=True), *figures_for(scarce, scarce=True)]
