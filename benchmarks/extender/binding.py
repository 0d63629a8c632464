"""Pods bound per second by the real kube-scheduler: asking the extender, and asking an echo that decides nothing.

One sandbox of a thousand nodes; the two take turns at the address that kube-scheduler asks. Each time pods are made
while kube-scheduler is paused; what counts is the time from then on until all are bound.
"""

import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from statistics import median

from aiohttp import web
from gpuyard.common.http import MAX_BODY, application, listening
from gpuyard.sandbox import Cluster, down
from gpuyard.sandbox.demo.stage import EXTENDER, extender_port, set_up, start_extender

from benchmarks.measure import Figure, at_least
from tests.cluster.crowd import creating, deleting, send
from tests.cluster.yard import Yard

NODES = 1000
PODS = 1500
QUEUES = 20
RUNS = 3
NAMES = 32
"""How many nodes an answer names: as many as the extender's."""

SCHEDULER = "kube-scheduler"
NAME = "bench-extender"


async def filtered(request: web.Request) -> web.Response:
    """The first few of the nodes that came."""
    names = (await request.json())["NodeNames"][:NAMES]
    return web.json_response({"NodeNames": names, "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""})


async def scored(request: web.Request) -> web.Response:
    """No points for anybody."""
    return web.json_response([{"Host": name, "Score": 0} for name in (await request.json())["NodeNames"]])


def echo(port: int) -> None:
    """Be an extender that only answers, until ended."""
    app = application(MAX_BODY)
    app.router.add_post("/scheduler/filter", filtered)
    app.router.add_post("/scheduler/prioritize", scored)

    async def run() -> None:
        async with listening(app, port, "127.0.0.1"):
            await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def asking_us(cluster: Cluster) -> Iterator[None]:
    """kube-scheduler asks the extender."""
    start_extender(cluster)
    yield
    cluster.stop(EXTENDER)


@contextmanager
def asking_an_echo(cluster: Cluster) -> Iterator[None]:
    """kube-scheduler asks the echo."""
    process = multiprocessing.get_context("spawn").Process(target=echo, args=[extender_port(cluster)])
    process.start()
    yield
    process.terminate()
    process.join()


def pods_a_second(yard: Yard, queues: list[str], run: str) -> float:
    """Have so many pods bound, and removed again."""
    yard.cluster.pause(SCHEDULER)
    pods = [yard.pod(f"{run}-{number}", queues[number % QUEUES]) for number in range(PODS)]
    send(yard.cluster.kubeconfig, map(creating, pods))
    begin = time.monotonic()
    yard.cluster.resume(SCHEDULER)
    yard.until(lambda: waiting(yard) == 0, 300, "all are bound")
    found = PODS / (time.monotonic() - begin)
    send(yard.cluster.kubeconfig, map(deleting, pods))
    return found


def waiting(yard: Yard) -> int:
    """The pods that have no node."""
    selected = ("--field-selector", "spec.nodeName=", "--output", "json", "--namespace", "default")
    return len(json.loads(yard.cluster.kubectl("get", "pods", *selected))["items"])


def measured(cluster: Cluster) -> dict[str, list[float]]:
    """Pods per second with either, in turns."""
    yard = Yard(cluster, "default")
    queues = [yard.queue(f"q{number}") for number in range(QUEUES)]
    ways: dict[str, Callable[[Cluster], AbstractContextManager[None]]] = {"us": asking_us, "echo": asking_an_echo}
    found: dict[str, list[float]] = {name: [] for name in ways}
    cluster.stop(EXTENDER)
    for run in range(RUNS):
        for name, way in ways.items():
            with way(cluster):
                found[name].append(pods_a_second(yard, queues, f"{name}-{run}"))
    return found


def figures() -> list[Figure]:
    """Measure and compare."""
    try:
        found = measured(set_up(NAME, print, nodes=NODES))
    finally:
        down(NAME)
    ours, theirs = (median(found[name]) for name in ("us", "echo"))
    how = f"{ours:.0f} and {theirs:.0f} pods a second; {PODS} pods, {RUNS} runs in turns"
    return [Figure(f"pods bound, {NODES} nodes, extender / echo", ours / theirs, at_least(0.97), "ratio", how)]
