"""Everything that `make test` runs, as one table of stages: `python -m tests.run [--quick | --soak] [STAGE ...]`.

Lint, types and unit tests run beside the making of what the grounds need; then the tests of each ground; then, one at a
time, those that need a quiet machine; at last, once more and alone, what failed. The output of a stage is in build/logs
and shown in full if it fails; build/ also has the JUnit files and rows.json.

Decided in docs/decisions.md: "One table of stages, not a build tool".
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from tests.grounds import sweep
from tests.plugins.catalog import load, merge
from tests.stages import Outcome, Result, Runner, Stage, clock
from tests.summary import Tally, rows_lines, tally, tell

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
BUSY = 2
INTERRUPTED = 130
POLL = 0.1


def tool(name: str, *options: str) -> tuple[str, ...]:
    """Make the command of a program of the environment."""
    return (str(Path(sys.executable).parent / name), *options)


# Where servers are killed, a socket may be left to the collector of garbage, in the middle of somebody else's test.
LEFT_OPEN = ("-W", "default::pytest.PytestUnraisableExceptionWarning")


def tests_on(ground: str, name: str, *options: str) -> tuple[str, ...]:
    """Make the command that runs tests of a ground and remembers under the stage's name which failed."""
    own = ("--ground", ground, "-o", f"cache_dir=build/cache-{name}", *(LEFT_OPEN if ground != "none" else ()))
    return tool("python", "-m", "pytest", "tests", *own, *options)


def stage_of(ground: str, name: str, minutes: float, *options: str, **how: Any) -> Stage:  # noqa: ANN401 - Stage's
    """Make a stage of a ground: its tests, then once more those that failed, which show no row any more."""
    first = tests_on(ground, name, f"--junit-xml=build/junit-{name}.xml", f"--rows=build/rows-{name}.json", *options)
    again = tests_on(ground, name, f"--junit-xml=build/junit-{name}-again.xml", "-v", "--once-more")
    return Stage(name, (first,), ground=ground, minutes=minutes, again=again, **how)


RUFF = (tool("ruff", "check"), tool("ruff", "format", "--check"))
LAYERS = tool("lint-imports", "--cache-dir", ".import_linter_cache")
YAML = tool("yamllint", "--strict", ".")
SPREAD = ("-n", "2", "--dist", "loadfile")

# Every branch of the engine is run by a test that says what it shows; chance does not count.
COVERED = ("tests/engine", "tests/cli", "-q", "-m", "not chance", "--cov", "--cov-config=tests/engine/coverage.ini")

# What has a limit of time that says something only on a quiet machine is marked so, and has stages of its own.
QUIET, OTHERS = ("-m", "alone"), ("-m", "not alone")

