"""Stages run beside each other, wait for each other, and leave no process behind however they end."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.stages import Outcome, Result, Runner, Stage, clock

FAST = 0.05


def python(code: str) -> tuple[tuple[str, ...], ...]:
    return ((sys.executable, "-c", code),)


def stage(name: str, code: str = "", *, after: tuple[str, ...] = (), minutes: float = 5, alone: bool = False) -> Stage:
    return Stage(name, python(code), after=after, minutes=minutes, alone=alone)


class House:
    """A runner with its logs in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []

    async def run(self, *stages: Stage, strength: int = 2) -> list[Result]:
        return await Runner(self.folder, self.said.append, strength=strength, environment=os.environ).run(stages)

    def all_said(self) -> str:
        return "\n".join(self.said)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "logs")


def outcomes(results: Sequence[Result]) -> dict[str, Outcome]:
    return {result.stage.name: result.outcome for result in results}


async def gone(pid: int) -> bool:
    """Wait a moment for a process to be no more."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        await asyncio.sleep(FAST)
    return False


async def written(path: Path) -> str:
    """Wait for a file that a stage writes."""
    while not path.exists() or not path.read_text():
        await asyncio.sleep(FAST)
    return path.read_text()


async def test_results_come_in_the_order_of_the_table(house: House) -> None:
    results = await house.run(stage("slow", "import time; time.sleep(0.3)"), stage("quick"))
    assert list(outcomes(results).items()) == [("slow", Outcome.PASSED), ("quick", Outcome.PASSED)]


async def test_a_failed_command_fails_its_stage_and_says_which(house: House) -> None:
    failing = Stage("lint", (*python("print('first')"), *python("import sys; sys.exit(3)"), *python("print('never')")))
    [result] = await house.run(failing)
    assert result.outcome is Outcome.FAILED
    assert result.why.endswith("sys.exit(3)` ended with 3")
    assert result.log.read_text() == "first\n"


async def test_tests_that_failed_are_tried_once_more_and_then_it_is_that_which_counts(house: House) -> None:
    failing = python("import sys; print('first'); sys.exit(1)")
    for code, outcome in (("print('second')", Outcome.PASSED), ("raise SystemExit(1)", Outcome.FAILED)):
        [result] = await house.run(Stage("kind", failing, again=python(code)[0]))
        assert result.outcome is outcome
    assert house.all_said().count("what failed is tried once more, alone") == 2


async def test_a_stage_that_broke_or_passed_is_not_tried_again(house: House) -> None:
    again = python("print('never')")[0]
    broken, fine = await house.run(Stage("a", python("exit(2)"), again=again), Stage("b", python(""), again=again))
    assert (broken.outcome, fine.outcome) == (Outcome.FAILED, Outcome.PASSED)
    assert [result.log.read_text() for result in (broken, fine)] == ["", ""]


async def test_what_a_stage_prints_on_either_stream_is_in_its_log(house: House) -> None:
    [result] = await house.run(stage("unit", "import sys; print('out', flush=True); print('err', file=sys.stderr)"))
    assert result.log.read_text() == "out\nerr\n"


async def test_a_stage_waits_for_those_it_comes_after(house: House, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    first = stage("binaries", f"import time, pathlib; time.sleep(0.3); pathlib.Path({str(ready)!r}).touch()")
    second = stage("cluster", f"import os; assert os.path.exists({str(ready)!r})", after=("binaries",))
    assert outcomes(await house.run(first, second)) == {"binaries": Outcome.PASSED, "cluster": Outcome.PASSED}


async def test_a_stage_whose_ground_cannot_be_had_is_not_run_and_says_why(house: House) -> None:
    broken = stage("binaries", "raise SystemExit(1)")
    results = await house.run(broken, stage("cluster", after=("binaries",)), stage("unit"))
    assert outcomes(results) == {
        "binaries": Outcome.FAILED,
        "cluster": Outcome.NOT_RUN,
        "unit": Outcome.PASSED,
    }
    assert results[1].why == "binaries failed"
    assert "cluster    not run: binaries failed" in house.all_said()


async def test_a_stage_that_was_not_asked_for_is_not_waited_for(house: House) -> None:
    assert outcomes(await house.run(stage("cluster", after=("binaries",)))) == {"cluster": Outcome.PASSED}


async def test_what_failed_is_tried_once_more_when_all_else_is_over(house: House, tmp_path: Path) -> None:
    over = tmp_path / "over"
    failing = Stage("kind", python("raise SystemExit(1)"), again=python(f"open({str(over)!r}).close()")[0])
    slow = stage("unit", "import time; time.sleep(0.5)")
    last = stage("scale", f"open({str(over)!r}, 'w').close()", alone=True)
    results = await house.run(failing, slow, last)
    assert set(outcomes(results).values()) == {Outcome.PASSED}
    assert [result.stage for result in results] == [failing, slow, last]


async def test_a_second_attempt_is_written_behind_the_first(house: House) -> None:
    failing = python("import sys; print('first', flush=True); sys.exit(1)")
    [result] = await house.run(Stage("kind", failing, again=python("exit('second')")[0]))
    assert result.log.read_text() == "first\nsecond\n"
    assert result.why.endswith("exit('second')` ended with 1")


async def test_a_stage_that_needs_a_quiet_machine_comes_after_all_others_and_one_at_a_time(
    house: House, tmp_path: Path
) -> None:
    others = tmp_path / "others"
    busy = f"import os, time; os.mkdir({str(others)!r}); time.sleep(0.3); os.rmdir({str(others)!r})"
    results = await house.run(
        stage("first", busy, alone=True), stage("second", busy, alone=True), stage("beside", busy), strength=9
    )
    assert set(outcomes(results).values()) == {Outcome.PASSED}


async def test_a_stage_that_needs_a_quiet_machine_is_not_run_without_its_ground(house: House) -> None:
    results = await house.run(stage("binaries", "exit(1)"), stage("scale", after=("binaries",), alone=True))
    assert outcomes(results)["scale"] is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("weights", "company", "at_once"), [((1, 1, 1), (2, 2, 3), 2), ((2, 1, 1), (1, 3, 3), 2), ((2, 2, 2), (1, 2, 3), 1)]
)
async def test_stages_run_at_once_while_their_weights_fit(
    house: House, tmp_path: Path, weights: Sequence[int], company: Sequence[int], at_once: int
) -> None:
    # Each stays until so many have come as are to be there or gone, and a moment longer: one too many would be seen.
    code = f"""
