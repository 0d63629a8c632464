"""A process starts its parts, says when it is ready, stops in order, and never hides why it died."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from gpuyard.common.lease import StuckError
from gpuyard.common.process import Manners, PartError, Process

QUIET = Manners(ops_port=0, ops_host="127.0.0.1", drain=0, grace=1)
Body = Callable[[Process], Awaitable[None]]


async def forever() -> None:
    await asyncio.Event().wait()


async def started(process: Process) -> None:
    async with asyncio.timeout(10):
        while process.problems() == ["starting"]:
            await asyncio.sleep(0.01)


async def stopped_after(body: Body, manners: Manners = QUIET) -> None:
    """Run a process and stop it as soon as it is up."""
    process = Process("test")
    living = asyncio.create_task(process.live(body, manners))
    await started(process)
    process.stopping.set()
    await living


async def test_parts_end_last_first_before_what_they_stand_on() -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def opened(name: str) -> AsyncIterator[None]:
        yield
        ended.append(name)

    async def part(name: str) -> None:
        try:
            await forever()
        finally:
            ended.append(name)

    async def body(process: Process) -> None:
        await process.enter(opened("client"))
        process.spawn("pods", part("pods"))
        process.spawn("planner", part("planner"))

    await stopped_after(body)
    assert ended == ["planner", "pods", "client"]


async def test_it_is_ready_only_when_the_body_is_through_and_no_check_complains() -> None:
    seen = []
    complaint = "not listed yet"

    async def body(process: Process) -> None:
        process.ready_if("pods", lambda: complaint)
        seen.append(process.problems())

    process = Process("test")
    living = asyncio.create_task(process.live(body, QUIET))
    await started(process)
    seen.append(process.problems())
    complaint = ""
    seen.append(process.problems())
    process.stopping.set()
    seen.append(process.problems())
    await living
    assert seen == [["starting"], ["pods: not listed yet"], [], ["stopping"]]


async def test_it_drains_while_not_ready_before_parts_end() -> None:
    times: dict[str, float] = {}
    loop = asyncio.get_running_loop()

    async def part() -> None:
        try:
            await forever()
        finally:
            times["part ended"] = loop.time()

    async def body(process: Process) -> None:
        process.spawn("part", part())

    process = Process("test")
    living = asyncio.create_task(process.live(body, replace(QUIET, drain=0.3)))
    await started(process)
    times["asked"] = loop.time()
    process.stopping.set()
    assert process.problems() == ["stopping"]
    await living
    assert times["part ended"] - times["asked"] >= 0.29


async def test_a_part_that_dies_ends_the_process_with_its_error_and_name() -> None:
    async def dying() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("bad luck")

    async def body(process: Process) -> None:
        process.spawn("planner", dying())

    with pytest.raises(ValueError, match="bad luck") as caught:
        await Process("test").live(body, QUIET)
    assert caught.value.__notes__ == ["in part planner"]


async def test_a_part_that_ends_by_itself_ends_the_process() -> None:
    async def body(process: Process) -> None:
        process.spawn("short", asyncio.sleep(0))

    with pytest.raises(PartError, match="should not"):
        await Process("test").live(body, QUIET)


async def test_a_part_that_dies_while_the_body_still_waits_ends_the_process() -> None:
    async def body(process: Process) -> None:
        process.spawn("short", asyncio.sleep(0))
        await forever()

    with pytest.raises(PartError):
        await Process("test").live(body, QUIET)


async def test_a_body_that_fails_closes_what_it_opened() -> None:
    closed = []

    @asynccontextmanager
    async def client() -> AsyncIterator[None]:
        yield
        closed.append("client")

    async def body(process: Process) -> None:
        await process.enter(client())
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Process("test").live(body, QUIET)
    assert closed == ["client"]


async def test_a_stop_during_the_start_cancels_the_body() -> None:
    async def body(_process: Process) -> None:
        await forever()

    process = Process("test")
    asyncio.get_running_loop().call_later(0.05, process.stopping.set)
    await process.live(body, QUIET)
    assert process.problems() == ["stopping"]


async def test_a_part_that_will_not_end_is_given_up_after_the_grace() -> None:
    async def stubborn() -> None:
        for _ in range(2):
            try:
                await forever()
            except asyncio.CancelledError:
                continue

    async def body(process: Process) -> None:
        process.spawn("stubborn", stubborn())

    with pytest.raises(StuckError, match=r"did not end within 0.1 seconds"):
        await stopped_after(body, replace(QUIET, grace=0.1))


PROGRAM = """
    import asyncio, sys
    from gpuyard.common.logs import configure
    from gpuyard.common.process import Manners, run

    async def part():
        await asyncio.Event().wait()

    async def stubborn():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

    async def failing(error):
        raise error

    async def body(process):
        process.spawn("part", part())
        process.dump_with("part", lambda: {{"answer": 42}})
        {extra}

    configure("test")
    sys.exit(run("test", body, Manners(ops_port={port}, ops_host="127.0.0.1", drain=0.3, grace=2)))
