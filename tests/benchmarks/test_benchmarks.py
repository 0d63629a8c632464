"""`make bench` finds the benchmarks, runs each apart, and fails when a figure misses its bar."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import benchmarks.__main__ as bench
from benchmarks import measure
from benchmarks.measure import Figure, at_least, at_most, in_loops, ratio

BENCHMARK = """
import os
from benchmarks.measure import Figure, at_most
def figures():
    process = Figure("process", 0, None, "", str(os.getpid()))
    return [process, Figure("speed", {value}, at_most(2), "loops", "one run")]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which benchmarks are looked for."""
    monkeypatch.setattr(bench, "HOME", tmp_path)
    return tmp_path


def figure(value: float, bar: measure.Bar | None) -> Figure:
    return Figure("name", value, bar, "loops", "median of 5")


@pytest.mark.parametrize(
    ("value", "bar", "kept"),
    [
        (3.2, at_most(3.2), True),
        (3.3, at_most(3.2), False),
        (0.97, at_least(0.97), True),
        (0.96, at_least(0.97), False),
        (9, None, True),
    ],
)
def test_a_figure_keeps_its_bar_or_misses_it(value: float, bar: measure.Bar | None, kept: bool) -> None:
    assert figure(value, bar).kept is kept


def test_a_missed_bar_stands_out_in_the_table() -> None:
    kept, missed = bench.rows([figure(3.14159, at_most(3.2)), figure(4, at_most(3.2))])
    assert kept.split() == ["name", "3.142", "≤", "3.2", "loops", "median", "of", "5"]
    assert "MISSED  median of 5" in missed


class Turns:
    """Works that take a known time, and the order in which they were done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[str] = []
        monkeypatch.setattr(measure, "seconds", lambda work: work())
        monkeypatch.setattr(measure, "loop", self.work("loop", 0.5))

    def work(self, name: str, seconds: float) -> Callable[[], float]:
        def take() -> float:
            self.taken.append(name)
            return seconds

        return take


def test_time_is_measured_in_loops_that_take_turns_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    assert in_loops(turns.work("work", 1.5), runs=3) == 3
    assert turns.taken == ["loop", "work"] * 3


def test_two_works_that_are_compared_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    assert ratio(turns.work("ours", 3), turns.work("theirs", 4), runs=2) == 0.75
    assert turns.taken == ["ours", "theirs"] * 2


def test_benchmarks_are_found_by_their_function(home: Path) -> None:
    (home / "engine").mkdir()
    (home / "engine" / "fill.py").write_text("def figures(): ...")
    (home / "engine" / "generate.py").write_text("def jobs(): ...")
    assert list(bench.modules([])) == ["benchmarks.engine.fill"]
    assert list(bench.modules(["fil", "other"])) == ["benchmarks.engine.fill"]
    assert list(bench.modules(["other"])) == []


def run(folder: Path, **values: float) -> subprocess.CompletedProcess[str]:
    """Run a copy of the benchmarks' own machinery on benchmarks that return these values."""
    home = folder / "benchmarks"
    home.mkdir()
    for name in ("__main__.py", "measure.py", "calibration.py"):
        (home / name).write_text((Path(bench.__file__).parent / name).read_text())
    for name, value in values.items():
        (home / f"{name}.py").write_text(BENCHMARK.format(value=value))
    command = [sys.executable, "-m", "benchmarks"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_all_bars_kept_ends_with_0_and_each_benchmark_has_its_own_process(tmp_path: Path) -> None:
    done = run(tmp_path, one=1, two=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "4 figures, 0 missed, 0 benchmarks failed"
    processes = {line.split()[-1] for line in done.stdout.splitlines() if line.startswith("process ")}
    assert len(processes) == 2


def test_a_missed_bar_ends_with_1(tmp_path: Path) -> None:
    done = run(tmp_path, one=3)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "2 figures, 1 missed, 0 benchmarks failed"


def test_a_benchmark_that_fails_is_told_and_the_others_still_run(tmp_path: Path) -> None:
    done = run(tmp_path, broken=float("nan"), fine=1)
    assert done.returncode == 1
    assert "NameError" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 figures, 0 missed, 1 benchmarks failed"


def test_nothing_measured_is_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 1
