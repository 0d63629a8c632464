"""filter while others read /metrics of the same process as fast as they can: 5,000 nodes, 20,000 pods, 200 queues.

Calls with and without readers take turns, so that a busy machine slows both. The server, the readers and the caller
have a process each: on two cores a part of what readers cost is that they take the processor.
"""

import asyncio
import gc
import http.client
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import median, quantiles
from typing import cast

from gpuyard.common.http import listening, operations
from gpuyard.common.metrics import new_registry
from gpuyard.extender.http.metrics import VerbMetrics
from gpuyard.extender.http.server import Server, Verb
from gpuyard.extender.http.wire import CANDIDATES, Candidates, FilterAnswer
from gpuyard.extender.ledger.metrics import LedgerCollector
from gpuyard.extender.planner.metrics import PlannerMetrics

from benchmarks.measure import Figure, at_most
from tests.extender.builders import Bench, Json, anybody, node, pod, queue

NODES, PODS, QUEUES = 5000, 20_000, 200
READERS = 8
RUNS, CALLS = 5, 300
"""So many calls without readers, then with them, then again; the figures are medians of the runs'."""

CALLED = 100
"""Pods that are asked about, each again and again."""

LOCAL = "127.0.0.1"
NAMES = [f"node-{number:04}" for number in range(NODES)]
OFFERED = NAMES[:100]
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: gpuyard\r\n\r\n"


def waiting(number: int) -> Json:
    """A pod that the calls ask about."""
    return pod(f"waits-{number}", f"q{number % QUEUES}")


def bench() -> Bench:
    """A cluster in use."""
    made = Bench(*map(node, NAMES), *(queue(f"q{number}") for number in range(QUEUES)))
    made.put(*(pod(f"run-{n}", f"q{n % QUEUES}", on=NAMES[n % NODES]) for n in range(PODS)))
    made.put(*map(waiting, range(CALLED)))
    return made


async def serve(pipe: Connection) -> None:
    """Serve the verb and the metrics until told to stop."""
    made, registry = bench(), new_registry("benchmark")
    registry.register(LedgerCollector(made.ledger))
    PlannerMetrics(registry)

    def answer(request: Candidates) -> FilterAnswer:
        asyncio.get_running_loop().call_soon(made.ledger.lapse, request.pod.key, request.pod.metadata.uid)
        return cast("FilterAnswer", made.verbs.filter(request))

    verb = Verb("filter", CANDIDATES, answer, lambda why: FilterAnswer(error=why))
    server = Server([verb], VerbMetrics(registry), anybody())
    gc.collect()
    gc.freeze()
    async with (
        server.listening(0, LOCAL) as port,
        listening(operations(registry, tuple), 0, LOCAL) as ops,
    ):
        pipe.send((port, ops))
        await asyncio.to_thread(pipe.recv)


async def read_metrics(port: int, counts: list[int]) -> None:
    """Read the metrics again and again on one connection."""
    reader, writer = await asyncio.open_connection(LOCAL, port)
    while True:
        writer.write(REQUEST)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        counts[0] += 1


async def read_on_demand(pipe: Connection) -> None:
    """Start readers of a port when told to, and end them at the next word; then say how often they have read."""
    while port := await asyncio.to_thread(pipe.recv):
        counts = [0]
        readers = [asyncio.create_task(read_metrics(port, counts)) for _ in range(READERS)]
        await asyncio.to_thread(pipe.recv)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        pipe.send(counts[0])


def run_server(pipe: Connection) -> None:
    """Be the process of the server."""
    asyncio.run(serve(pipe))


def run_readers(pipe: Connection) -> None:
    """Be the process of the readers."""
    asyncio.run(read_on_demand(pipe))


@contextmanager
def process(work: Callable[[Connection], None]) -> Iterator[Connection]:
    """Run this in a process of its own; yields the other end of its pipe, on which an empty word ends it."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    started = context.Process(target=work, args=[its])
    started.start()
    yield mine
    mine.send(None)
    started.join()


def called(port: int) -> list[float]:
    """The milliseconds that calls take, one after the other."""
    connection = http.client.HTTPConnection(LOCAL, port)
    times = []
    for number in range(CALLS):
        body = json.dumps({"Pod": waiting(number % CALLED), "Nodes": None, "NodeNames": OFFERED})
        begin = time.perf_counter()
        connection.request("POST", "/scheduler/filter", body)
        connection.getresponse().read()
        times.append(1000 * (time.perf_counter() - begin))
    connection.close()
    return times


def p99(times: Sequence[float]) -> float:
    """What 99 of a hundred keep below."""
    return quantiles(times, n=100)[98]


def figures() -> list[Figure]:
    """The verb alone and beside readers."""
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    read = 0
    with process(run_server) as server, process(run_readers) as readers:
        port, ops = server.recv()
        called(port)
        for _ in range(RUNS):
            alone.append(called(port))
            readers.send(ops)
            time.sleep(0.2)
            beside.append(called(port))
            readers.send("stop")
            read += readers.recv()
    how = f"{RUNS} runs of {CALLS} calls; {read} times read meanwhile"
    quiet, busy = median(map(median, alone)), median(map(median, beside))
    return [
        Figure("filter, p50, nobody reads metrics", quiet, None, "ms", how),
        Figure("filter, p99, nobody reads metrics", median(map(p99, alone)), None, "ms", how),
        Figure(f"filter, p50, {READERS} read metrics", busy, None, "ms", how),
        Figure(f"filter, p99, {READERS} read metrics", median(map(p99, beside)), None, "ms", how),
        Figure(f"filter, p50, {READERS} read metrics / nobody", busy / quiet, at_most(5), "ratio", how),
    ]
