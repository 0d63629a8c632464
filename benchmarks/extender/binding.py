"""Pods bound per second by the real kube-scheduler: asking the extender, an echo that decides nothing, and nobody.

All take turns in one sandbox, every other time in reverse order, after one turn that does not count: the API server
ends the watches of everybody again and again until it has learnt how many events there are. Each time pods are made
while kube-scheduler is paused; what counts is the time from then on until all are bound. The echo names as many nodes
and refuses the same pods, as wordily. The watching echo reads all that the API server says of pods, too, as who decides
by them must: no extender can be cheaper than that. The pods for which nobody is asked want a twin of the GPU that
kube-scheduler is not told to ask about.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from statistics import median
from typing import NamedTuple

from aiohttp import web
from gpuyard.common.connections import Bounds
from gpuyard.common.http import application, listening
from gpuyard.common.kube.access import find_access
from gpuyard.common.kube.client import Client, Patch, Selector
from gpuyard.common.kube.protobuf import PROTOBUF
from gpuyard.common.kube.resources import NODES, PODS
from gpuyard.extender.http.wire import MAX_BODY
from gpuyard.sandbox import Cluster, down
from gpuyard.sandbox.demo.stage import EXTENDER, extender_port, set_up, start_extender

from benchmarks.measure import Bar, Figure, at_least
from tests.cluster.crowd import creating, deleting, send
from tests.cluster.yard import Json, Yard

SIZES = {1000: 1500, 5000: 1000}
"""How many pods are bound on so many nodes."""

QUEUES = 20
RUNS = 4
REST = 2.0
"""Seconds for which nothing is asked of the machine before a turn: so long others are busy with what was before."""

NAMES = 32
"""How many nodes an answer names: as many as the extender's."""

TENTH = 10
SHUT = "shut"
REFUSAL = "queue default-shut is at its limit of 0 GPUs"
TWIN = "example.com/gpu"
SCHEDULER = "kube-scheduler"
NAME = "bench-extender"

BARS: dict[str, tuple[str, str, Bar | None]] = {
    "extender / echo": ("us", "echo", at_least(0.97)),
    "extender / watching echo": ("us", "watching echo", None),
    "a tenth refused, extender / echo": ("us, a tenth refused", "echo, a tenth refused", at_least(0.97)),
    "extender / nobody asked": ("us", "nobody", None),
}
"""What is compared with what."""


class Way(NamedTuple):
    """Who is asked, and about what pods."""

    asked: Callable[[Cluster], AbstractContextManager[None]]
    resource: str = "nvidia.com/gpu"
    refused: bool = False
    """Whether a tenth of the pods is refused."""


# --- who is asked -----------------------------------------------------------------------------------------------------


async def filtered(request: web.Request) -> web.Response:
    """The first few of the nodes that came; none for who belongs to the queue that is shut."""
    asked = await request.json()
    names, refused = asked["NodeNames"], asked["Pod"]["metadata"]["labels"]["kai.scheduler/queue"].endswith(SHUT)
    found = {"NodeNames": [] if refused else names[:NAMES], "FailedNodes": {}, "Error": ""}
    return web.json_response(found | {"FailedAndUnresolvableNodes": dict.fromkeys(names, REFUSAL) if refused else {}})


async def scored(request: web.Request) -> web.Response:
    """No points for anybody."""
    return web.json_response([{"Host": name, "Score": 0} for name in (await request.json())["NodeNames"]])


async def watch(kubeconfig: str) -> None:
    """Read what the API server says of pods, as the extender does, and forget it."""
    async with Client(await find_access(kubeconfig)) as client:
        while True:
            async for _ in client.watch(PODS.within(), {}, (PROTOBUF,)):
                pass


def echo(port: int, watched: str) -> None:
    """Be an extender that only answers, until ended; with a kubeconfig it watches pods meanwhile."""
    app = application()
    app.router.add_post("/scheduler/filter", filtered)
    app.router.add_post("/scheduler/prioritize", scored)

    async def run() -> None:
        async with listening(app, port, "127.0.0.1", bounds=Bounds(request=MAX_BODY)):
            await (watch(watched) if watched else asyncio.Event().wait())

    asyncio.run(run())


@contextmanager
def asking_us(cluster: Cluster) -> Iterator[None]:
    """kube-scheduler asks the extender."""
    start_extender(cluster)
    yield
    cluster.stop(EXTENDER)