import os, pathlib, time
folder = pathlib.Path({str(tmp_path)!r})
for state in ("came", "running"):
    (folder / f"{{state}}-{{os.getpid()}}").touch()
end = time.monotonic() + 60
while len(list(folder.glob("came-*"))) < %d and time.monotonic() < end:
    time.sleep(0.05)
time.sleep(0.5)
print(len(list(folder.glob("running-*"))))
(folder / f"running-{{os.getpid()}}").unlink()
"""
    stages = [
        Stage(f"stage-{number}", python(code % wanted), weight=weight)
        for number, (weight, wanted) in enumerate(zip(weights, company, strict=True))
    ]
    results = await house.run(*stages, strength=2)
    assert max(int(result.log.read_text()) for result in results) == at_once


async def test_a_stage_that_takes_too_long_is_ended(house: House) -> None:
    [result] = await house.run(stage("unit", "import time; time.sleep(60)", minutes=0.01))
    assert result.outcome is Outcome.FAILED
    assert result.why == "did not end within 0.01 minutes"


STUBBORN = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({pids!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
time.sleep({seconds})
"""


async def test_an_interrupted_run_ends_what_its_stages_have_started(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.stages.end.__defaults__", (0.2,))
    pids = tmp_path / "pids"
    run = asyncio.create_task(house.run(stage("cluster", STUBBORN.format(pids=str(pids), seconds=60))))
    started = [int(pid) for pid in (await written(pids)).split()]
    run.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await run
    assert [await gone(pid) for pid in started] == [True, True]


async def test_a_stage_leaves_no_process_behind(house: House, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    await house.run(stage("cluster", STUBBORN.format(pids=str(pids), seconds=0)))
    assert [await gone(int(pid)) for pid in pids.read_text().split()] == [True, True]


async def test_an_interrupted_stage_may_clean_up_first(house: House, tmp_path: Path) -> None:
    ready, cleaned = tmp_path / "ready", tmp_path / "cleaned"
    code = f"""
import pathlib, time
try:
    pathlib.Path({str(ready)!r}).write_text("yes")
    time.sleep(60)
finally:
    time.sleep(0.3)
    pathlib.Path({str(cleaned)!r}).write_text("yes")
"""
    run = asyncio.create_task(house.run(stage("cluster", code)))
    await written(ready)
    run.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await run
    assert cleaned.read_text() == "yes"


async def test_a_long_stage_says_where_it_is(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.stages.HEARTBEAT", FAST)
    heard = tmp_path / "heard"
    code = (
        f"import os, time; print('test 7 of 9', flush=True)\nwhile not os.path.exists({str(heard)!r}): time.sleep(0.05)"
    )
    run = asyncio.create_task(house.run(stage("unit", code)))
    while "unit       … test 7 of 9" not in house.all_said():
        assert not run.done()
        await asyncio.sleep(FAST)
    heard.touch()
    await run


@pytest.mark.parametrize(("seconds", "written"), [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3599, "59:59")])
def test_times_are_minutes_and_seconds(seconds: float, written: str) -> None:
    assert clock(seconds) == written
