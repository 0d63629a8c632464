"""Plays the demo: teams get queues, pods come one after the other, and each thing is told when it is seen to happen."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import yaml
from gpuyard.common.kube.client import Client
from gpuyard.common.kube.errors import ApiError
from gpuyard.common.kube.kubeconfig import load
from gpuyard.common.kube.reflector import Reflector
from gpuyard.common.kube.resources import NAMESPACES, NODES, PODS, QUEUES
from gpuyard.sandbox.demo.asking import ask, question, raising
from gpuyard.sandbox.demo.objects import Node, Pod, Queue, Scene
from gpuyard.sandbox.demo.telling import pod_line, queue_line
from gpuyard.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from gpuyard.common.kube.changes import Batch
    from gpuyard.sandbox import kind
    from gpuyard.sandbox.cluster import Cluster
    from gpuyard.sandbox.releases import Say

NAMESPACE = "quickstart"
READ_WITHIN = 90.0
DECIDED_WITHIN = 90.0
"""Seconds. A machine that has much else to do must not end a demo."""

KINDS = {resource.kind: resource for resource in (NAMESPACES, PODS, QUEUES)}


async def play(cluster: Cluster | kind.Cluster, sample: Path, say: Say) -> Scene:
    """Create the sample's queues and pods, tell what happens, return how it ended.

    What is there already stays, so a second time nothing happens, and the scene is how things are.
    """
    async with Client(await load([cluster.kubeconfig], "")) as client:
        view = View(client, say)
        async with view.watching():
            for thing in yaml.safe_load_all((sample / "1-queues.yaml").read_text()):
                await view.create(thing)
            account = ("serviceaccount/default", "--namespace", NAMESPACE)
            await asyncio.to_thread(cluster.kubectl, "wait", "--for=create", "--timeout=90s", *account)
            pods = list(yaml.safe_load_all((sample / "2-pods.yaml").read_text()))
            new = [pod["metadata"]["name"] for pod in pods if await view.submit(pod)]
            for name in new:
                if view.waits(name):
                    await _help(view, cluster, name, say)
            return view.scene()


async def _help(view: View, cluster: Cluster | kind.Cluster, name: str, say: Say) -> None:
    """Ask why a pod waits, and do what the answer advises."""
    answer = await asyncio.to_thread(ask, cluster, name, NAMESPACE)
    say(f"why? gpuyard {shlex.join(question(name, NAMESPACE))}")
    say(answer.why)
    for line in answer.advice:
        say(f"- {line}")
    if answer.limit is not None:
        patch = raising(*answer.limit)
        say(f"as advised: kubectl {shlex.join(patch)}")
        await asyncio.to_thread(cluster.kubectl, *patch)
        await view.placed(name)


class View:
    """The demo's view of the cluster, through watches."""

    def __init__(self, client: Client, say: Say) -> None:
        self._client = client
        self._say = say
        self._moved = asyncio.Event()
        self._nodes = Reflector[Node](client, NODES.within(), msgspec.json.Decoder(Node))
        self._queues = Reflector[Queue](client, QUEUES.within(), msgspec.json.Decoder(Queue))
        self._pods = Reflector[Pod](client, PODS.within(NAMESPACE), msgspec.json.Decoder(Pod))
        self._queues.subscribe(self._tell_queues)
        self._pods.subscribe(self._tell_pods)
        self._caches: list[Reflector[Any]] = [self._nodes, self._queues, self._pods]
        self._watches: list[asyncio.Task[NoReturn]] = []
        for cache in self._caches:
            cache.subscribe(lambda _: self._moved.set())

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch while the context is open."""
        self._watches = [asyncio.create_task(cache.run()) for cache in self._caches]
        for watch in self._watches:
            watch.add_done_callback(lambda _: self._moved.set())
        try:
            await self._until(lambda: not self._unread(), READ_WITHIN, self._cannot_read)
            yield
        finally:
            for watch in self._watches:
                watch.cancel()
            await asyncio.gather(*self._watches, return_exceptions=True)

    async def create(self, thing: dict[str, Any]) -> bool:
        """Create an object; whether it was not there yet."""
        try:
            namespace = thing["metadata"].get("namespace", "")
            await self._client.create(KINDS[thing["kind"]].within(namespace), thing)
        except ApiError as error:
            if not error.already_exists:
                raise
            return False
        return True

    def waits(self, name: str) -> bool:
        """Whether a pod has no node."""
        pod = self._pods.store.get(f"{NAMESPACE}/{name}")
        return pod is not None and not pod.spec.node_name

    async def placed(self, name: str) -> None:
        """Wait until a pod has a node."""
        await self._until(
            lambda: not self.waits(name),
            DECIDED_WITHIN,
            lambda: SandboxError(
                f"pod {name}",
                f"it does not run within {DECIDED_WITHIN:.0f} s, although it was done as advised",
                remedy="Look at the logs that `gpuyard sandbox status` names.",
            ),
        )

    async def submit(self, pod: dict[str, Any]) -> bool:
        """Create a pod, and wait until it runs or kube-scheduler has said why it does not; whether it is new."""
        name = pod["metadata"]["name"]
        is_new = await self.create(pod)
        await self._until(
            lambda: self._decided(name),
            DECIDED_WITHIN,
            lambda: SandboxError(
                f"pod {name}",
                f"kube-scheduler said nothing about it within {DECIDED_WITHIN:.0f} s",
                remedy="Look at the logs that `gpuyard sandbox status` names.",
            ),
        )
        return is_new

    def scene(self) -> Scene:
        """How things are."""
        pods = [pod for pod in self._pods.store.values() if pod.queue]
        queues = [queue for name, queue in self._queues.store.items() if any(pod.queue == name for pod in pods)]
        return Scene(list(self._nodes.store.values()), queues, pods)

    async def _until(self, holds: Callable[[], bool], within: float, failure: Callable[[], SandboxError]) -> None:
        """Wait until it holds; a watch that broke ends the wait with what broke it."""
        try:
            async with asyncio.timeout(within):
                while not holds():
                    for watch in self._watches:
                        if watch.done():
                            watch.result()
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            raise failure() from None

    def _unread(self) -> list[Reflector[Any]]:
        return [cache for cache in self._caches if not cache.synced]

    def _cannot_read(self) -> SandboxError:
        return SandboxError(
            "what is in the cluster",
            f"not read within {READ_WITHIN:.0f} s: {'; '.join(cache.problem for cache in self._unread())}",
            remedy="Look at the logs that `gpuyard sandbox status` names, and run the demo again.",
        )

    def _decided(self, name: str) -> bool:
        pod = self._pods.store.get(f"{NAMESPACE}/{name}")
        return pod is not None and pod.decided

    def _tell_pods(self, batch: Batch[Pod]) -> None:
        for change in batch.changes:
            if line := pod_line(change):
                self._say(line)

    def _tell_queues(self, batch: Batch[Queue]) -> None:
        for change in batch.changes:
            if line := queue_line(change):
                self._say(line)