# Weights: on two cores, tests with many workers do not run beside each other, for they have time limits to keep; those
# of kind mostly wait. What is built on a machine that has nothing yet goes first, for it would slow them all.
STRENGTH = max(3, (os.cpu_count() or 2) + 1)
STAGES = (
    Stage("binaries", (tool("python", "-m", "tests.grounds", "processes"),), minutes=30),
    Stage("lint", (*RUFF, LAYERS, YAML)),
    Stage("types", (tool("mypy"),)),
    Stage("coverage", (tool("python", "-m", "pytest", *COVERED),)),
    stage_of("none", "unit", 20, "-q", *SPREAD, weight=2),
    Stage("images", (tool("python", "-m", "tests.grounds", "kind"),), after=("binaries",), weight=2, minutes=40),
    stage_of("processes", "processes", 45, "-v", *SPREAD, *OTHERS, after=("binaries",), weight=2),
    stage_of("kind", "kind", 60, "-v", *OTHERS, after=("images",)),
    stage_of("processes", "scale", 15, "-v", *QUIET, after=("binaries",), alone=True),
    stage_of("kind", "times", 15, "-v", *QUIET, after=("images",), alone=True),
)
# Before each commit: what is left to chance, and coverage by what is not, take as long again.
QUICK = tuple(
    replace(stage, commands=tuple((*command, "-m", "not chance") for command in stage.commands))
    if stage.name == "unit"
    else stage
    for stage in STAGES
    if stage.name in {"lint", "types", "unit"}
)
SOAK = tuple(
    replace(
        stage,
        commands=tuple((*command, "--soak") for command in stage.commands),
        minutes=90,
        again=(),
        may_be_empty=True,
    )
    if stage.ground
    else stage
    for stage in STAGES
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stages asked for, or all; 0 if everything passed and nothing was hidden."""
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__.partition("\n")[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(stage.name for stage in STAGES))
    parser.add_argument("--quick", action="store_true", help="lint, types, and the unit tests not left to chance")
    parser.add_argument("--soak", action="store_true", help="the tests marked soak, and only they")
    options = parser.parse_args(argv)
    if unknown := set(options.stages) - {stage.name for stage in STAGES}:
        parser.error(f"no stage {', '.join(sorted(unknown))}")
    table = SOAK if options.soak else QUICK if options.quick else STAGES
    os.chdir(ROOT)
    chosen = [stage for stage in table if stage.name in options.stages]
    if len(chosen) == 1 and not chosen[0].ground:
        return in_front(chosen[0])
    try:
        with alone():
            return in_front(chosen[0]) if len(chosen) == 1 else together(chosen or table)
    except BlockingIOError:
        sys.stderr.write(f"another test run is at work in {BUILD}: wait for its end, or run this in another checkout\n")
        return BUSY


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Be the only run that writes its reports here; raises BlockingIOError if there is one."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def in_front(stage: Stage) -> int:
    """Run one stage with its output on the terminal."""
    return next((code for code in map(_in_front, stage.commands) if code), 0)


def _in_front(command: Sequence[str]) -> int:
    # Ctrl-C reaches the command by itself, SIGTERM does not; in either case it is let clean up before we go. Both are
    # taken care of before it starts, and handed on only when it is there.
    told: list[int] = []
    with (
        heeding(signal.SIGINT, lambda *_: None),
        heeding(signal.SIGTERM, lambda number, _: told.append(number)),
        subprocess.Popen(command, env=environment()) as process,
    ):
        while process.poll() is None:
            if told:
                told.clear()
                process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL)
        return process.returncode


@contextlib.contextmanager
def heeding(number: signal.Signals, handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Take a signal in this way, for the length of the block."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def together(stages: Sequence[Stage]) -> int:
    """Run several stages beside each other, then say what they showed."""
    forget_the_last_run()
    begin = time.monotonic()
    try:
        results = asyncio.run(_run(stages))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("\ninterrupted: every stage was ended and has cleaned up")
        return INTERRUPTED
    finally:
        for name in sweep():
            say(f"removed the sandbox {name}, which a test run had left")
    return report(results, time.monotonic() - begin)


def forget_the_last_run() -> None:
    """Remove what an earlier run has left: a report that is not written again must not count."""
    for folder in (BUILD / "logs", *BUILD.glob("cache-*")):
        shutil.rmtree(folder, ignore_errors=True)
    for path in [*BUILD.glob("junit-*.xml"), *BUILD.glob("rows*.json")]:
        path.unlink(missing_ok=True)


async def _run(stages: Sequence[Stage]) -> list[Result]:
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(Runner(BUILD / "logs", say, strength=STRENGTH, environment=environment()).run(stages))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.cancel)
    return await work


def environment() -> dict[str, str]:
    """Give the stages this process's environment: lines at once, and nothing but the repository's own code."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PYTHONUNBUFFERED": "1"}


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)  # noqa: T201 - this is what the program is for


def report(results: Sequence[Result], seconds: float) -> int:
    """Show the output of what failed, then the figures; the exit code."""
    for result in results:
        if result.outcome is Outcome.FAILED:
            say(f"\n===== {result.stage.name}: {result.why}\n{result.log.read_text(errors='replace').rstrip()}")
    rows = merge(sorted(BUILD.glob("rows-*.json")))
    (BUILD / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")
    total = tally(results, BUILD)
    say("")
    for line in [*table(results), *figures(total, seconds), *rows_lines(load(ROOT / "tests" / "rows.toml"), rows)]:
        say(line)
    say(f"\n{total.closing_line()}")
    return int(bool(total.count("failed") or total.hidden()))


def table(results: Sequence[Result]) -> list[str]:
    """Write each stage with its outcome and time."""
    return [
        f"{result.stage.name:<11} {result.outcome:<8} {clock(result.seconds):>6}  {result.why}".rstrip()
        for result in results
    ]


def figures(total: Tally, seconds: float) -> list[str]:
    """Write what ran, for how long, and what was skipped that should not have been."""
    named = {
        "skipped, which hides a ground (counts as failed):": total.hidden(),
        "passed only when tried once more, and show no row:": total.repeated(),
        "failed:": total.failed(),
    }
    return [
        f"grounds     {', '.join(total.grounds())}",
        f"tests       {len(total.cases)}",
        f"time        {clock(seconds)}; the slowest tests:",
        *tell(total.slowest()),
        *(line for title, cases in named.items() if cases for line in (title, *tell(cases))),
    ]


if __name__ == "__main__":
    sys.exit(main())