@contextmanager
def asking_an_echo(cluster: Cluster, *, watching: bool = False) -> Iterator[None]:
    """kube-scheduler asks the echo."""
    watched = str(cluster.kubeconfig) if watching else ""
    process = multiprocessing.get_context("spawn").Process(target=echo, args=[extender_port(cluster), watched])
    process.start()
    yield
    process.terminate()
    process.join()


@contextmanager
def asking_nobody(_cluster: Cluster) -> Iterator[None]:
    """kube-scheduler decides alone."""
    yield


WAYS = {
    "us": Way(asking_us),
    "echo": Way(asking_an_echo),
    "watching echo": Way(partial(asking_an_echo, watching=True)),
    "nobody": Way(asking_nobody, TWIN),
    "us, a tenth refused": Way(asking_us, refused=True),
    "echo, a tenth refused": Way(asking_an_echo, refused=True),
}


# --- what is measured -------------------------------------------------------------------------------------------------


def pods_of(yard: Yard, way: Way, queues: Sequence[str], run: str, count: int) -> tuple[list[Json], list[Json]]:
    """The pods of a run: those that can be bound, and those that cannot."""
    names = [f"{run}-{number}" for number in range(count)]
    shut = set(names[::TENTH]) if way.refused else set()
    room = [{"name": "main", "image": "pause", "resources": {"limits": {way.resource: "1"}}}]
    good = (name for name in names if name not in shut)
    return (
        [yard.pod(name, queues[number % QUEUES], containers=room) for number, name in enumerate(good)],
        [yard.pod(name, f"{yard.namespace}-{SHUT}", containers=room) for name in shut],
    )


def pods_a_second(yard: Yard, way: Way, queues: Sequence[str], run: str, count: int) -> float:
    """Have so many pods bound, and removed again."""
    good, refused = pods_of(yard, way, queues, run, count)
    yard.cluster.pause(SCHEDULER)
    send(yard.cluster.kubeconfig, map(creating, chain(good, refused)))
    time.sleep(REST)
    begin = time.monotonic()
    yard.cluster.resume(SCHEDULER)
    asyncio.run(all_bound(yard))
    found = len(good) / (time.monotonic() - begin)
    send(yard.cluster.kubeconfig, map(deleting, chain(good, refused)))
    return found


async def all_bound(yard: Yard) -> None:
    """Wait until no pod is without a node but those of the queue that is shut; to look costs next to nothing."""
    left = Selector(labels=f"kai.scheduler/queue!={yard.namespace}-{SHUT}", fields="spec.nodeName=")
    async with Client(await find_access(str(yard.cluster.kubeconfig))) as client, asyncio.timeout(600):
        while (await anext(client.pages(PODS.within(yard.namespace), left, limit=1))).items:  # noqa: ASYNC110 - no watch
            await asyncio.sleep(0.1)


async def twin(cluster: Cluster, nodes: int) -> None:
    """Give each node as many of the twin as it has GPUs."""
    room = {"capacity": {TWIN: "8"}, "allocatable": {TWIN: "8"}}
    async with Client(await find_access(str(cluster.kubeconfig))) as client:
        for number in range(1, nodes + 1):
            await client.patch(NODES.named(f"node-{number}").sub("status"), {"status": room}, Patch.MERGE)


def measured(cluster: Cluster, nodes: int) -> dict[str, list[float]]:
    """Pods per second with each way, in turns."""
    yard = Yard(cluster, "default")
    queues = [yard.queue(f"q{number}") for number in range(QUEUES)]
    yard.queue(SHUT, limit=0)
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    asyncio.run(twin(cluster, nodes))
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    cluster.stop(EXTENDER)
    pods_a_second(yard, WAYS["nobody"], queues, "first", SIZES[nodes])
    ways = list(enumerate(WAYS.items()))
    for run in range(RUNS):
        for number, (name, way) in ways[:: -1 if run % 2 else 1]:
            with way.asked(cluster):
                time.sleep(REST)
                found[name].append(pods_a_second(yard, way, queues, f"w{number}-{run}", SIZES[nodes]))
    return found


def figures() -> list[Figure]:
    """Measure and compare, at each size."""
    made: list[Figure] = []
    for nodes, count in SIZES.items():
        try:
            found = measured(set_up(NAME, print, nodes=nodes), nodes)
        finally:
            down(NAME)
        rates = {name: median(runs) for name, runs in found.items()}
        for what, (ours, theirs, bar) in BARS.items():
            how = f"{rates[ours]:.0f} and {rates[theirs]:.0f} pods a second; {count} pods, {RUNS} runs in turns"
            ratio = rates[ours] / rates[theirs]
            made.append(Figure(f"pods bound, {nodes} nodes, {what}", ratio, bar, "ratio", how))
    return made
