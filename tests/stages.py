"""Runs the stages of a test run: each one's commands in turn, stages beside each other as far as the machine allows.

A stage waits for those it names in `after`; one that needs a quiet machine waits for all others. When every stage is
over, what failed is tried once more, one stage at a time. Whatever ends the run (Ctrl-C, SIGTERM, a stage's time limit)
reaches every process that a stage has started: first as Ctrl-C, so that tests take down what they brought up, then by
force.

Decided in docs/decisions.md: "Chance covers nothing".
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    alone: bool = False
    """Whether it needs a quiet machine: it comes after all others, and nothing runs beside it."""
    again: tuple[str, ...] = ()
    """Run once if a command says that tests failed, when all stages are over; then its exit code counts."""


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
    may_repeat: bool = False
    """Whether it failed only because tests did, so that these are worth another attempt."""


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
        """Run them all, then once more what failed; results in the order of the table."""
        tasks: dict[str, asyncio.Task[Result]] = {}
        for phase in _phases(stages):
            async with asyncio.TaskGroup() as group:
                for stage in phase:
                    needed = [tasks[name] for name in stage.after if name in tasks]
                    tasks[stage.name] = group.create_task(self._when_ready(stage, needed))
        return [await self._repeated(tasks[stage.name].result()) for stage in stages]

    async def _repeated(self, first: Result) -> Result:
        """Try once more what failed, now that nothing else runs; what counts is the second attempt."""
        if not first.may_repeat:
            return first
        self._tell(first.stage, "what failed is tried once more, alone")
        second = await self._run(replace(first.stage, commands=(first.stage.again,), again=()))
        return replace(second, stage=first.stage, seconds=first.seconds + second.seconds)

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
                why, code = await self._commands(stage)
        except TimeoutError:
            why, code = f"did not end within {stage.minutes:g} minutes", None
        finally:
            heartbeat.cancel()
        outcome = Outcome.FAILED if why else Outcome.PASSED
        seconds = time.monotonic() - begin
        self._tell(stage, f"{outcome} after {clock(seconds)}{': ' * bool(why)}{why}")
        may_repeat = code == TESTS_FAILED and bool(stage.again)
        return Result(stage, outcome, seconds, self._log(stage), why, may_repeat=may_repeat)

    async def _commands(self, stage: Stage) -> tuple[str, int]:
        """Run a stage's commands until one fails; the reason, if one did, and its exit code."""
        # A second attempt is written behind the first, which says what failed.
        with self._log(stage).open("ab") as log:
            for command in stage.commands:
                if code := await self._command(command, log.fileno()):
                    return f"`{' '.join(command)}` ended with {code}", code
        return "", 0

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


def _phases(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Order stages by what may run at once: those beside each other, then each that needs the machine for itself."""
    return [[stage for stage in stages if not stage.alone], *([stage] for stage in stages if stage.alone)]


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
