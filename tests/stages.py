"""Runs the stages of a test run: each one's commands in turn, stages beside each other as far as the machine allows.

A stage waits for those it names in `after`. Whatever ends the run (Ctrl-C, SIGTERM, a stage's time limit) reaches every
process that a stage has started: first as Ctrl-C, so that tests take down what they brought up, then by force.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

TESTS_FAILED = 1
HEARTBEAT = 30.0
GRACE = 60.0


@dataclass(frozen=True)
class Stage:
    """One line of the table in run.py."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    after: tuple[str, ...] = ()
    ground: str = ""
    """The ground whose tests it runs, if it runs tests."""
    weight: int = 1
    """How much of the machine it takes: stages run beside each other while their weights fit."""
    minutes: float = 10
    may_be_empty: bool = False
    """Whether it may pass without a test, as a ground that has no long ones."""
    again: tuple[str, ...] = ()
    """Run once if a command says that tests failed; then its exit code counts."""


class Outcome(StrEnum):
    """How a stage ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Result:
    """A stage that is over: its output is in `log`."""

    stage: Stage
    outcome: Outcome
    seconds: float
    log: Path
    why: str = ""


Say = Callable[[str], None]


def clock(seconds: float) -> str:
    """Write a time as minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


class Runner:
    """Runs stages, as many at a time as the machine's `strength` carries, and says what happens."""

    def __init__(self, logs: Path, say: Say, *, strength: int, environment: Mapping[str, str]) -> None:
        self.logs = logs
        self.say = say
        self.environment = dict(environment)
        self._free = strength
        self._freed = asyncio.Condition()
        self._begin = time.monotonic()
        logs.mkdir(parents=True, exist_ok=True)

    async def run(self, stages: Sequence[Stage]) -> list[Result]:
        """Run them all; results in the order of the table."""
        tasks: dict[str, asyncio.Task[Result]] = {}
        async with asyncio.TaskGroup() as group:
            for stage in stages:
                needed = [tasks[name] for name in stage.after if name in tasks]
                tasks[stage.name] = group.create_task(self._when_ready(stage, needed))
        return [task.result() for task in tasks.values()]

    async def _when_ready(self, stage: Stage, needed: Sequence[asyncio.Task[Result]]) -> Result:
        for result in [await task for task in needed]:
            if result.outcome is not Outcome.PASSED:
                why = f"{result.stage.name} {result.outcome}"
                self._tell(stage, f"not run: {why}")
                return Result(stage, Outcome.NOT_RUN, 0, self._log(stage), why)
        async with self._room(stage.weight):
            return await self._run(stage)

    @contextlib.asynccontextmanager
    async def _room(self, weight: int) -> AsyncIterator[None]:
        async with self._freed:
            await self._freed.wait_for(lambda: self._free >= weight)
            self._free -= weight
        try:
            yield
        finally:
            self._free += weight
            async with self._freed:
                self._freed.notify_all()

    async def _run(self, stage: Stage) -> Result:
        self._tell(stage, "starts")
        begin = time.monotonic()
        heartbeat = asyncio.create_task(self._heartbeat(stage))
        try:
            async with asyncio.timeout(stage.minutes * 60):
                why = await self._commands(stage)
        except TimeoutError:
            why = f"did not end within {stage.minutes:g} minutes"
        finally:
            heartbeat.cancel()
        outcome = Outcome.FAILED if why else Outcome.PASSED
        seconds = time.monotonic() - begin
        self._tell(stage, f"{outcome} after {clock(seconds)}{': ' * bool(why)}{why}")
        return Result(stage, outcome, seconds, self._log(stage), why)

    async def _commands(self, stage: Stage) -> str:
        """Run a stage's commands until one fails; the reason, if one did."""
        with self._log(stage).open("wb") as log:
            for command in stage.commands:
                code = await self._command(command, log.fileno())
                if code == TESTS_FAILED and stage.again:
                    self._tell(stage, "what failed is tried once more, alone")
                    code = await self._command(stage.again, log.fileno())
                if code:
                    return f"`{' '.join(command)}` ended with {code}"
        return ""

    async def _command(self, command: Sequence[str], log: int) -> int:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self.environment,
            start_new_session=True,
        )
        try:
            return await process.wait()
        finally:
            await asyncio.shield(end(process))

    async def _heartbeat(self, stage: Stage) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            self._tell(stage, f"… {_last_line(self._log(stage))}")

    def _log(self, stage: Stage) -> Path:
        return self.logs / f"{stage.name}.log"

    def _tell(self, stage: Stage, text: str) -> None:
        self.say(f"[{clock(time.monotonic() - self._begin):>6}] {stage.name:<10} {text}")


async def end(process: asyncio.subprocess.Process, grace: float = GRACE) -> None:
    """See to it that nothing of a process group is left, politely at first."""
    try:
        if process.returncode is None:
            _signal(process.pid, signal.SIGINT)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace)
    finally:
        _signal(process.pid, signal.SIGKILL)
    await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip()[-100:] for line in reversed(lines) if line.strip()), "")