"""


class Program:
    """A process of its own."""

    def __init__(self, port: int, extra: str) -> None:
        code = textwrap.dedent(PROGRAM).format(port=port, extra=extra)
        paths = os.pathsep.join(path for path in sys.path if path)
        self.port = port
        self.running = subprocess.Popen(
            [sys.executable, "-c", code], stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}
        )
        self.lines: list[dict[str, Any]] = []

    def until(self, event: str) -> dict[str, Any]:
        assert self.running.stderr
        for raw in self.running.stderr:
            self.lines.append(json.loads(raw))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]
        pytest.fail(f"no {event} in {self.lines}")

    def readyz(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz") as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def end(self) -> int:
        self.until("stopped")
        return self.running.wait(10)


@pytest.fixture
def program(unused_tcp_port: int) -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def start(extra: str = "pass") -> Program:
        started.append(Program(unused_tcp_port, extra))
        return started[-1]

    yield start
    for one in started:
        one.running.kill()
        one.running.communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_makes_it_unready_then_drains_then_exits_0(
    program: Callable[..., Program], how: signal.Signals
) -> None:
    running = program()
    running.until("started")
    assert running.readyz() == (200, "ok\n")
    running.running.send_signal(how)
    running.until("draining")
    assert running.readyz() == (503, "stopping\n")
    assert running.end() == 0


def test_sigusr2_logs_the_state_and_the_process_goes_on(program: Callable[..., Program]) -> None:
    running = program()
    running.until("started")
    running.running.send_signal(signal.SIGUSR2)
    assert running.until("state")["state"] == {"answer": 42}
    assert running.readyz()[0] == 200


@pytest.mark.parametrize(
    ("extra", "event", "code"),
    [
        ("raise ValueError('bug')", "failed", 1),
        ("from gpuyard.common.kube.errors import AccessError; raise AccessError('no way in')", "failed", 1),
        ("from gpuyard.common.settings import SettingsError; raise SettingsError('x:3: bad')", "settings-refused", 2),
    ],
)
def test_the_exit_code_and_the_log_say_why_it_ended(
    program: Callable[..., Program], extra: str, event: str, code: int
) -> None:
    running = program(extra)
    running.until(event)
    assert running.running.wait(10) == code


def test_a_process_whose_part_will_not_end_ends_all_the_same(program: Callable[..., Program]) -> None:
    running = program("process.spawn('stubborn', stubborn())")
    running.until("started")
    running.running.send_signal(signal.SIGTERM)
    assert "did not end" in running.until("failed")["reason"]
    assert running.running.wait(10) == 1


def test_work_that_outlives_its_lease_ends_the_process(program: Callable[..., Program]) -> None:
    raising = "from gpuyard.common.lease import StuckError; process.spawn('lease', failing(StuckError('must end')))"
    running = program(f"asyncio.create_task(stubborn()); {raising}")
    assert running.until("failed")["reason"] == "must end"
    assert running.running.wait(10) == 1


def test_a_port_that_is_taken_is_said_in_one_line(program: Callable[..., Program]) -> None:
    program().until("started")
    second = program()
    assert "address already in use" in second.until("failed")["reason"]
    assert second.running.wait(10) == 1
