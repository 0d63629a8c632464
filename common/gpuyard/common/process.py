"""The life of a process, in one place: start the parts, serve the probes, stop cleanly.

    start ─▶ body runs, spawns parts ─▶ ready ─▶ SIGTERM: not ready ─▶ drain ─▶ parts end, last first ─▶ exit 0
                     └──────────── a part dies: say which and why ───────────▶ parts end, last first ─▶ exit 1

    async def body(process: Process) -> None:
        client = await process.enter(Client(access))
        pods = Reflector(client, PODS.within(), decoder)
        process.spawn("pods", pods.run())
        process.ready_if("pods", lambda: pods.problem if not pods.synced else "")

    sys.exit(run("gpuyard-gfd", body))

SIGUSR2 logs what the parts that were named with `dump_with` hold.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from gpuyard.common.http import OPS_PORT, listening, operations
from gpuyard.common.kube.errors import KubeError
from gpuyard.common.lease import StuckError
from gpuyard.common.logs import get_logger
from gpuyard.common.metrics import new_registry
from gpuyard.common.settings import SettingsError

T = TypeVar("T")
log = get_logger()


@dataclass(frozen=True, slots=True)
class Manners:
    """How a process behaves: the port of its probes, seconds between "not ready" and the end, seconds to end in."""

    ops_port: int = OPS_PORT
    ops_host: str | None = None
    drain: float = 0
    grace: float = 20


MANNERS = Manners()


class PartError(Exception):
    """A part that should run for ever ended."""


class Process:
    """What the body of a process uses to start its parts. They end in reverse order, each before what it stands on."""

    def __init__(self, component: str) -> None:
        self.component = component
        self.registry = new_registry(component)
        self.stopping = asyncio.Event()
        self._stack = AsyncExitStack()
        self._failure: BaseException | None = None
        self._checks: dict[str, Callable[[], str]] = {}
        self._dumps: dict[str, Callable[[], object]] = {}
        self._pages: dict[str, Callable[[], bytes]] = {}
        self._started = False

    async def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Open something that is closed when the process ends."""
        return await self._stack.enter_async_context(context)

    def spawn(self, name: str, part: Coroutine[Any, Any, object]) -> None:
        """Run something for as long as the process lives; if it ends by itself, the process ends with an error."""
        task = asyncio.create_task(part, name=name)
        task.add_done_callback(self._ended)
        self._stack.push_async_callback(_cancel, task)

    def ready_if(self, name: str, problem: Callable[[], str]) -> None:
        """`/readyz` fails while `problem()` says something."""
        self._checks[name] = problem

    def dump_with(self, name: str, state: Callable[[], object]) -> None:
        """SIGUSR2 logs `state()`."""
        self._dumps[name] = state

    def publish(self, name: str, page: Callable[[], bytes]) -> None:
        """Serve `page()`, which is JSON, under this name beside the probes."""
        self._pages[name] = page

    def problems(self) -> list[str]:
        """Why the process is not ready, one line each."""
        if self.stopping.is_set():
            return ["stopping"]
        if not self._started:
            return ["starting"]
        return [f"{name}: {problem}" for name, check in self._checks.items() if (problem := check())]

    def dump(self) -> None:
        """Log what the parts hold."""
        for name, state in self._dumps.items():
            log.info("state", part=name, state=state())

    async def live(self, body: Callable[["Process"], Awaitable[None]], manners: Manners) -> None:
        """Start, wait for the end, end. Raises what made a part or the body fail."""
        probes = operations(self.registry, self.problems, pages=self._pages)
        try:
            await self.enter(listening(probes, manners.ops_port, manners.ops_host))
            if await self._first(body(self)):
                self._started = True
                log.info("started")
                await self._first(asyncio.Event().wait())
            if not self._failure:
                log.info("draining", seconds=manners.drain)
                await asyncio.sleep(manners.drain)
        finally:
            self.stopping.set()
            await self._close(manners.grace)
        if self._failure:
            raise self._failure

    async def _first(self, coroutine: Awaitable[object]) -> bool:
        """Wait for it, but no longer than until the process ends; whether it came to its own end."""
        task, stop = asyncio.ensure_future(coroutine), asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
            return not stop.done()
        finally:
            await _cancel(stop)
            await _cancel(task)

    async def _close(self, grace: float) -> None:
        try:
            async with asyncio.timeout(grace):
                await self._stack.aclose()
        except TimeoutError:
            raise StuckError(f"the parts did not end within {grace} seconds") from None

    def _ended(self, task: asyncio.Task[object]) -> None:
        if task.cancelled():
            return
        error = task.exception() or PartError("it ended, and should not")
        error.add_note(f"in part {task.get_name()}")
        if self.stopping.is_set():
            log.warning("part-failed-while-ending", part=task.get_name(), reason=str(error))
            return
        self._failure = error
        self.stopping.set()


async def _cancel(task: asyncio.Future[Any]) -> None:
    """End a task and wait for it; how it ends is told by `_ended` or known already."""
    task.cancel()
    await asyncio.wait((task,))


def run(component: str, body: Callable[[Process], Awaitable[None]], manners: Manners = MANNERS) -> int:
    """Run a process until SIGTERM or SIGINT; returns its exit code: 0 stopped, 1 failed, 2 settings are wrong."""
    try:
        asyncio.run(_signalled(component, body, manners))
    except SettingsError as error:
        log.error("settings-refused", reason=str(error))  # noqa: TRY400
        return 2
    except (KubeError, OSError) as error:
        log.error("failed", reason=str(error), notes=getattr(error, "__notes__", []))  # noqa: TRY400
        return 1
    except Exception as error:
        log.exception("failed", notes=getattr(error, "__notes__", []))
        return 1
    log.info("stopped")
    return 0


async def _signalled(component: str, body: Callable[[Process], Awaitable[None]], manners: Manners) -> None:
    process = Process(component)
    loop = asyncio.get_running_loop()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, process.stopping.set)
    loop.add_signal_handler(signal.SIGUSR2, process.dump)
    try:
        await process.live(body, manners)
    except StuckError as error:
        log.error("failed", reason=str(error))  # noqa: TRY400
        # Whoever does not end now would keep asyncio from ending, too.
        os._exit(1)
